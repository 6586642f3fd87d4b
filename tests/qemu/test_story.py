# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's story, on drives of both sector sizes: every check of it must hold. Some of the demo's files are enough."""

import demo
import pytest


@pytest.mark.parametrize("sector", [512, 4096])
def test_story(boot, sector):
    machine = boot(files=True, drives=demo.drives(sector))
    part = machine.run("cd /files && ls -d ./lib/modules/*/kernel/drivers/net", check=True).out.strip()
    story = demo.Story(machine, lambda piece: print(piece, end=""), sector, part)
    story.play()
    assert story.checks >= 33
    assert story.failed == []
