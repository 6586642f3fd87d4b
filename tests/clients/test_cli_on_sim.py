# SPDX-License-Identifier: GPL-2.0-or-later
"""perchcli, all of it, on `perchd --engine=sim`: drives and a kernel that do not exist, no root.

PERCH_BUILD names the build directory (default build/dev).
"""

import json
import os
import re
import subprocess
import time

import pytest
from sim import directory, machine  # noqa: F401  (fixtures)
from test_socket import PATIENCE

GIB = 1 << 30
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB, "TiB": GIB << 10}


def wait_for(condition, what):
    """What the condition answers once it is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"in {PATIENCE} s there was no {what}")


def size_of(text):
    """"6.985 TiB" in bytes."""
    number, unit = text.split()
    return float(number) * UNITS[unit]


class Answer:
    """What one command line answered."""

    def __init__(self, done):
        self.code = done.returncode
        self.errors = done.stderr
        # Always JSON: a test that cannot parse it fails here.
        controllers = json.loads(done.stdout)["Controllers"]
        self.status = controllers[0]["Command Status"]
        self.data = controllers[0].get("Response Data", {})
        self.description = self.status["Description"]
        assert (self.code == 0) == (self.status["Status"] == "Success"), done.stdout

    def rows(self, key):
        return self.data[key]


class Cli:
    """perchcli for one simulated machine."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.quick()

    def quick(self):
        self.happens("speed 100x")  # a rebuild of 16 GiB takes a tenth of a second

    def restart(self):
        self.daemon.start()
        self.quick()

    def happens(self, line):
        """Something that happens to the simulated machine."""
        self.daemon.script(line)

    def text(self, *words):
        return self.daemon.perchcli(*words)

    def ask(self, line):
        """A command line, whatever becomes of it."""
        return Answer(self.text(*line.split(), "J"))

    def do(self, line):
        """A command line that must succeed."""
        answer = self.ask(line)
        assert answer.code == 0, f"{line}: {answer.status}"
        return answer

    def refused(self, line, code, *words):
        """A command line that must fail with that exit status, saying these words."""
        answer = self.ask(line)
        assert answer.code == code, f"{line}: {answer.status}"
        said = json.dumps(answer.status)
        for word in words:
            assert word in said, f"{line}: {said}"
        return answer

    # --- what tests look at

    def drive(self, slot):
        return self.do(f"/c0/e0/s{slot} show").rows("Drive Information")[0]

    def vd(self, number):
        return self.do(f"/c0/v{number} show all").rows("Virtual Drives")[0]

    def state(self, number):
        return self.vd(number)["VD Info"]["State"]

    def free(self):
        return [size_of(row["Size"]) for row in self.do("/c0 show freespace").rows("FREE SPACE DETAILS")]

    def settle(self):
        """Waits until no VD and no drive has anything to do, and perchd has seen the end of every resync."""
        def quiet():
            everything = self.do("/c0/vall show all").data.get("Virtual Drives", [])
            if any(vd["VD Info"]["State"] == "Optl" and vd["VD Properties"]["Consistent"] != "Yes" for vd in everything):
                return False
            vds = self.do("/c0/vall show").rows("VD Protection")
            drives = self.do("/c0/sall show rebuild").rows("Rebuild Status")
            return all(vd["Active Operations"] == "None" for vd in vds) and \
                all(drive["Status"] == "Not in progress" for drive in drives)
        wait_for(quiet, "end of all operations")

    def add(self, what):
        """Creates VDs and waits until they are in sync; their numbers."""
        numbers = [row["VDID"] for row in self.do(f"/c0 add vd {what}").rows("VD Information")]
        self.settle()
        return numbers


@pytest.fixture
def sim(machine):  # noqa: F811
    return Cli(machine("--sim-drives=12x16GiB"))


# --- creating


