// SPDX-License-Identifier: GPL-2.0-or-later
// The kinds of events: one table with the vendor's code, the severity and the Redfish message id
// (DMTF StorageDevice and ResourceEvent registries).
#pragma once

#include <string>
#include <string_view>

#include "model/snapshot.hpp"

namespace perch {

enum class EventKind {
    started,
    stopped,
    vd_created,
    vd_deleted,
    vd_optimal,
    vd_degraded,
    vd_offline,
    vd_started,
    vd_started_degraded,
    drive_inserted,
    drive_removed,
    drive_failed,
    drive_offline,
    drive_trouble,
    rebuild_started,
    rebuild_done,
    rebuild_stopped,
    resync_done,
    vd_unclean,
    resumed_suspended,
    configuration_trouble,
    vd_renamed,
    init_started,
    init_done,
    init_stopped,
    check_started,
    check_done,
    check_stopped,
    check_mismatches,
    drive_cleared,
    drive_jbod,
    spare_added,
    spare_removed,
    foreign_imported,
    foreign_cleared,
    foreign_found,
    table_repaired,
    setting_changed,
};

struct EventKindInfo {
    EventKind kind;
    int code;  ///< MegaRAID event code (MR_EVT_*), 0x8000 up where there is none
    Severity severity;
    std::string_view message_id;
    std::string_view title;
};

const EventKindInfo& event_info(EventKind kind);

/// Where events go. emit() returns at once.
class EventSink {
  public:
    EventSink() = default;
    EventSink(const EventSink&) = delete;
    EventSink& operator=(const EventSink&) = delete;
    virtual ~EventSink() = default;
    /// `text` is a whole sentence for a person: what, where, cause, action taken, action wanted.
    virtual void emit(EventKind kind, const std::string& text) = 0;
};

}  // namespace perch
