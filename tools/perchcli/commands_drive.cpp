// SPDX-License-Identifier: GPL-2.0-or-later
#include "command_tables.hpp"
#include "handlers.hpp"
#include "option_checks.hpp"

namespace perch::cli {

namespace {

std::vector<Command> state_commands() {
    using Kind = PathKind;
    return {
        {.path = Kind::drive,
         .words = "set offline",
         .options = {{"force", "", do_not_ask}},
         .summary = "Take a member drive out of use.",
         .help = "Refused when the VD would lose data.",
         .example = "/c0/e0/s3 set offline",
         .destructive = true,
         .handler = set_offline},
        {.path = Kind::drive,
         .words = "set online",
         .summary = "Take an offline member drive back into use.",
         .help = "What was written meanwhile is rebuilt.",
         .example = "/c0/e0/s3 set online",
         .handler = set_online},
        {.path = Kind::drive,
         .words = "set missing",
         .summary = "Take an offline or failed member drive out of its drive group.",
         .help = "Its place is empty then, and the drive is no member any more.",
         .example = "/c0/e0/s3 set missing",
         .handler = set_missing},
        {.path = Kind::drive,
         .words = "set uconf",
         .options = {{"force", "", "Do not ask, even when it carries data."}},
         .summary = "Make a drive usable: erase what a JBOD carries, forgive one that failed.",
         .help =
             "A drive that carries data is erased only after you agreed; without a terminal to ask "
             "on, that takes force.",
         .example = "/c0/e0/s7 set uconf",
         .handler = set_unconfigured},
        {.path = Kind::drive,
         .words = "set jbod",
         .options = {{"force", "", "Do not ask, even when it carries data."}},
         .summary = "Hand a drive back to the system.",
         .help =
             "It is blank then, and Perch leaves it alone until set uconf. A foreign configuration "
             "is erased only after you agreed; without a terminal to ask on, that takes force.",
         .example = "/c0/e0/s4 set jbod",
         .handler = set_jbod},
        {.path = Kind::drive,
         .words = "add hotsparedrive",
         .options = {{"dgs", "N|0,1,2", "Only for these drive groups; without it for all.", false,
                      check_groups}},
         .summary = "Make an unconfigured drive a hot spare.",
         .example = "/c0/e0/s4 add hotsparedrive dgs=0",
         .handler = add_spare},
        {.path = Kind::drive,
         .words = "del[ete] hotsparedrive",
         .summary = "Make a hot spare an unconfigured drive again.",
         .example = "/c0/e0/s4 delete hotsparedrive",
         .handler = delete_spare},
    };
}

std::vector<Command> rebuild_commands() {
    using Kind = PathKind;
    return {
        {.path = Kind::drive,
         .words = "start rebuild",
         .options = {{"watch", "", watch_help}},
         .summary = "Start the rebuild of a member drive.",
         .example = "/c0/e0/s3 start rebuild watch",
         .handler = start_rebuild},
        {.path = Kind::drive,
         .words = "stop rebuild",
         .summary = "Stop the rebuild of a member drive.",
         .example = "/c0/e0/s3 stop rebuild",
         .handler = stop_rebuild},
        {.path = Kind::drive,
         .words = "insert",
         .options = {{"dg", "A", "Drive group.", true, check_number},
                     {"array", "B", "Array (span) in the group, from 0.", true, check_number},
                     {"row", "C", "Row whose member is missing.", true, check_number},
                     {"force", "", "Use a drive that carries data of others; that data is lost."},
                     {"watch", "", watch_help}},
         .summary = "Put a drive in a missing member's place and rebuild onto it.",
         .help = "TOPOLOGY in '/c0/dall show' has DG, array (Span) and row.",
         .example = "/c0/e0/s5 insert dg=0 array=0 row=2",
         .handler = insert_drive},
    };
}

}  // namespace

std::vector<Command> drive_commands() {
    using Kind = PathKind;
    std::vector<Command> all{
        {.path = Kind::drive,
         .words = "show",
         .summary = "Drives.",
         .help =
             "A drive that carries data Perch did not write is shown as JBOD, with what was found.",
         .example = "/c0/eall/sall show",
         .handler = show_drives},
        {.path = Kind::drive,
         .words = "show all",
         .summary = "Everything about drives.",
         .help = "Says for each drive whether it is safe to pull, and why not.",
         .example = "/c0/e0/s3 show all",
         .handler = show_drives_all},
        {.path = Kind::drive,
         .words = "show rebuild",
         .options = {{"watch", "", watch_help}},
         .summary = "Progress of a rebuild.",
         .example = "/c0/e0/s3 show rebuild",
         .handler = show_rebuild},
    };
    for (auto part : {state_commands(), rebuild_commands()}) {
        for (auto& command : part) {
            all.push_back(std::move(command));
        }
    }
    return all;
}

}  // namespace perch::cli