@pytest.mark.parametrize("what, level, members, spans, data", [
    ("r0 drives=0:0", "RAID0", 1, 1, 1),
    ("raid0 drives=0:0-3 strip=256", "RAID0", 4, 1, 4),
    ("r1 drives=0:0-1", "RAID1", 2, 1, 1),
    ("r1 drives=0:0-2", "RAID1", 3, 1, 1),
    ("r5 drives=0:0-2", "RAID5", 3, 1, 2),
    ("RAID6 drives=0:0,2,4,6,8", "RAID6", 5, 1, 3),
    ("r10 drives=0:0-5", "RAID10", 6, 3, 3),
    ("r10 drives=0:0-7 pdperarray=4", "RAID10", 8, 2, 4),
    ("r50 drives=0:0-5", "RAID50", 6, 2, 4),
    ("r50 drives=0:0-8 PDperArray=3", "RAID50", 9, 3, 6),
    ("r60 drives=0:0-7", "RAID60", 8, 2, 4),
])
def test_every_level(sim, what, level, members, spans, data):
    assert sim.add(f"{what} name=x") == [1]
    vd = sim.vd(1)
    assert vd["VD Info"]["TYPE"] == level
    assert vd["VD Info"]["State"] == "Optl"
    assert vd["VD Properties"]["Number of Drives"] == members == len(vd["PDs"])
    assert vd["VD Properties"]["Span Depth"] == spans
    assert vd["VD Properties"]["Device"] == "/dev/perch/x"
    usable = size_of(sim.drive(0)["Size"])
    size = size_of(vd["VD Info"]["Size"])
    assert 0.8 * data * usable < size <= data * usable
    topology = sim.do("/c0/d0 show").rows("TOPOLOGY")
    assert len(topology) == 1 + spans + members
    assert [row["Span"] for row in topology if row["Row"] == 0] == list(range(spans))
    sim.do("/c0/v1 del force")
    assert sim.do("/c0/dall show").rows("TOPOLOGY") == []
    assert sim.drive(0)["State"] == "UConf"


def test_several_vds_and_free_space(sim):
    assert sim.add("r5 drives=0:0-3 size=5G,3072MiB name=a,b spares=0:4") == [1, 2]
    assert [row["Name"] for row in sim.do("/c0/d0 show all").rows("VD LIST")] == ["a", "b"]
    assert 5 * GIB <= size_of(sim.vd(1)["VD Info"]["Size"]) < 5.1 * GIB
    assert 3 * GIB <= size_of(sim.vd(2)["VD Info"]["Size"]) < 3.1 * GIB
    before = sim.free()
    assert len(before) == 1 and before[0] > 20 * GIB
    # The same drives, in whatever order, mean the drive group.
    assert sim.add("r5 drives=0:3,0-2 size=10G name=c") == [3]
    assert sim.do("/c0/v3 show").rows("Virtual Drives")[0]["DG/VD"] == "0/3"
    assert sim.free()[0] < before[0] - 10 * GIB
    sim.refused("/c0 add vd r5 drives=0:0-2 size=1G", 50, "is a member of drive group 0")
    sim.refused("/c0 add vd r6 drives=0:0-3 size=1G", 3, "which is RAID5")
    sim.refused("/c0 add vd r5 drives=0:0-3 size=900G", 13)
    # A gap is free space of its own.
    sim.do("/c0/v2 delete force")
    assert len(sim.free()) == 2
    assert sim.add("r5 drives=0:0-3") == [2]
    sim.add("r5 drives=0:0-3")
    assert sim.free() == []
    sim.refused("/c0 add vd r5 drives=0:0-3", 13, "no free space", "drive group 0 is full")


@pytest.mark.parametrize("what", [
    "r5 drives=0:0-2 name=x",  # the drive group is full afterwards
    "r6 drives=0:0-4 name=x size=2G",
    "r1 drives=0:0-1 name=x,y size=2G,all spares=0:4",
    "r50 drives=0:0-8 pdperarray=3 name=x strip=128",
])
def test_repeating_add_vd_finds_what_is_there(sim, what):
    """A script that runs twice, or whose answer was lost, ends well and changes nothing."""
    made = sim.add(what)
    before = sim.do("/c0/dall show all").data
    assert sim.add(what) == made
    assert sim.do("/c0/dall show all").data == before
    sim.refused("/c0 add vd r1 drives=0:9-10 name=x", 3, "the name 'x' is taken by v1")


