// SPDX-License-Identifier: GPL-2.0-or-later
#include "command_tables.hpp"
#include "handlers.hpp"

namespace perch::cli {

std::vector<Command> group_commands() {
    using Kind = PathKind;
    return {
        {.path = Kind::group,
         .words = "show",
         .summary = "Drive groups: spans, and the drives in their rows.",
         .example = "/c0/dall show",
         .handler = show_groups},
        {.path = Kind::group,
         .words = "show all",
         .summary = "Drive groups with their VDs, drives and free space.",
         .example = "/c0/d0 show all",
         .handler = show_groups_all},
        {.path = Kind::foreign,
         .words = "show",
         .summary = "Foreign drive groups: those of another controller, or of another history of "
                    "this one.",
         .example = "/c0/fall show",
         .handler = show_foreign},
        {.path = Kind::foreign,
         .words = "show all",
         .summary = "Foreign drive groups with their VDs and drives.",
         .example = "/c0/fall show all",
         .handler = show_foreign_all},
        {.path = Kind::foreign,
         .words = "import preview",
         .summary = "What an import would make of foreign drive groups.",
         .help = "The state and name of each VD, drives that are missing, and what would be lost. "
                 "Changes nothing.",
         .example = "/c0/fall import preview",
         .handler = preview_foreign},
        {.path = Kind::foreign,
         .words = "import",
         .summary = "Take foreign drive groups over, with all their VDs.",
         .help = "All that are complete enough, or those that are named. No data is erased. A VD "
                 "whose name is taken gets another.",
         .example = "/c0/f0 import",
         .handler = import_foreign},
        {.path = Kind::foreign,
         .words = "del[ete]",
         .options = {{"force", "", do_not_ask}},
         .summary =
             "Erase foreign drive groups, with all data on them; their drives are free then.",
         .example = "/c0/f0 del",
         .destructive = true,
         .handler = clear_foreign},
    };
}

}  // namespace perch::cli
