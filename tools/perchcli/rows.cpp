// SPDX-License-Identifier: GPL-2.0-or-later
#include "rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <set>

#include "util/units.hpp"

namespace perch::cli {

namespace {

std::string drive_state_text(DriveState state) {
    switch (state) {
        case DriveState::configured:
            return "Conf";
        case DriveState::jbod:
            return "JBOD";
        case DriveState::unusable:
            return "Unusbl";
        case DriveState::unconfigured:
        case DriveState::foreign:
            return "UConf";
    }
    return "Unusbl";
}

std::string drive_status_text(const Drive& drive) {
    if (drive.state == DriveState::jbod && drive.status == DriveStatus::good) {
        return "Online";
    }
    return to_string(drive.status);
}

Value drive_group_value(const Drive& drive) {
    if (drive.state == DriveState::foreign) {
        return std::string("F");
    }
    return number_or_dash(drive.group);
}

/// The size a VD can use, as the vendor's coerced size; the whole drive where that is unknown.
std::string drive_size_text(const Drive& drive) {
    return format_size(drive.usable_bytes != 0 ? drive.usable_bytes : drive.size_bytes);
}

const std::vector<Column>& drive_columns() {
    static const std::vector<Column> columns{{"EID:Slt"},
                                             {"PID", Align::number},
                                             {"State"},
                                             {"Status"},
                                             {"DG", Align::number},
                                             {"Size", Align::right},
                                             {"Intf"},
                                             {"Med"},
                                             {"SED_Type"},
                                             {"SeSz", Align::right},
                                             {"Model"},
                                             {"Sp"},
                                             {"LU/NS Count", Align::number},
                                             {"Alt-EID"}};
    return columns;
}

Row drive_row(const Drive& drive) {
    return {slot_text(drive),
            std::int64_t{drive.pid},
            drive_state_text(drive.state),
            drive_status_text(drive),
            drive_group_value(drive),
            drive_size_text(drive),
            "NVMe",
            "SSD",
            "-",
            format_block(drive.logical_block_bytes),
            drive.model,
            "U",
            std::int64_t{1},
            "-"};
}

/// A member whose drive the snapshot does not hold.
Row lost_member_row(const VirtualDrive& vd, const Member& member) {
    return {"-",
            "-",
            "Conf",
            to_string(member.status),
            std::int64_t{vd.group},
            "-",
            "NVMe",
            "SSD",
            "-",
            "-",
            "-",
            "-",
            std::int64_t{1},
            "-"};
}

/// The namespace number at the end of "/dev/nvme3n1".
std::string namespace_text(const Drive& drive) {
    const auto last = drive.device.find_last_not_of("0123456789");
    if (last == std::string::npos || last + 1 == drive.device.size() || drive.device[last] != 'n') {
        return "0/-";
    }
    return "0/" + drive.device.substr(last + 1);
}

std::optional<std::tm> parse_iso(const std::string& iso) {
    std::tm utc{};
    if (strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) {
        return std::nullopt;
    }
    const std::time_t seconds = timegm(&utc);
    std::tm local{};
    if (localtime_r(&seconds, &local) == nullptr) {
        return std::nullopt;
    }
    return local;
}

std::string format_iso(const std::string& iso, const char* format) {
    const auto local = parse_iso(iso);
    std::array<char, 64> buffer{};
    if (!local || std::strftime(buffer.data(), buffer.size(), format, &*local) == 0) {
        return iso;
    }
    return buffer.data();
}

/// "survives 1 more drive failure", or what stands in its place.
std::string survives_text(const VirtualDrive& vd) {
    if (vd.state == VdState::offline) {
        return "offline, no data can be read or written";
    }
    if (vd.survives == 0) {
        return "survives NO further drive failure";
    }
    return fmt::format("survives {} more drive failure{}", vd.survives,
                       vd.survives == 1 ? "" : "s");
}

bool by_place(const Drive* left, const Drive* right) {
    const auto key = [](const Drive& drive) {
        return std::tuple(drive.enclosure, drive.slot < 0, drive.slot, drive.id);
    };
    return key(*left) < key(*right);
}

Row topology_group_row(const DriveGroup& group, const Value& span, bool busy) {
    return {std::int64_t{group.id},
            span,
            "-",
            "-",
            "-",
            group.level,
            "-",
            "-",
            busy ? "Y" : "N",
            format_size(group.size_bytes),
            "dflt",
            "N",
            "N"};
}

Row topology_member_row(const Snapshot& snapshot, const DriveGroup& group, const Member& member) {
    const auto* drive = find_drive(snapshot, member.drive);
    const Value pid = drive == nullptr ? Value("-") : Value(std::int64_t{drive->pid});
    const bool busy = drive != nullptr && drive->operation;
    return {std::int64_t{group.id},
            std::int64_t{0},
            std::int64_t{member.row},
            drive == nullptr ? "-" : slot_text(*drive),
            pid,
            "DRIVE",
            "Conf",
            to_string(member.status),
            busy ? "Y" : "N",
            drive == nullptr ? "-" : drive_size_text(*drive),
            "dflt",
            "N",
            "-"};
}

}  // namespace

Drives all_drives(const Snapshot& snapshot) {
    Drives drives;
    for (const auto& drive : snapshot.drives) {
        drives.push_back(&drive);
    }
    std::sort(drives.begin(), drives.end(), by_place);
    return drives;
}

Vds all_vds(const Snapshot& snapshot) {
    Vds vds;
    for (const auto& vd : snapshot.vds) {
        vds.push_back(&vd);
    }
    std::sort(vds.begin(), vds.end(),
              [](const auto* left, const auto* right) { return left->id < right->id; });
    return vds;
}

std::string slot_text(const Drive& drive) {
    return drive.slot < 0 ? "-" : fmt::format("{}:{}", drive.enclosure, drive.slot);
}

std::string vd_text(const VirtualDrive& vd) {
    return vd.name.empty() ? fmt::format("v{}", vd.id) : fmt::format("v{} ({})", vd.id, vd.name);
}

std::string users_text(const VirtualDrive& vd) {
    return vd.users.empty() ? "nothing" : fmt::format("{}", fmt::join(vd.users, ", "));
}

std::string operation_text(const std::optional<Operation>& operation) {
    if (!operation) {
        return "None";
    }
    return fmt::format("{} ({}%)", to_string(operation->kind),
                       static_cast<int>(std::floor(operation->percent)));
}

std::string time_left_text(const Operation& operation) {
    return operation.seconds_left ? format_duration(*operation.seconds_left) : "-";
}

std::string vd_state_text(const VirtualDrive& vd) {
    switch (vd.state) {
        case VdState::optimal:
            return "Optl";
        case VdState::degraded:
            return vd.survives > 0 ? "Pdgd" : "Dgrd";
        case VdState::offline:
            return "OfLn";
    }
    return "OfLn";
}

std::string local_time_text(const std::string& iso) {
    return format_iso(iso, "%Y/%m/%d %H:%M:%S");
}

std::string event_time_text(const std::string& iso) {
    return format_iso(iso, "%a %b %e %H:%M:%S %Y");
}

Table drive_table(std::string title, const Drives& drives) {
    Table table{std::move(title), drive_columns(), {}, false, {}};
    for (const auto* drive : drives) {
        table.rows.push_back(drive_row(*drive));
    }
    return table;
}

Table lu_table(std::string title, const Drives& drives, bool with_index) {
    Table table{std::move(title), {{"PID", Align::number}, {"LUN/NSID"}}, {}, false, {}};
    if (with_index) {
        table.columns.push_back({"Index", Align::number});
    }
    table.columns.push_back({"Status"});
    table.columns.push_back({"Size", Align::right});
    for (const auto* drive : drives) {
        Row row{std::int64_t{drive->pid}, namespace_text(*drive)};
        if (with_index) {
            row.emplace_back(std::int64_t{0});
        }
        row.emplace_back(drive_status_text(*drive));
        row.emplace_back(drive_size_text(*drive));
        table.rows.push_back(std::move(row));
    }
    return table;
}

Table vd_table(std::string title, const Vds& vds) {
    Table table{std::move(title),
                {{"DG/VD"},
                 {"TYPE"},
                 {"State"},
                 {"Access"},
                 {"CurrentCache"},
                 {"DefaultCache"},
                 {"Size", Align::right},
                 {"Name"}},
                {},
                false,
                {}};
    for (const auto* vd : vds) {
        table.rows.push_back({fmt::format("{}/{}", vd->group, vd->id), vd->level,
                              vd_state_text(*vd), "RW", "NR,WT", "NR,WT",
                              format_size(vd->size_bytes), vd->name});
    }
    return table;
}

Table member_table(std::string title, const Snapshot& snapshot, const VirtualDrive& vd) {
    Table table{std::move(title), drive_columns(), {}, false, {}};
    for (const auto& member : vd.members) {
        const auto* drive = find_drive(snapshot, member.drive);
        table.rows.push_back(drive == nullptr ? lost_member_row(vd, member) : drive_row(*drive));
    }
    return table;
}

Table topology_table(const Snapshot& snapshot) {
    Table table{"TOPOLOGY",
                {{"DG", Align::number},
                 {"Span"},
                 {"Row"},
                 {"EID:Slot"},
                 {"PID"},
                 {"Type"},
                 {"State"},
                 {"Status"},
                 {"BT"},
                 {"Size", Align::right},
                 {"PDC"},
                 {"Secured"},
                 {"FSpace"}},
                {},
                false,
                {}};
    for (const auto& group : snapshot.groups) {
        const bool busy = std::any_of(
            snapshot.vds.begin(), snapshot.vds.end(),
            [&](const auto& vd) { return vd.group == group.id && vd.operation.has_value(); });
        table.rows.push_back(topology_group_row(group, "-", busy));
        table.rows.push_back(topology_group_row(group, std::int64_t{0}, busy));
        for (const auto& member : group.members) {
            table.rows.push_back(topology_member_row(snapshot, group, member));
        }
    }
    return table;
}

std::vector<int> enclosure_ids(const Snapshot& snapshot) {
    std::set<int> ids;
    for (const auto& drive : snapshot.drives) {
        ids.insert(drive.enclosure);
    }
    return {ids.begin(), ids.end()};
}

Table enclosure_table(std::string title, const Snapshot& snapshot, const std::vector<int>& ids) {
    Table table{std::move(title),
                {{"EID", Align::number},
                 {"State"},
                 {"DeviceType"},
                 {"Slots", Align::number},
                 {"PD", Align::number},
                 {"Partner-EID"},
                 {"Multipath"},
                 {"PS", Align::number},
                 {"Fans", Align::number},
                 {"TSs", Align::number},
                 {"Alms", Align::number},
                 {"SIM", Align::number},
                 {"ProdID"}},
                {},
                false,
                {}};
    for (const int id : ids) {
        std::set<int> slots;
        std::int64_t present = 0;
        for (const auto& drive : snapshot.drives) {
            if (drive.enclosure == id) {
                if (drive.slot >= 0) {
                    slots.insert(drive.slot);
                }
                present += drive.status == DriveStatus::missing ? 0 : 1;
            }
        }
        const std::int64_t zero = 0;
        table.rows.push_back({std::int64_t{id}, "OK", "PCIe",
                              static_cast<std::int64_t>(slots.size()), present, "-", "No", zero,
                              zero, zero, zero, zero, "PCIe slots"});
    }
    return table;
}

Table rebuild_table(const Drives& drives) {
    Table table{"Rebuild Status",
                {{"EID:Slt"},
                 {"PID", Align::number},
                 {"Progress%", Align::number},
                 {"Status"},
                 {"Estimated Time Left"},
                 {"Speed", Align::right}},
                {},
                false,
                {}};
    for (const auto* drive : drives) {
        const auto& operation = drive->operation;
        Row row{slot_text(*drive), std::int64_t{drive->pid}};
        if (operation && operation->kind == OperationKind::rebuild) {
            row.emplace_back(static_cast<std::int64_t>(std::floor(operation->percent)));
            row.emplace_back("In progress");
            row.emplace_back(time_left_text(*operation));
            row.emplace_back(operation->speed_bytes_per_second == 0
                                 ? "-"
                                 : format_size(operation->speed_bytes_per_second) + "/s");
        } else {
            row.insert(row.end(), {"-", "Not in progress", "-", "-"});
        }
        table.rows.push_back(std::move(row));
    }
    return table;
}

Text drive_legend() {
    return {{R"(EID-Enclosure Persistent ID|Slt-Slot Number|PID-Persistent ID|DG-DriveGroup
UConf-Unconfigured|UConfUnsp-Unconfigured Unsupported|Conf-Configured|Unusbl-Unusable
GHS-Global Hot Spare|DHS-Dedicated Hot Spare|UConfShld-Unconfigured Shielded|
ConfShld-Configured Shielded|Shld-JBOD Shielded|GHSShld-GHS Shielded|DHSShld-DHS Shielded
UConfSntz-Unconfigured Sanitize|ConfSntz-Configured Sanitize|JBODSntz-JBOD Sanitize|GHSSntz-GHS Sanitize
DHSSntz-DHS Sanitize|UConfDgrd-Unconfigured Degraded|ConfDgrd-Configured Degraded|JBODDgrd-JBOD Degraded
GHSDgrd-GHS Degraded|DHSDgrd-DHS Degraded|Various-Multiple LU/NS Status|Med-Media|SED-Self Encryptive Drive
SeSz-Logical Sector Size|Intf-Interface|Sp-Power state|U-Up/On|D-Down/PowerSave|T-Transitioning|F-Foreign
NS-Namespace|LU-Logical Unit|LUN-Logical Unit Number|NSID-Namespace ID|Alt-EID-Alternate Enclosure Persistent ID)"}};
}

Text vd_legend() {
    return {{R"(VD-Virtual Drive|DG-Drive Group|Optl-Optimal|Pdgd-Partially Degraded|Dgrd-Degraded
OfLn-OffLine|RW-Read Write|RO-Read Only|NR-No Read Ahead|WT-WriteThrough)"}};
}

Text topology_legend() {
    return {{R"(DG-Drive Group Index|Span-Span Index|Row-Row Index|EID-Enclosure Persistent ID
PID-Persistent ID|Type-Drive or RAID Type|BT-Background Task Active|PDC-Drive Write Cache
dflt-Default|FSpace-Free Space Present|Y-Yes|N-No)"}};
}

Text enclosure_legend() {
    return {{R"(EID-Enclosure Persistent ID|PD-Physical drive count|PS-Power Supply count
TSs-Temperature sensor count|Alms-Alarm count|SIM-SIM Count|ProdID-Product ID)"}};
}

Notes vd_notes(const Vds& vds) {
    Notes notes{{"VD Protection",
                 {{"VD"},
                  {"Name"},
                  {"Failures survived now"},
                  {"Used by"},
                  {"Active Operations"},
                  {"State reason"}},
                 {},
                 false,
                 {}},
                {}};
    for (const auto* vd : vds) {
        notes.data.rows.push_back({std::int64_t{vd->id}, vd->name, std::int64_t{vd->survives},
                                   users_text(*vd), operation_text(vd->operation),
                                   vd->state_reason});
        auto line =
            fmt::format("{}: {}; used by: {}", vd_text(*vd), survives_text(*vd), users_text(*vd));
        if (vd->operation) {
            line += fmt::format("; {}, {} left", operation_text(vd->operation),
                                time_left_text(*vd->operation));
        }
        notes.lines.push_back(std::move(line));
    }
    return notes;
}

Notes drive_notes(const Drives& drives) {
    Notes notes{{"Drive Contents", {{"EID:Slt"}, {"State"}, {"Content"}}, {}, false, {}}, {}};
    for (const auto* drive : drives) {
        if (drive->content.empty() || drive->state == DriveState::configured) {
            continue;
        }
        const auto state = drive->state == DriveState::jbod ? "JBOD" : to_string(drive->state);
        notes.data.rows.push_back({slot_text(*drive), state, drive->content});
        notes.lines.push_back(fmt::format("{} {}: {}",
                                          drive->slot < 0 ? drive->device : slot_text(*drive),
                                          state, drive->content));
    }
    return notes;
}

Notes problem_notes(const Snapshot& snapshot, bool listed) {
    Notes notes{{"Problems", {{"Severity"}, {"What"}, {"Doing"}, {"Action"}}, {}, false, {}}, {}};
    for (const auto& problem : snapshot.problems) {
        notes.data.rows.push_back(
            {to_string(problem.severity), problem.what, problem.doing, problem.action});
        if (listed) {
            notes.lines.push_back(fmt::format("{}: {}", to_string(problem.severity), problem.what));
            if (!problem.doing.empty()) {
                notes.lines.push_back("  Perch: " + problem.doing);
            }
            if (!problem.action.empty()) {
                notes.lines.push_back("  To do: " + problem.action);
            }
        }
    }
    return notes;
}

std::vector<std::string> daemon_banner(const Snapshot& snapshot) {
    if (snapshot.daemon) {
        return {};
    }
    return {"perchd does not run; read-only view"};
}

std::vector<std::string> worst_problem(const Snapshot& snapshot) {
    auto lines = daemon_banner(snapshot);
    if (snapshot.problems.empty()) {
        return lines;
    }
    const auto& worst = snapshot.problems.front();
    lines.push_back(fmt::format("{}: {}", to_string(worst.severity), worst.what));
    if (!worst.doing.empty()) {
        lines.push_back("  Perch: " + worst.doing);
    }
    if (!worst.action.empty()) {
        lines.push_back("  To do: " + worst.action);
    }
    if (snapshot.problems.size() > 1) {
        lines.push_back(fmt::format("  and {} more; 'perchcli /c0 show all' lists them",
                                    snapshot.problems.size() - 1));
    }
    return lines;
}

}  // namespace perch::cli