def test_of_several_vds_those_before_a_failure_stay(sim):
    answer = sim.refused("/c0 add vd r1 drives=0:0-1 size=2G,900T,all name=a,b,c", 13, "1 of 3 made (v1)")
    assert [row["Status"] for row in answer.rows("VD Information")] == ["Success", "Failed", "Not tried"]
    assert [row["Name"] for row in sim.do("/c0/vall show").rows("Virtual Drives")] == ["a"]
    # The rest can be made after all.
    assert sim.add("r1 drives=0:0-1 size=1G,all name=b,c") == [2, 3]


def test_drives_with_data_and_in_use(sim):
    sim.happens('foreign 6 "ext4 filesystem"')
    sim.happens('use 7 "mounted on /boot"')
    wait_for(lambda: sim.drive(6)["State"] == "JBOD", "look at the drive")
    contents = sim.do("/c0/e0/s6 show").rows("Drive Contents")
    assert "ext4 filesystem" in contents[0]["Content"]
    sim.refused("/c0 add vd r1 drives=0:5-6", 200, "ext4 filesystem")
    sim.refused("/c0 add vd r1 drives=0:7-8 force", 201, "mounted on /boot")
    assert sim.add("r1 drives=0:5-6 force") == [1]


# --- drives


def test_spares(sim):
    sim.add("r5 drives=0:0-2 spares=0:3")
    sim.add("r0 drives=0:4-5")
    sim.do("/c0/e0/s6 add hotsparedrive dgs=0")
    sim.do("/c0/e0/s7 ADD HotSpareDrive")
    assert [sim.drive(slot)["State"] for slot in (3, 6, 7)] == ["DHS", "DHS", "GHS"]
    assert [sim.drive(slot)["DG"] for slot in (3, 6, 7)] == [0, 0, "-"]
    topology = sim.do("/c0/dall show").rows("TOPOLOGY")
    assert [(row["DG"], row["EID:Slot"]) for row in topology if row["State"] in ("DHS", "GHS")] == \
        [(0, "0:3"), (0, "0:6"), ("-", "0:7")]
    assert {"0:3", "0:6"} < {row["EID:Slt"] for row in sim.do("/c0/d0 show all").rows("DG Drive LIST")}
    sim.refused("/c0/e0/s8 add hotsparedrive dgs=1", 3, "RAID0")
    sim.refused("/c0/e0/s8 add hotsparedrive dgs=7", 255, "no drive group 7")
    assert sim.ask("/c0/e0/s0 add hotsparedrive").code != 0
    sim.refused("/c0 add vd r0 drives=0:8-9 spares=0:10", 3, "no redundancy")
    sim.do("/c0/e0/s3,6,7 delete hotsparedrive")
    assert [sim.drive(slot)["State"] for slot in (3, 6, 7)] == ["UConf"] * 3
    assert sim.ask("/c0/e0/s3 delete hotsparedrive").code != 0


def test_a_member_leaves_and_another_takes_its_place(sim):
    sim.add("r10 drives=0:0-3 name=m")
    sim.refused("/c0/e0/s2 set missing", 50)
    sim.refused("/c0/e0/s2 set offline", 212, "Add 'force'")
    sim.do("/c0/e0/s2 set offline force")
    assert sim.state(1) in ("Dgrd", "Pdgd")
    sim.do("/c0/e0/s2 set missing")
    places = [row for row in sim.do("/c0/d0 show").rows("TOPOLOGY") if row["Type"] == "DRIVE"]
    assert [row["EID:Slot"] for row in places] == ["0:0", "0:1", "-", "0:3"]
    assert (places[2]["Span"], places[2]["Row"], places[2]["State"]) == (1, 0, "Msng")
    assert sim.vd(1)["PDs"][2]["EID:Slt"] == "-"
    assert sim.drive(2)["State"] == "UConf"
    sim.refused("/c0/e0/s5 insert dg=0 array=0 row=0", 50)
    sim.refused("/c0/e0/s5 insert dg=0 array=2 row=0", 255)
    sim.do("/c0/e0/s5 insert dg=0 array=1 row=0 watch")
    sim.settle()
    assert sim.state(1) == "Optl"
    assert sim.vd(1)["PDs"][2]["EID:Slt"] == "0:5"


