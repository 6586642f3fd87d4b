// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/catalogue.hpp"

#include <array>

namespace perch {

namespace {

constexpr std::array<EventKindInfo, 38> table{{
    {EventKind::started, 0x0000, Severity::info, "ResourceEvent.1.3.ResourceStatusChangedOK",
     "Daemon started"},
    {EventKind::stopped, 0x8000, Severity::info, "ResourceEvent.1.3.ResourceStatusChangedOK",
     "Daemon stopped"},
    {EventKind::vd_created, 0x008a, Severity::info, "ResourceEvent.1.3.ResourceCreated",
     "VD created"},
    {EventKind::vd_deleted, 0x008b, Severity::info, "ResourceEvent.1.3.ResourceRemoved",
     "VD deleted"},
    {EventKind::vd_optimal, 0x00f9, Severity::info, "StorageDevice.1.2.VolumeOK", "VD Optimal"},
    {EventKind::vd_degraded, 0x00fb, Severity::critical, "StorageDevice.1.2.VolumeDegraded",
     "VD Degraded"},
    {EventKind::vd_offline, 0x00fc, Severity::fatal, "StorageDevice.1.2.VolumeOffline",
     "VD Offline"},
    {EventKind::vd_started, 0x8001, Severity::info, "StorageDevice.1.2.VolumeOK", "VD started"},
    {EventKind::vd_started_degraded, 0x8002, Severity::critical, "StorageDevice.1.2.VolumeDegraded",
     "VD started degraded"},
    {EventKind::drive_inserted, 0x005b, Severity::info, "StorageDevice.1.2.DriveInserted",
     "Drive inserted"},
    {EventKind::drive_removed, 0x0070, Severity::warning, "StorageDevice.1.2.DriveRemoved",
     "Drive removed"},
    {EventKind::drive_failed, 0x0057, Severity::critical, "StorageDevice.1.2.DriveFailure",
     "Drive failed"},
    {EventKind::drive_offline, 0x0052, Severity::warning, "StorageDevice.1.2.DriveOffline",
     "Drive set offline"},
    {EventKind::drive_trouble, 0x8004, Severity::warning, "StorageDevice.1.2.DriveFailure",
     "Drive trouble"},
    {EventKind::rebuild_started, 0x006a, Severity::info, "StorageDevice.1.2.DriveOfflineCleared",
     "Rebuild started"},
    {EventKind::rebuild_done, 0x0063, Severity::info, "StorageDevice.1.2.DriveOK", "Rebuild done"},
    {EventKind::rebuild_stopped, 0x0062, Severity::warning, "StorageDevice.1.2.DriveOffline",
     "Rebuild stopped"},
    {EventKind::resync_done, 0x0041, Severity::info, "StorageDevice.1.2.VolumeOK", "Resync done"},
    {EventKind::vd_unclean, 0x8007, Severity::warning, "StorageDevice.1.2.VolumeDegraded",
     "VD stopped uncleanly"},
    {EventKind::resumed_suspended, 0x8005, Severity::warning,
     "ResourceEvent.1.3.ResourceStatusChangedWarning", "Suspended device resumed"},
    {EventKind::configuration_trouble, 0x8006, Severity::critical,
     "ResourceEvent.1.3.ResourceStatusChangedCritical", "Configuration trouble"},
    {EventKind::vd_renamed, 0x800c, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "VD renamed"},
    {EventKind::init_started, 0x0047, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Initialization started"},
    {EventKind::init_done, 0x0048, Severity::info, "StorageDevice.1.2.VolumeOK",
     "Initialization done"},
    {EventKind::init_stopped, 0x0043, Severity::warning, "ResourceEvent.1.3.ResourceChanged",
     "Initialization stopped"},
    {EventKind::check_started, 0x0042, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Consistency check started"},
    {EventKind::check_done, 0x003a, Severity::info, "StorageDevice.1.2.VolumeOK",
     "Consistency check done"},
    {EventKind::check_stopped, 0x0038, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Consistency check stopped"},
    {EventKind::check_mismatches, 0x800d, Severity::warning,
     "ResourceEvent.1.3.ResourceStatusChangedWarning", "Consistency check found mismatches"},
    {EventKind::drive_cleared, 0x8008, Severity::info, "StorageDevice.1.2.DriveOK",
     "Drive made unconfigured"},
    {EventKind::drive_jbod, 0x8009, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Drive made JBOD"},
    {EventKind::spare_added, 0x800e, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Hot spare added"},
    {EventKind::spare_removed, 0x800f, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Hot spare removed"},
    {EventKind::foreign_imported, 0x00db, Severity::info, "ResourceEvent.1.3.ResourceCreated",
     "Foreign configuration imported"},
    {EventKind::foreign_cleared, 0x8010, Severity::info, "ResourceEvent.1.3.ResourceRemoved",
     "Foreign configuration cleared"},
    {EventKind::foreign_found, 0x8011, Severity::warning,
     "ResourceEvent.1.3.ResourceStatusChangedWarning", "Foreign configuration found"},
    {EventKind::table_repaired, 0x800a, Severity::warning,
     "ResourceEvent.1.3.ResourceStatusChangedWarning", "Partition table repaired"},
    {EventKind::setting_changed, 0x800b, Severity::info, "ResourceEvent.1.3.ResourceChanged",
     "Setting changed"},
}};

}  // namespace

const EventKindInfo& event_info(EventKind kind) {
    return table.at(static_cast<std::size_t>(kind));
}

}  // namespace perch
