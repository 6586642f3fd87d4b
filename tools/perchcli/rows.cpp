// SPDX-License-Identifier: GPL-2.0-or-later
#include "rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
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
        case DriveState::global_spare:
            return "GHS";
        case DriveState::dedicated_spare:
            return "DHS";
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
    if (drive.spare_for.size() > 1) {
        return fmt::format("{}", fmt::join(drive.spare_for, ","));
    }
    if (drive.spare_for.size() == 1) {
        return std::int64_t{drive.spare_for.front()};
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

/// A member whose drive the snapshot does not hold, or an empty place.
Row lost_member_row(const VirtualDrive& vd, const Member& member) {
    return {"-",
            "-",
            member.drive.empty() ? "Msng" : "Conf",
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
    if (!vd.redundant) {
        return vd.level + " survives NO drive failure";
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

/// A level's part that is one span: what RAID10, 50 and 60 stripe over.
std::string span_level(const std::string& level) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> parts{
        {{"RAID10", "RAID1"}, {"RAID50", "RAID5"}, {"RAID60", "RAID6"}}};
    for (const auto& [whole, part] : parts) {
        if (level == whole) {
            return std::string(part);
        }
    }
    return level;
}

/// The table of drive groups, group by group.
class TopologyRows {
  public:
    explicit TopologyRows(const Snapshot& snapshot) : index_(snapshot) {
        for (const auto& vd : snapshot.vds) {
            if (vd.operation) {
                busy_.insert(vd.group);
            }
        }
        for (const auto* drive : all_drives(snapshot)) {
            if (drive->state == DriveState::global_spare) {
                global_spares_.push_back(drive);
            }
            for (const int group : drive->spare_for) {
                spares_[group].push_back(drive);
            }
        }
    }

    void add(const DriveGroup& group) {
        std::map<int, std::vector<const Member*>> spans;
        for (const auto& member : group.members) {
            spans[member.span].push_back(&member);
        }
        add_head(group, "-", group.level, group.size_bytes);
        for (const auto& [span, members] : spans) {
            add_head(group, std::int64_t{span}, span_level(group.level),
                     group.size_bytes / spans.size());
            for (const auto* member : members) {
                add_member(group, *member);
            }
        }
        for (const auto* drive : spares_[group.id]) {
            add_spare(std::int64_t{group.id}, *drive);
        }
    }
    void add_global_spares() {
        for (const auto* drive : global_spares_) {
            add_spare("-", *drive);
        }
    }
    std::vector<Row> take() { return std::move(rows_); }

  private:
    void add_head(const DriveGroup& group, Value span, std::string level, std::uint64_t size) {
        rows_.push_back({std::int64_t{group.id}, std::move(span), "-", "-", "-", std::move(level),
                         "-", "-", busy_.count(group.id) != 0 ? "Y" : "N", format_size(size),
                         "dflt", "N", group.free_bytes.empty() ? "N" : "Y"});
    }
    void add_member(const DriveGroup& group, const Member& member) {
        const auto* drive = index_.find(member.drive);
        const bool busy = drive != nullptr && drive->operation;
        rows_.push_back(
            {std::int64_t{group.id}, std::int64_t{member.span},
             std::int64_t{row_in_span(group, member)}, drive == nullptr ? "-" : slot_text(*drive),
             drive == nullptr ? Value("-") : Value(std::int64_t{drive->pid}), "DRIVE",
             member.drive.empty() ? "Msng" : "Conf", to_string(member.status), busy ? "Y" : "N",
             drive == nullptr ? "-" : drive_size_text(*drive), "dflt", "N", "-"});
    }
    void add_spare(Value group, const Drive& drive) {
        rows_.push_back({std::move(group), "-", "-", slot_text(drive), std::int64_t{drive.pid},
                         "DRIVE", drive_state_text(drive.state), drive_status_text(drive), "N",
                         drive_size_text(drive), "dflt", "N", "-"});
    }

    DriveIndex index_;
    std::set<int> busy_;  ///< groups with an operation on a VD
    Drives global_spares_;
    std::map<int, Drives> spares_;  ///< dedicated, by group
    std::vector<Row> rows_;
};

/// The rest of a progress row: {Progress%, Status, Estimated Time Left, Speed}.
void append_progress(Row& row, const std::optional<Operation>& operation, OperationKind kind) {
    if (!operation || operation->kind != kind) {
        row.insert(row.end(), {"-", "Not in progress", "-", "-"});
        return;
    }
    row.emplace_back(static_cast<std::int64_t>(std::floor(operation->percent)));
    row.emplace_back("In progress");
    row.emplace_back(time_left_text(*operation));
    row.emplace_back(operation->speed_bytes_per_second == 0
                         ? "-"
                         : format_size(operation->speed_bytes_per_second) + "/s");
}

std::uint64_t foreign_bytes(const ForeignGroup& group) {
    std::uint64_t bytes = 0;
    for (const auto& vd : group.vds) {
        bytes += vd.size_bytes;
    }
    return bytes;
}

/// Pointers to all rows of a list, by id.
template <typename Item>
std::vector<const Item*> by_id(const std::vector<Item>& rows) {
    std::vector<const Item*> list;
    for (const auto& row : rows) {
        list.push_back(&row);
    }
    std::sort(list.begin(), list.end(),
              [](const auto* left, const auto* right) { return left->id < right->id; });
    return list;
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
    return by_id(snapshot.vds);
}

Groups all_groups(const Snapshot& snapshot) {
    return by_id(snapshot.groups);
}

ForeignGroups all_foreign(const Snapshot& snapshot) {
    return by_id(snapshot.foreign);
}

DriveIndex::DriveIndex(const Snapshot& snapshot) {
    drives_.reserve(snapshot.drives.size());
    for (const auto& drive : snapshot.drives) {
        drives_.emplace(drive.id, &drive);
    }
}

const Drive* DriveIndex::find(const std::string& id) const {
    const auto found = drives_.find(id);
    return found == drives_.end() ? nullptr : found->second;
}

std::string slot_text(const Drive& drive) {
    return drive.slot < 0 ? "-" : fmt::format("{}:{}", drive.enclosure, drive.slot);
}

int row_in_span(const DriveGroup& group, const Member& member) {
    return group.per_span > 0 ? member.row % group.per_span : member.row;
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

std::string vd_state_text(VdState state) {
    switch (state) {
        case VdState::optimal:
            return "Optl";
        case VdState::partially_degraded:
            return "Pdgd";
        case VdState::degraded:
            return "Dgrd";
        case VdState::offline:
            return "OfLn";
    }
    return "OfLn";
}

std::string coercion_text(const std::string& coercion) {
    if (coercion == "None") {
        return "0 (None)";
    }
    return coercion == "128M" ? "1 (128 MiB)" : "2 (1 GiB)";
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
                              vd_state_text(vd->state), "RW", "NR,WT", "NR,WT",
                              format_size(vd->size_bytes), vd->name});
    }
    return table;
}

Table member_table(std::string title, const DriveIndex& drives, const VirtualDrive& vd) {
    Table table{std::move(title), drive_columns(), {}, false, {}};
    for (const auto& member : vd.members) {
        const auto* drive = drives.find(member.drive);
        table.rows.push_back(drive == nullptr ? lost_member_row(vd, member) : drive_row(*drive));
    }
    return table;
}

Table topology_table(const Snapshot& snapshot, const Groups& groups) {
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
    TopologyRows rows(snapshot);
    for (const auto* group : groups) {
        rows.add(*group);
    }
    if (groups.size() == snapshot.groups.size()) {
        rows.add_global_spares();
    }
    table.rows = rows.take();
    return table;
}

Drives drives_of_groups(const Snapshot& snapshot, const Groups& groups) {
    std::set<std::string_view> members;
    std::set<int> ids;
    for (const auto* group : groups) {
        ids.insert(group->id);
        for (const auto& member : group->members) {
            members.insert(member.drive);
        }
    }
    Drives drives;
    for (const auto* drive : all_drives(snapshot)) {
        const bool spare = std::any_of(drive->spare_for.begin(), drive->spare_for.end(),
                                       [&](int id) { return ids.count(id) != 0; });
        if (spare || members.count(drive->id) != 0) {
            drives.push_back(drive);
        }
    }
    return drives;
}

Table free_space_table(const Groups& groups) {
    Table table{"FREE SPACE DETAILS",
                {{"ID", Align::number}, {"DG", Align::number}, {"Type"}, {"Size", Align::right}},
                {},
                false,
                {}};
    for (const auto* group : groups) {
        std::int64_t id = 0;
        for (const auto bytes : group->free_bytes) {
            table.rows.push_back({id++, std::int64_t{group->id}, group->level, format_size(bytes)});
        }
    }
    return table;
}

Table foreign_table(const ForeignGroups& groups) {
    Table table{"FOREIGN CONFIGURATION",
                {{"DG", Align::number},
                 {"EID:Slot"},
                 {"Type"},
                 {"State"},
                 {"Size", Align::right},
                 {"NoVDs", Align::number}},
                {},
                false,
                {}};
    for (const auto* group : groups) {
        table.rows.push_back({std::int64_t{group->id}, "-", group->level, "Frgn",
                              format_size(foreign_bytes(*group)),
                              static_cast<std::int64_t>(group->vds.size())});
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
        Row row{slot_text(*drive), std::int64_t{drive->pid}};
        append_progress(row, drive->operation, OperationKind::rebuild);
        table.rows.push_back(std::move(row));
    }
    return table;
}

Table vd_operation_table(const Vds& vds, OperationKind kind) {
    Table table{"VD Operation Status",
                {{"VD", Align::number},
                 {"Operation"},
                 {"Progress%", Align::number},
                 {"Status"},
                 {"Estimated Time Left"},
                 {"Speed", Align::right}},
                {},
                false,
                {}};
    for (const auto* vd : vds) {
        Row row{std::int64_t{vd->id}, kind == OperationKind::init ? "INIT" : "CC"};
        append_progress(row, vd->operation, kind);
        table.rows.push_back(std::move(row));
    }
    return table;
}

Table controller_properties_table(std::vector<Row> rows) {
    return {"Controller Properties", {{"Ctrl_Prop"}, {"Value"}}, std::move(rows), false, {}};
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
NS-Namespace|LU-Logical Unit|LUN-Logical Unit Number|NSID-Namespace ID|Alt-EID-Alternate Enclosure Persistent ID
Msng-Nobody is in this place)"}};
}

