# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Tells `lab` on the host that the user left the shell (129: it was hung up, as at a reboot).
trap '[ $? -eq 129 ] || printf "\033]777;perch-lab-exit\007"' EXIT