def test_a_drive_that_is_pulled(sim):
    sim.add("r6 drives=0:0-4 name=six")
    sim.happens("pull 1")
    wait_for(lambda: sim.drive(1)["Status"] == "Missing", "notice that the drive is gone")
    assert sim.state(1) == "Pdgd"
    shown = sim.text("show")
    assert shown.returncode == 0
    assert "six" in shown.stdout.splitlines()[0]
    assert sim.do("/c0/v1 show").rows("VD Protection")[0]["Failures survived now"] == 1
    sim.happens("insert 1 same")
    wait_for(lambda: sim.drive(1)["Status"] != "Missing", "notice that the drive is back")
    sim.do("/c0/e0/s1 start rebuild watch")
    sim.settle()
    assert sim.state(1) == "Optl"


def test_jbod_and_unconfigured(sim):
    sim.add("r1 drives=0:0-1")
    sim.do("/c0/e0/s5 set jbod")
    assert sim.drive(5)["State"] == "JBOD"
    assert sim.ask("/c0 add vd r1 drives=0:4-5").code != 0
    sim.do("/c0/e0/s5 set uconf")
    assert sim.drive(5)["State"] == "UConf"
    sim.happens('foreign 6 "swap"')
    wait_for(lambda: sim.drive(6)["State"] == "JBOD", "look at the drive")
    answer = sim.refused("/c0/e0/s6 set uconf", 212)
    assert answer.description == "Set PD UConf Failed."
    assert sim.drive(6)["State"] == "JBOD"
    sim.do("/c0/e0/s6 set uconf force")
    assert sim.drive(6)["State"] == "UConf"
    assert sim.ask("/c0/e0/s0 set uconf force").code != 0
    assert sim.ask("/c0/e0/s0 set jbod force").code != 0
    assert sim.state(1) == "Optl"


def test_coercion(sim):
    def mode():
        return sim.do("/c0 show coercion").rows("Controller Properties")[0]["Value"]
    assert mode() == "2 (1 GiB)"
    sim.add("r1 drives=0:0-1 name=gib")
    for value, text in (("0", "0 (None)"), ("1", "1 (128 MiB)"), ("128M", "1 (128 MiB)"), ("none", "0 (None)")):
        sim.do(f"/c0 set coercion={value}")
        assert mode() == text
        assert sim.do("/c0 show all").data["Properties"]["Drive Coercion Mode"] == text
    sim.add("r1 drives=0:2-3 name=all")
    assert size_of(sim.vd(2)["VD Info"]["Size"]) > size_of(sim.vd(1)["VD Info"]["Size"])
    sim.refused("/c0 set coercion=3", 3)


# --- VDs


def test_rename(machine, directory):  # noqa: F811
    sim = Cli(machine("--sim-drives=4x4GiB", f"--sim-dir={directory}/drives"))
    sim.add("r1 drives=0:0-1 size=512M,256M name=one,two")
    sim.do("/c0/v1 set name=uno")
    assert sim.vd(1)["VD Info"]["Name"] == "uno"
    assert sim.vd(1)["VD Properties"]["Device"] == "/dev/perch/uno"
    sim.refused("/c0/v1 set name=two", 3, "v2 (two) has that name")
    sim.refused("/c0/v1 set name=bad/name", 3)
    sim.refused("/c0/v1,2 set name=x", 3)
    sim.refused("/c0/v9 set name=x", 255)
    # A restart finds it as it was left.
    sim.daemon.end()
    sim.restart()
    wait_for(lambda: sim.state(1) == "Optl", "start of the VD")
    assert sim.vd(1)["VD Info"]["Name"] == "uno"


