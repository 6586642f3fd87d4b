// SPDX-License-Identifier: GPL-2.0-or-later
#include <iterator>

#include "command_tables.hpp"

namespace perch::cli {

const std::vector<Command>& commands() {
    static const std::vector<Command> table = [] {
        std::vector<Command> all;
        for (auto part :
             {controller_commands(), vd_commands(), drive_commands(), group_commands()}) {
            std::move(part.begin(), part.end(), std::back_inserter(all));
        }
        return all;
    }();
    return table;
}

}  // namespace perch::cli
