// SPDX-License-Identifier: GPL-2.0-or-later
// The handlers that the command table names, by area.
#pragma once

#include "grammar.hpp"
#include "layout/drive_layout.hpp"

namespace perch::cli {

// show_system.cpp
Reply show_system(Session& session, const Invocation& invocation);
Reply show_system_all(Session& session, const Invocation& invocation);
Reply show_controller_count(Session& session, const Invocation& invocation);

// show_controller.cpp
Reply show_controller(Session& session, const Invocation& invocation);
Reply show_controller_all(Session& session, const Invocation& invocation);
Reply show_enclosure(Session& session, const Invocation& invocation);
Reply show_enclosure_all(Session& session, const Invocation& invocation);

// show_drives.cpp
Reply show_drives(Session& session, const Invocation& invocation);
Reply show_drives_all(Session& session, const Invocation& invocation);
Reply show_rebuild(Session& session, const Invocation& invocation);

// show_vds.cpp
Reply show_vds(Session& session, const Invocation& invocation);
Reply show_vds_all(Session& session, const Invocation& invocation);
Reply show_init(Session& session, const Invocation& invocation);
Reply show_check(Session& session, const Invocation& invocation);

// show_groups.cpp
Reply show_groups(Session& session, const Invocation& invocation);
Reply show_groups_all(Session& session, const Invocation& invocation);
Reply show_free_space(Session& session, const Invocation& invocation);

// show_events.cpp
Reply show_events(Session& session, const Invocation& invocation);

// foreign.cpp
Reply show_foreign(Session& session, const Invocation& invocation);
Reply show_foreign_all(Session& session, const Invocation& invocation);
Reply preview_foreign(Session& session, const Invocation& invocation);
Reply import_foreign(Session& session, const Invocation& invocation);
Reply clear_foreign(Session& session, const Invocation& invocation);

// coercion.cpp
/// "0", "1", "2" or the names that are shown.
std::optional<Coercion> coercion_of(std::string_view text);
Reply show_coercion(Session& session, const Invocation& invocation);
Reply set_coercion(Session& session, const Invocation& invocation);

// create_vd.cpp
Reply add_vd(Session& session, const Invocation& invocation);

// change_vd.cpp
Reply delete_vd(Session& session, const Invocation& invocation);
Reply set_vd(Session& session, const Invocation& invocation);
Reply start_init(Session& session, const Invocation& invocation);
Reply stop_init(Session& session, const Invocation& invocation);
Reply start_check(Session& session, const Invocation& invocation);
Reply stop_check(Session& session, const Invocation& invocation);

// change_drive.cpp
Reply set_offline(Session& session, const Invocation& invocation);
Reply set_online(Session& session, const Invocation& invocation);
Reply set_missing(Session& session, const Invocation& invocation);
Reply set_unconfigured(Session& session, const Invocation& invocation);
Reply set_jbod(Session& session, const Invocation& invocation);
Reply add_spare(Session& session, const Invocation& invocation);
Reply delete_spare(Session& session, const Invocation& invocation);
Reply start_rebuild(Session& session, const Invocation& invocation);
Reply stop_rebuild(Session& session, const Invocation& invocation);
Reply insert_drive(Session& session, const Invocation& invocation);

}  // namespace perch::cli