def test_initialization(sim):
    sim.add("r5 drives=0:0-2 name=v")
    sim.refused("/c0/v1 start init", 212, "Add 'force'")
    sim.do("/c0/v1 start init force")
    sim.settle()
    done = sim.text("/c0/v1", "start init full watch force")
    assert done.returncode == 0, done.stdout
    assert "Start INIT Operation Success" in done.stdout
    sim.settle()
    row = sim.do("/c0/v1 show init").rows("VD Operation Status")[0]
    assert (row["VD"], row["Operation"], row["Progress%"], row["Status"]) == (1, "INIT", "-", "Not in progress")
    assert sim.ask("/c0/v1 stop init").code == 50
    # Slowly enough to be seen and stopped.
    sim.happens("speed 1x")
    sim.do("/c0/v1 start init full force")
    row = sim.do("/c0/v1 show init").rows("VD Operation Status")[0]
    assert row["Status"] == "In progress" and row["Progress%"] < 100
    sim.do("/c0/v1 stop init")
    assert sim.do("/c0/v1 show init").rows("VD Operation Status")[0]["Status"] == "Not in progress"
    sim.happens("speed 100x")
    sim.happens("open v")
    sim.refused("/c0/v1 start init force", 201)
    sim.happens("close v")


def test_consistency_check(sim):
    sim.add("r5 drives=0:0-2 name=p")
    sim.add("r0 drives=0:4-5 name=z")
    done = sim.text("/c0/v1", "start", "cc", "watch")
    assert done.returncode == 0, done.stdout
    assert "v1 (p): the last check found 0 mismatched sectors" in done.stdout
    assert sim.vd(1)["VD Properties"]["Mismatched Sectors"] == 0
    assert sim.do("/c0/v1 show cc").rows("CC Result")[0]["Mismatched Sectors"] == 0
    assert sim.ask("/c0/v2 start cc").code != 0
    sim.happens("speed 1x")
    sim.do("/c0/v1 start consistencycheck")
    row = sim.do("/c0/v1 show cc").rows("VD Operation Status")[0]
    assert (row["Operation"], row["Status"]) == ("CC", "In progress")
    sim.do("/c0/v1 stop cc")
    assert sim.do("/c0/v1 show cc").rows("VD Operation Status")[0]["Status"] == "Not in progress"
    sim.happens("speed 100x")
    sim.do("/c0/e0/s0 set offline force")
    assert sim.ask("/c0/v1 start cc").code != 0


def test_deleting(sim):
    sim.add("r1 drives=0:0-1 size=1G,1G,1G name=a,b,c")
    sim.refused("/c0/v1 del", 212)
    sim.refused("/c0/v1,7 del force", 255, "Invalid VD number")
    sim.happens("open b")
    wait_for(lambda: sim.ask("/c0/v2 del force").code == 201, "refusal to delete a VD in use")
    sim.happens("close b")
    sim.do("/c0/v1 del force")
    sim.do("/c0/vall delete force")
    assert sim.do("/c0/vall show").description == "No VDs have been configured."


# --- foreign configurations


