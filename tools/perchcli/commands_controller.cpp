// SPDX-License-Identifier: GPL-2.0-or-later
#include "command_tables.hpp"
#include "handlers.hpp"
#include "option_checks.hpp"

namespace perch::cli {

std::vector<Command> controller_commands() {
    using Kind = PathKind;
    return {
        {.words = "show",
         .summary = "Overview of all controllers.",
         .help = "Begins with the worst problem, what Perch does about it and what you should do.",
         .example = "show",
         .handler = show_system},
        {.words = "show all",
         .summary = "Overview of all controllers, with every problem.",
         .example = "show all",
         .handler = show_system_all},
        {.words = "show ctrlcount",
         .summary = "Number of controllers.",
         .example = "show ctrlcount",
         .handler = show_controller_count},
        {.path = Kind::controller,
         .words = "show",
         .summary = "A controller with its drive groups, VDs, drives and enclosures.",
         .example = "/c0 show",
         .handler = show_controller},
        {.path = Kind::controller,
         .words = "show all",
         .summary = "The same with versions, counts, limits, capabilities and every problem.",
         .example = "/c0 show all",
         .handler = show_controller_all},
        {.path = Kind::controller,
         .words = "show events",
         .options = {{"latest", "N", "Only the newest N events.", false, check_count},
                     {"type", "latest=N", "The same in the vendor's spelling.", false,
                      check_event_type}},
         .summary = "The event log, oldest first.",
         .example = "/c0 show events latest=20",
         .handler = show_events},
        {.path = Kind::controller,
         .words = "show freespace",
         .summary = "What is free in drive groups.",
         .help = "Each piece as the size of the VD that could be made there (add vd with all the "
                 "drives of that group).",
         .example = "/c0 show freespace",
         .handler = show_free_space},
        {.path = Kind::controller,
         .words = "show coercion",
         .summary = "How the size of drives is rounded down.",
         .example = "/c0 show coercion",
         .handler = show_coercion},
        {.path = Kind::controller,
         .words = "set",
         .options = {{"coercion", "0|1|2",
                      "How much the size of drives is rounded down, so that a replacement that is "
                      "a little smaller fits: 0 not at all (1 MiB), 1 to 128 MiB, 2 to 1 GiB, the "
                      "default.",
                      true, check_coercion}},
         .summary = "Change a property of the controller.",
         .help = "Coercion counts for drives that are taken from then on.",
         .example = "/c0 set coercion=1",
         .handler = set_coercion},
        {.path = Kind::enclosure,
         .words = "show",
         .summary = "Enclosures.",
         .example = "/c0/eall show",
         .handler = show_enclosure},
        {.path = Kind::enclosure,
         .words = "show all",
         .summary = "Enclosures with their drives.",
         .example = "/c0/e0 show all",
         .handler = show_enclosure_all},
    };
}

}  // namespace perch::cli
