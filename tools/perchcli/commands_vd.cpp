// SPDX-License-Identifier: GPL-2.0-or-later
#include "command_tables.hpp"
#include "handlers.hpp"
#include "option_checks.hpp"

namespace perch::cli {

namespace {

std::vector<Option> create_options() {
    return {
        {"drives", "e:s|e:s-x|e:s-x,y",
         "The drives, by enclosure and slot, in the order of their rows: free ones, or all the "
         "drives of one drive group, in whose free space the VD is made then.",
         true, check_drives},
        {"size", "SZ,..|all",
         "Sizes of one or several VDs, such as 500G or 1.5T (binary: 1G is 1 GiB); all or "
         "remaining, last, is what is left. Without it: all.",
         false, check_sizes},
        {"name", "NAME,..",
         "A name for each, of at most 15 characters; the device is /dev/perch/NAME.", false,
         check_names},
        {"pdperarray", "N",
         "Drives per span of RAID10, 50 and 60. Without it: pairs for RAID10, else two spans.",
         false, check_count},
        {"strip", "4..1024", "One drive's share of a stripe in KiB, a power of two; 64.", false,
         check_strip},
        {"engine", "perch|dm-raid",
         "What runs it: Perch's own kernel target, or the kernel's dm-raid, which promises less, "
         "where that target cannot be loaded. Without it: perch.",
         false, check_engine},
        {"spares", "e:s|e:s-x|e:s-x,y", "Dedicated hot spares for the drive group.", false,
         check_drives},
        {"force", "", "Use drives that carry data of others; that data is lost."},
    };
}

std::vector<Command> change_commands() {
    using Kind = PathKind;
    return {
        {.path = Kind::vd,
         .words = "del[ete]",
         .options = {{"force", "", do_not_ask}},
         .summary = "Delete a virtual drive and all data on it.",
         .help = "A VD in use is refused even with force.",
         .example = "/c0/v1 del",
         .destructive = true,
         .handler = delete_vd},
        {.path = Kind::vd,
         .words = "set",
         .options = {{"name", "NAME", "The new name, of at most 15 characters.", true, check_name}},
         .summary = "Rename a virtual drive.",
         .help = "Its device is /dev/perch/NAME then; /dev/disk/by-id/perch-UUID stays.",
         .example = "/c0/v1 set name=backup",
         .handler = set_vd},
        {.path = Kind::vd,
         .words = "start init",
         .options = {{"full", "", "Zero all of it; else only both ends."},
                     {"watch", "", watch_help},
                     {"force", "", do_not_ask}},
         .summary = "Initialize a virtual drive: its data is erased.",
         .help = "A VD in use is refused even with force.",
         .example = "/c0/v1 start init full watch",
         .destructive = true,
         .handler = start_init},
        {.path = Kind::vd,
         .words = "stop init",
         .summary = "Stop a full initialization.",
         .help = "What was zeroed stays zeroed.",
         .example = "/c0/v1 stop init",
         .handler = stop_init},
        {.path = Kind::vd,
         .words = "start cc|consistencycheck",
         .options = {{"watch", "", watch_help},
                     {"force", "", "Accepted for the vendor's scripts; no effect."}},
         .summary = "Check that mirrors or parity match everywhere.",
         .help = "Not on a degraded VD, which has nothing to compare with, and not on RAID0.",
         .example = "/c0/v1 start cc watch",
         .handler = start_check},
        {.path = Kind::vd,
         .words = "stop cc|consistencycheck",
         .summary = "Stop a consistency check.",
         .example = "/c0/v1 stop cc",
         .handler = stop_check},
    };
}

}  // namespace

std::vector<Command> vd_commands() {
    using Kind = PathKind;
    std::vector<Command> all{
        {.path = Kind::controller,
         .words = "add vd r[aid]0|r[aid]1|r[aid]5|r[aid]6|r[aid]10|r[aid]50|r[aid]60",
         .options = create_options(),
         .summary = "Create virtual drives.",
         .help = "Several sizes or names make several VDs on the same drives, one after the other. "
                 "Drives that carry data are refused, and what was found is said; force overrides "
                 "that. The boot drive and drives in use are refused always.",
         .example = "/c0 add vd r5 drives=0:0-3 size=100G,all name=db,data strip=64 spares=0:4",
         .handler = add_vd},
        {.path = Kind::vd,
         .words = "show",
         .summary = "Virtual drives.",
         .example = "/c0/vall show",
         .handler = show_vds},
        {.path = Kind::vd,
         .words = "show all",
         .summary = "Everything about virtual drives.",
         .help = "With members, the failures survived now, users, device and the reason of a bad "
                 "state.",
         .example = "/c0/v1 show all",
         .handler = show_vds_all},
        {.path = Kind::vd,
         .words = "show init",
         .options = {{"watch", "", watch_help}},
         .summary = "Progress of an initialization.",
         .example = "/c0/v1 show init",
         .handler = show_init},
        {.path = Kind::vd,
         .words = "show cc|consistencycheck",
         .options = {{"watch", "", watch_help}},
         .summary = "Progress of a consistency check, and what the last one found.",
         .example = "/c0/v1 show cc",
         .handler = show_check},
    };
    for (auto& command : change_commands()) {
        all.push_back(std::move(command));
    }
    return all;
}

}  // namespace perch::cli