def machine_with_foreign(machine, directory, slots):  # noqa: F811
    """A machine with a VD "data" of its own, and drives of another machine's VD "data" in it."""
    theirs, ours = os.path.join(directory, "theirs"), os.path.join(directory, "ours")
    other = Cli(machine("--sim-drives=4x4GiB", f"--sim-dir={theirs}"))
    other.add("r5 drives=0:0-3 name=data size=1G")
    other.daemon.end()
    cli = Cli(machine("--sim-drives=8x4GiB", f"--sim-dir={ours}"))
    cli.add("r6 drives=0:0-4 name=data size=1G")  # more drives than the other's: this is c0
    cli.daemon.end()
    with open(f"{theirs}/drives", encoding="ascii") as listed, open(f"{ours}/drives", "a", encoding="ascii") as drives:
        for line in listed:
            serial, slot, *rest = line.split()
            if int(slot) in slots:
                # Serial numbers of two simulations are the same; drives of one machine have their own. The files are
                # as large as drives, and nearly empty.
                subprocess.run(["cp", "--sparse=always", f"{theirs}/{serial}.drive", f"{ours}/OTHER{slot}.drive"],
                               check=True)
                drives.write(" ".join([f"OTHER{slot}", str(10 + int(slot)), *rest]) + "\n")
    cli.restart()
    wait_for(lambda: cli.ask("/c0/fall show").data.get("Total foreign Drive Groups"), "foreign configuration")
    return cli


def test_foreign_import(machine, directory):  # noqa: F811
    sim = machine_with_foreign(machine, directory, [0, 1, 2])
    rows = sim.do("/c0/fall show").rows("FOREIGN CONFIGURATION")
    assert (rows[0]["DG"], rows[0]["Type"], rows[0]["State"], rows[0]["NoVDs"]) == (0, "RAID5", "Frgn", 1)
    assert [sim.drive(slot)["DG"] for slot in (10, 11, 12)] == ["F", "F", "F"]
    full = sim.do("/c0/f0 show all").rows("Foreign Drive Groups")[0]
    assert len(full["Drives"]) == 3
    preview = sim.do("/c0/fall import preview").rows("Foreign Import Preview")[0]
    assert preview["Foreign Drive Group"]["Import possible"] == "Yes"
    assert "s3" in preview["Foreign Drive Group"]["Missing drives"]
    vd = preview["VD LIST"][0]
    assert (vd["Name"], vd["State after import"]) == ("data", "Degraded")
    assert vd["Name after import"] not in ("data", "")
    assert sim.ask("/c0 add vd r1 drives=0:10-11").code == 200
    imported = sim.do("/c0/fall import")
    assert imported.description == "Successfully imported foreign configuration"
    row = imported.rows("VD LIST")[0]
    assert row["Name"] == vd["Name after import"]
    number = int(row["DG/VD"].split("/")[1])
    wait_for(lambda: sim.state(number) == "Dgrd", "start of the imported VD")
    assert sim.do("/c0/fall show").description == "No foreign configuration found."
    sim.refused("/c0/fall import", 50, "No foreign configuration found.")
    # It is ours now, and whole again with one of our drives.
    group = int(row["DG/VD"].split("/")[0])
    sim.do(f"/c0/e0/s6 insert dg={group} array=0 row=3 watch")
    sim.settle()
    assert sim.state(number) == "Optl"


def test_foreign_incomplete_and_cleared(machine, directory):  # noqa: F811
    sim = machine_with_foreign(machine, directory, [0, 1])
    preview = sim.do("/c0/f0 import preview").rows("Foreign Import Preview")[0]
    assert preview["Foreign Drive Group"]["Import possible"] == "No"
    assert preview["VD LIST"][0]["State after import"] == "Offline"
    sim.refused("/c0/f0 import", 50, "Incomplete foreign configuration")
    sim.refused("/c0/f3 import", 255)
    sim.refused("/c0/f0 del", 212)
    assert sim.do("/c0/fall show").data["Total foreign Drive Groups"] == 1
    assert sim.do("/c0/f0 del force").description == "Successfully deleted foreign configuration"
    assert sim.do("/c0/fall show").description == "No foreign configuration found."
    assert [sim.drive(slot)["State"] for slot in (10, 11)] == ["UConf", "UConf"]
    assert sim.drive(10)["DG"] == "-"
    sim.add("r1 drives=0:10-11 name=mine")


# --- all of it