Text vd_legend() {
    return {{R"(VD-Virtual Drive|DG-Drive Group|Optl-Optimal|Pdgd-Partially Degraded|Dgrd-Degraded
OfLn-OffLine|RW-Read Write|RO-Read Only|NR-No Read Ahead|WT-WriteThrough)"}};
}

Text topology_legend() {
    return {{R"(DG-Drive Group Index|Span-Span Index|Row-Row Index|EID-Enclosure Persistent ID
PID-Persistent ID|Type-Drive or RAID Type|Conf-Configured|Msng-Nobody is in this place
DHS-Dedicated Hot Spare|GHS-Global Hot Spare|BT-Background Task Active|PDC-Drive Write Cache
dflt-Default|FSpace-Free Space Present|Y-Yes|N-No)"}};
}

Text enclosure_legend() {
    return {{R"(EID-Enclosure Persistent ID|PD-Physical drive count|PS-Power Supply count
TSs-Temperature sensor count|Alms-Alarm count|SIM-SIM Count|ProdID-Product ID)"}};
}

Text foreign_legend() {
    return {
        {"DG-Foreign Drive Group Index (/f0 and so on)|Frgn-Foreign|NoVDs-Number of VDs in the "
         "drive group"}};
}

Text free_space_legend() {
    return {
        {"ID-Free piece of the drive group, by place|Size-Of a VD of the drive group's level "
         "in that piece"}};
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
            line += "; " + operation_text(vd->operation);
            line += vd->operation->seconds_left
                        ? fmt::format(", {} left", time_left_text(*vd->operation))
                        : "";
        }
        notes.lines.push_back(std::move(line));
    }
    return notes;
}

Notes check_notes(const Vds& vds) {
    Notes notes{{"CC Result", {{"VD"}, {"Name"}, {"Mismatched Sectors"}}, {}, false, {}}, {}};
    for (const auto* vd : vds) {
        if (vd->mismatches) {
            notes.data.rows.push_back(
                {std::int64_t{vd->id}, vd->name, static_cast<std::int64_t>(*vd->mismatches)});
            notes.lines.push_back(fmt::format("{}: the last check found {} mismatched sectors",
                                              vd_text(*vd), *vd->mismatches));
        }
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