SHOWS = ["show", "show all", "show ctrlcount", "/c0 show", "/c0 show all", "/c0 show events", "/c0 show events latest=3",
         "/c0 show freespace", "/c0 show coercion", "/c0/eall show", "/c0/eall show all", "/c0/eall/sall show",
         "/c0/eall/sall show all", "/c0/sall show rebuild", "/c0/vall show", "/c0/vall show all", "/c0/vall show init",
         "/c0/vall show cc", "/c0/dall show", "/c0/dall show all", "/c0/fall show", "/c0/fall show all",
         "/c0/fall import preview", "/CALL /VALL SHOW ALL nolog"]


def no_odd_values(value):
    """Never true, false or null: that is the dialect (perccli.md 3.3)."""
    if isinstance(value, dict):
        return all(no_odd_values(item) for item in value.values())
    if isinstance(value, list):
        return all(no_odd_values(item) for item in value)
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def show_everything(cli):
    for line in SHOWS:
        assert no_odd_values(cli.do(line).data), line
        text = cli.text(*line.split())
        assert text.returncode == 0, line
        assert "Status = Success" in text.stdout, line


def test_everything_that_shows_where_nothing_is(sim):
    show_everything(sim)


def test_everything_that_shows(sim):
    sim.add("r10 drives=0:0-3 size=1G,1G name=a,b spares=0:4")
    sim.do("/c0/e0/s5 add hotsparedrive")
    sim.do("/c0/e0/s1 set offline force")
    sim.happens('foreign 6 "ext4 filesystem"')
    wait_for(lambda: sim.drive(6)["State"] == "JBOD", "look at the drive")
    show_everything(sim)


EXIT_STATUSES = [
    ("/c1 show", 255), ("/c0/v77 show", 255), ("/c0/d77 show", 255), ("/c0/f77 show", 50), ("/c0/e0/s77 show", 255),
    ("/c0/e7 show", 255), ("nonsense", 1), ("/c0/q1 show", 1), ("/c0 add vd", 1), ("/c0 add vd r7 drives=0:1", 1),
    ("/c0 add vd type=raid5 drives=0:0-2", 1), ("/c0 add vd r5", 1), ("/c0 add vd r5 drives=0:0-1", 3),
    ("/c0 add vd r5 drives=0:0-2 size=5", 3), ("/c0 add vd r5 drives=0:0-2 strip=3", 3),
    ("/c0 add vd r5 drives=0:0-2 name=a,b", 3), ("/c0 add vd r50 drives=0:0-6", 3),
    ("/c0 add vd r5 drives=0:0-2,2", 3), ("/c0 add vd r5 drives=0:0-1,77", 255), ("/c0 set coercion=9", 3),
    ("/c0/e0/s1 add hotsparedrive dgs=x", 3), ("/c0/e0/s1 set good", 1), ("/c0/v1 start init force", 255),
    ("/c0/fall del force", 50), ("/c0/e0/s0 start rebuild", 50),
]


def test_exit_statuses(sim):
    for line, code in EXIT_STATUSES:
        sim.refused(line, code)
    assert sim.do("/c0/vall show").rows("Virtual Drives") == []


def test_completion_knows_the_machine(sim):
    sim.add("r5 drives=0:0-2")

    def after(*words):
        return sim.text("--complete", *words).stdout.split()
    assert after("/c0/v") == ["/c0/v1", "/c0/vall"]
    assert after("/c0/d") == ["/c0/d0", "/c0/dall"]
    assert "drives=0:3" in after("/c0", "add", "vd", "r1", "drives=")
    assert "drives=0:0" not in after("/c0", "add", "vd", "r1", "drives=")
    assert after("/c0/e0/s4", "add", "hotsparedrive", "dgs=") == ["dgs=0"]


def test_help_and_man_page_have_every_command(sim):
    helped = sim.text("help").stdout
    page = sim.text("--man").stdout.replace("\\-", "-")
    commands = re.findall(r"^perchcli (/cx.*|show.*)$", helped, re.MULTILINE)
    assert len(commands) > 35
    for command in commands:
        assert command in page, command
    assert "PERCH_SOCKET" in helped and "PERCH_SOCKET" in page
