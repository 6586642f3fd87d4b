// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/configuration.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>

#include "layout/drive_layout.hpp"
#include "uapi/perch_format.h"
#include "util/json_depth.hpp"

namespace perch {

using nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(MemberState, {{MemberState::failed, "failed"},
                                           {MemberState::online, "online"},
                                           {MemberState::candidate, "candidate"},
                                           {MemberState::offline, "offline"},
                                           {MemberState::missing, "missing"}})

NLOHMANN_JSON_SERIALIZE_ENUM(DriveRole, {{DriveRole::none, "none"},
                                         {DriveRole::global_spare, "global-spare"},
                                         {DriveRole::dedicated_spare, "dedicated-spare"}})

namespace {

constexpr std::size_t max_tombstones = 256;
constexpr int max_number = 4096;  ///< of a VD or drive group
constexpr int max_depth = 32;     ///< of nested JSON; the parser's own recursion has no limit

Uuid uuid_at(const json& object, const char* key) {
    const auto parsed = Uuid::parse(object.at(key).get<std::string>());
    if (!parsed) {
        throw std::invalid_argument(parsed.error().message);
    }
    return *parsed;
}

/// Integers read strictly: the library would cut off what does not fit, and convert fractions.
template <typename T>
T integer_from(const json& value) {
    if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>())) {
        return static_cast<T>(value.get<std::uint64_t>());
    }
    if (value.is_number_integer() && !value.is_number_unsigned() &&
        std::in_range<T>(value.get<std::int64_t>())) {
        return static_cast<T>(value.get<std::int64_t>());
    }
    throw std::invalid_argument("a number that is out of range: " + value.dump());
}

template <typename T>
void read_integer(const json& object, const char* key, T& into) {
    into = integer_from<T>(object.at(key));
}

/// Enumerations read strictly: the library's macro maps an unknown name to the first value.
template <typename E>
E enum_at(const json& object, const char* key) {
    const auto value = object.at(key).get<E>();
    if (json(value) != object.at(key)) {
        throw std::invalid_argument(fmt::format("unknown {} {}", key, object.at(key).dump()));
    }
    return value;
}

/// The fields of an object that this version does not know, as JSON text of an object.
std::string unknown_fields(json object, std::initializer_list<const char*> known) {
    for (const auto* name : known) {
        object.erase(name);
    }
    return object.dump();
}

/// What is known over what was kept.
json merged(const std::string& unknown, const json& known) {
    auto object = json::parse(unknown);
    object.update(known);
    return object;
}

template <typename E, typename Parse>
E name_at(const json& object, const char* key, Parse parse) {
    const auto text = object.at(key).get<std::string>();
    const auto value = parse(text);
    if (!value) {
        throw std::invalid_argument(
            fmt::format("{} '{}', which this version does not know", key, text));
    }
    return *value;
}

json uuids_to_json(const std::vector<Uuid>& uuids) {
    auto list = json::array();
    for (const auto& uuid : uuids) {
        list.push_back(uuid.str());
    }
    return list;
}

std::vector<Uuid> uuids_at(const json& object, const char* key) {
    std::vector<Uuid> uuids;
    for (const auto& text : object.at(key)) {
        const auto parsed = Uuid::parse(text.get<std::string>());
        if (!parsed) {
            throw std::invalid_argument(parsed.error().message);
        }
        uuids.push_back(*parsed);
    }
    return uuids;
}

json drive_to_json(const ConfigDrive& drive) {
    return merged(drive.unknown, {{"uuid", drive.uuid.str()},
                                  {"serial", drive.serial},
                                  {"model", drive.model},
                                  {"identity", drive.identity},
                                  {"enclosure", drive.enclosure},
                                  {"slot", drive.slot},
                                  {"device_bytes", drive.device_bytes},
                                  {"partition_bytes", drive.partition_bytes},
                                  {"block_bytes", drive.block_bytes},
                                  {"role", drive.role},
                                  {"spare_for", drive.spare_for},
                                  {"failed", drive.failed},
                                  {"acknowledged", drive.acknowledged.str()},
                                  {"attempted", uuids_to_json(drive.attempted)}});
}

ConfigDrive drive_from_json(const json& object) {
    ConfigDrive drive;
    drive.uuid = uuid_at(object, "uuid");
    object.at("serial").get_to(drive.serial);
    object.at("model").get_to(drive.model);
    object.at("identity").get_to(drive.identity);
    read_integer(object, "enclosure", drive.enclosure);
    read_integer(object, "slot", drive.slot);
    read_integer(object, "device_bytes", drive.device_bytes);
    read_integer(object, "partition_bytes", drive.partition_bytes);
    read_integer(object, "block_bytes", drive.block_bytes);
    drive.role = enum_at<DriveRole>(object, "role");
    for (const auto& group : object.at("spare_for")) {
        drive.spare_for.push_back(integer_from<int>(group));
    }
    object.at("failed").get_to(drive.failed);
    drive.acknowledged = uuid_at(object, "acknowledged");
    drive.attempted = uuids_at(object, "attempted");
    drive.unknown =
        unknown_fields(object, {"uuid", "serial", "model", "identity", "enclosure", "slot",
                                "device_bytes", "partition_bytes", "block_bytes", "role",
                                "spare_for", "failed", "acknowledged", "attempted"});
    return drive;
}

json member_to_json(const ConfigMember& member) {
    auto extents = json::array();
    for (const auto& extent : member.extents) {
        extents.push_back(
            {{"type", to_string(extent.type)}, {"offset", extent.offset}, {"bytes", extent.bytes}});
    }
    return merged(member.unknown, {{"drive", member.drive.str()},
                                   {"instance", member.instance.str()},
                                   {"state", member.state},
                                   {"extents", extents}});
}

ConfigMember member_from_json(const json& object) {
    ConfigMember member;
    member.drive = uuid_at(object, "drive");
    member.instance = uuid_at(object, "instance");
    member.state = enum_at<MemberState>(object, "state");
    for (const auto& extent : object.at("extents")) {
        member.extents.push_back({name_at<ExtentType>(extent, "type", parse_extent_type),
                                  integer_from<std::uint64_t>(extent.at("offset")),
                                  integer_from<std::uint64_t>(extent.at("bytes"))});
    }
    member.unknown = unknown_fields(object, {"drive", "instance", "state", "extents"});
    return member;
}

json vd_to_json(const ConfigVd& vd) {
    auto members = json::array();
    for (const auto& member : vd.members) {
        members.push_back(member_to_json(member));
    }
    auto object =
        merged(vd.unknown, {{"id", vd.id},
                            {"drive_group", vd.group},
                            {"uuid", vd.uuid.str()},
                            {"name", vd.name},
                            {"level", lower_name(vd.level)},
                            {"per_span", vd.per_span},
                            {"engine", to_string(vd.engine)},
                            {"strip_bytes", vd.strip_bytes},
                            {"block_bytes", vd.block_bytes},
                            {"vd_bytes", vd.vd_bytes},
                            {"created", vd.created},
                            {"started", vd.started},
                            {"needs_resync", vd.needs_resync},
                            {"deleting", vd.deleting},
                            {"initialized", vd.initialized ? json(*vd.initialized) : json()},
                            {"members", members}});
    if (vd.region_bytes != 0) {
        object["region_bytes"] = vd.region_bytes;
    }
    return object;
}

ConfigVd vd_from_json(const json& object) {
    ConfigVd vd;
    read_integer(object, "id", vd.id);
    read_integer(object, "drive_group", vd.group);
    vd.uuid = uuid_at(object, "uuid");
    object.at("name").get_to(vd.name);
    vd.level = name_at<RaidLevel>(object, "level", parse_raid_level);
    read_integer(object, "per_span", vd.per_span);
    vd.engine = name_at<EngineKind>(object, "engine", parse_engine_kind);
    if (object.contains("region_bytes")) {
        read_integer(object, "region_bytes", vd.region_bytes);
    }
    read_integer(object, "strip_bytes", vd.strip_bytes);
    read_integer(object, "block_bytes", vd.block_bytes);
    read_integer(object, "vd_bytes", vd.vd_bytes);
    read_integer(object, "created", vd.created);
    object.at("started").get_to(vd.started);
    object.at("needs_resync").get_to(vd.needs_resync);
    object.at("deleting").get_to(vd.deleting);
    if (!object.at("initialized").is_null()) {
        vd.initialized = integer_from<std::uint64_t>(object.at("initialized"));
    }
    for (const auto& member : object.at("members")) {
        vd.members.push_back(member_from_json(member));
    }
    vd.unknown =
        unknown_fields(object, {"id", "drive_group", "uuid", "name", "level", "per_span", "engine",
                                "region_bytes", "strip_bytes", "block_bytes", "vd_bytes", "created",
                                "started", "needs_resync", "deleting", "initialized", "members"});
    return vd;
}

template <typename T>
void once(std::set<T>& seen, const T& value, std::string_view what) {
    if (!seen.insert(value).second) {
        throw std::invalid_argument(fmt::format("{} twice", what));
    }
}

void check_extent(const Extent& extent, std::uint64_t end) {
    if (extent.offset < PERCH_EXTENTS_OFFSET || extent.bytes == 0 ||
        extent.offset % PERCH_EXTENT_ALIGN != 0 || extent.bytes % PERCH_EXTENT_ALIGN != 0 ||
        extent.offset > end || extent.bytes > end - extent.offset) {
        throw std::invalid_argument(
            fmt::format("extent of {} bytes at {}", extent.bytes, extent.offset));
    }
}

void check_member(const Configuration& configuration, const ConfigVd& vd,
                  const ConfigMember& member) {
    std::uint64_t end = UINT64_MAX / 2;
    if (member.drive.is_nil()) {
        if (member.state != MemberState::missing) {
            throw std::invalid_argument("a member without a drive that is not missing");
        }
    } else {
        const auto* drive = find_drive(configuration, member.drive);
        if (drive == nullptr || drive->partition_bytes < PERCH_EXTENTS_OFFSET) {
            throw std::invalid_argument("member on the unknown drive " + member.drive.str());
        }
        end = PERCH_EXTENTS_OFFSET + extent_space(drive->partition_bytes);
    }
    for (const auto& extent : member.extents) {
        check_extent(extent, end);
    }
    if (member.extents != vd.members.front().extents) {
        throw std::invalid_argument("members whose extents differ");
    }
}

/// Extents of one drive group lie at the same places on all its drives and nowhere overlap.
void check_overlaps(const std::vector<const ConfigVd*>& vds) {
    std::vector<Extent> all;
    for (const auto* vd : vds) {
        const auto& extents = vd->members.front().extents;
        all.insert(all.end(), extents.begin(), extents.end());
    }
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (all[i - 1].end() > all[i].offset) {
            throw std::invalid_argument(fmt::format("extents that overlap at {}", all[i].offset));
        }
    }
}

/// What a VD's engine needs: the target has a dirty map, in regions that its extent has room for.
void check_engine(const ConfigVd& vd, std::uint64_t data_bytes) {
    if (vd.engine == EngineKind::dm_raid) {
        if (vd.region_bytes != 0) {
            throw std::invalid_argument("regions of a dirty map that dm-raid does not have");
        }
        return;
    }
    const auto* map = find_extent(vd.members.front(), ExtentType::dirty_map);
    const auto* bad = find_extent(vd.members.front(), ExtentType::bad_ranges);
    if (!std::has_single_bit(vd.region_bytes) || vd.region_bytes < vd.strip_bytes ||
        vd.region_bytes > PERCH_MAX_REGION_BYTES ||
        (data_bytes - 1) / vd.region_bytes >= max_regions || map == nullptr ||
        map->bytes != PERCH_DIRTY_MAP_EXTENT_BYTES || bad == nullptr ||
        bad->bytes != PERCH_BAD_RANGES_EXTENT_BYTES) {
        throw std::invalid_argument(fmt::format("regions of {} bytes", vd.region_bytes));
    }
}

/// What a writer of this version never writes is refused, so that a damaged or hostile
/// configuration cannot lead the engine to foreign blocks.
void check_vd(const Configuration& configuration, const ConfigVd& vd) {
    if (vd.id < 0 || vd.id > max_number || vd.group < 0 || vd.group > max_number ||
        !valid_vd_name(vd.name)) {
        throw std::invalid_argument(fmt::format("VD {} with the name '{}'", vd.id, vd.name));
    }
    if (vd.block_bytes != 512 && vd.block_bytes != 4096) {
        throw std::invalid_argument(fmt::format("block size {}", vd.block_bytes));
    }
    if (vd.members.empty() || vd.members.size() > static_cast<std::size_t>(max_members)) {
        throw std::invalid_argument(fmt::format("{} members", vd.members.size()));
    }
    const auto shape =
        make_shape(vd.level, static_cast<int>(vd.members.size()), std::max(vd.per_span, 1));
    const auto strip = check_strip(vd.strip_bytes, vd.block_bytes);
    if (!shape || !strip) {
        throw std::invalid_argument(shape ? strip.error().message : shape.error().message);
    }
    std::set<ExtentType> types;
    for (const auto& extent : vd.members.front().extents) {
        once(types, extent.type, "an extent");
    }
    for (const auto& member : vd.members) {
        check_member(configuration, vd, member);
    }
    const auto* data = find_extent(vd.members.front(), ExtentType::data);
    const auto* metadata = find_extent(vd.members.front(), ExtentType::dm_raid);
    if (data == nullptr || metadata == nullptr || metadata->bytes != PERCH_DMRAID_EXTENT_BYTES ||
        find_extent(vd.members.front(), ExtentType::superblock) == nullptr ||
        vd.vd_bytes != data->bytes * static_cast<std::uint64_t>(shape->data_members())) {
        throw std::invalid_argument(fmt::format("VD of {} bytes", vd.vd_bytes));
    }
    check_engine(vd, data->bytes);
    if (vd.initialized && *vd.initialized > vd.vd_bytes) {
        throw std::invalid_argument("initialization beyond the end of the VD");
    }
}

/// All VDs of a drive group have its drives, in its order, and its shape.
void check_group(const std::vector<const ConfigVd*>& vds) {
    if (vds.size() > max_vds_per_group) {
        throw std::invalid_argument(fmt::format("{} VDs in one drive group", vds.size()));
    }
    for (const auto* vd : vds) {
        const auto& first = *vds.front();
        const bool same_rows = std::equal(
            vd->members.begin(), vd->members.end(), first.members.begin(), first.members.end(),
            [](const auto& a, const auto& b) { return a.drive == b.drive; });
        if (!same_rows || vd->level != first.level || vd->per_span != first.per_span ||
            vd->block_bytes != first.block_bytes) {
            throw std::invalid_argument("VDs of one drive group that do not fit together");
        }
    }
    check_overlaps(vds);
}

void check(const Configuration& configuration) {
    std::set<int> ids;
    std::set<int> groups;
    std::set<Uuid> uuids(configuration.tombstones.begin(), configuration.tombstones.end());
    std::set<std::string> names;
    std::set<Uuid> drives;
    std::set<Uuid> members;
    std::set<Uuid> instances;
    for (const auto& drive : configuration.drives) {
        once(drives, drive.uuid, "a drive");
    }
    for (const auto& vd : configuration.vds) {
        once(ids, vd.id, "a VD's number");
        once(uuids, vd.uuid, "a VD's UUID");
        once(names, vd.name, "a VD's name");
        check_vd(configuration, vd);
        for (const auto& member : vd.members) {
            once(instances, member.instance, "a member's instance");
        }
        groups.insert(vd.group);
    }
    for (const int group : groups) {
        const auto vds = vds_of_group(configuration, group);
        check_group(vds);
        for (const auto& member : vds.front()->members) {
            if (!member.drive.is_nil()) {
                once(members, member.drive, "a drive as member");
            }
        }
    }
}

}  // namespace

bool valid_vd_name(const std::string& name) {
    static const std::regex pattern("[A-Za-z0-9][A-Za-z0-9._-]*");
    return name.size() <= max_vd_name && std::regex_match(name, pattern);
}

std::string to_string(MemberState state) {
    return json(state).get<std::string>();
}

RaidShape shape_of(const ConfigVd& vd) {
    return {vd.level, static_cast<int>(vd.members.size()), vd.per_span};
}

const Extent* find_extent(const ConfigMember& member, ExtentType type) {
    const auto found = std::find_if(member.extents.begin(), member.extents.end(),
                                    [&](const auto& extent) { return extent.type == type; });
    return found == member.extents.end() ? nullptr : &*found;
}

std::vector<const ConfigVd*> vds_of_group(const Configuration& configuration, int group) {
    std::vector<const ConfigVd*> vds;
    for (const auto& vd : configuration.vds) {
        if (vd.group == group) {
            vds.push_back(&vd);
        }
    }
    std::sort(vds.begin(), vds.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
    return vds;
}

std::optional<int> group_of_drive(const Configuration& configuration, const Uuid& drive) {
    for (const auto& vd : configuration.vds) {
        for (const auto& member : vd.members) {
            if (member.drive == drive) {
                return vd.group;
            }
        }
    }
    return std::nullopt;
}

std::vector<Range> free_in_group(const Configuration& configuration, int group) {
    std::vector<Extent> used;
    std::uint64_t smallest = 0;
    for (const auto* vd : vds_of_group(configuration, group)) {
        for (const auto& member : vd->members) {
            const auto* drive = find_drive(configuration, member.drive);
            if (drive != nullptr) {
                smallest = smallest == 0 ? drive->partition_bytes
                                         : std::min(smallest, drive->partition_bytes);
            }
        }
        const auto& extents = vd->members.front().extents;
        used.insert(used.end(), extents.begin(), extents.end());
    }
    return free_ranges(smallest, std::move(used));
}

const ConfigVd* find_vd(const Configuration& configuration, int id) {
    const auto found = std::find_if(configuration.vds.begin(), configuration.vds.end(),
                                    [&](const auto& vd) { return vd.id == id; });
    return found == configuration.vds.end() ? nullptr : &*found;
}

ConfigVd* find_vd(Configuration& configuration, int id) {
    const auto found = std::find_if(configuration.vds.begin(), configuration.vds.end(),
                                    [&](const auto& vd) { return vd.id == id; });
    return found == configuration.vds.end() ? nullptr : &*found;
}

const ConfigVd* find_vd(const Configuration& configuration, const Uuid& vd) {
    const auto found = std::find_if(configuration.vds.begin(), configuration.vds.end(),
                                    [&](const auto& row) { return row.uuid == vd; });
    return found == configuration.vds.end() ? nullptr : &*found;
}

const ConfigDrive* find_drive(const Configuration& configuration, const Uuid& drive) {
    const auto found = std::find_if(configuration.drives.begin(), configuration.drives.end(),
                                    [&](const auto& row) { return row.uuid == drive; });
    return found == configuration.drives.end() ? nullptr : &*found;
}

void upsert_drive(Configuration& configuration, const ConfigDrive& drive) {
    for (auto& row : configuration.drives) {
        if (row.uuid == drive.uuid) {
            row = drive;
            return;
        }
    }
    configuration.drives.push_back(drive);
}

void forget_absent_drives(Configuration& configuration, const std::vector<Uuid>& present) {
    std::erase_if(configuration.drives, [&](const auto& drive) {
        return !group_of_drive(configuration, drive.uuid) &&
               std::find(present.begin(), present.end(), drive.uuid) == present.end();
    });
}

Configuration successor(const Configuration& configuration) {
    auto next = configuration;
    next.sequence += 1;
    next.parent = configuration.id;
    next.id = Uuid::random();
    if (next.tombstones.size() > max_tombstones) {
        next.tombstones.erase(next.tombstones.begin(),
                              next.tombstones.end() - static_cast<std::ptrdiff_t>(max_tombstones));
    }
    return next;
}

std::string configuration_to_text(const Configuration& configuration) {
    auto object = json::parse(configuration.unknown);
    auto drives = json::array();
    for (const auto& drive : configuration.drives) {
        drives.push_back(drive_to_json(drive));
    }
    auto vds = json::array();
    for (const auto& vd : configuration.vds) {
        vds.push_back(vd_to_json(vd));
    }
    object["controller"] = configuration.controller.str();
    object["sequence"] = configuration.sequence;
    object["id"] = configuration.id.str();
    object["parent"] = configuration.parent.str();
    object["settings"] = merged(configuration.settings.unknown,
                                {{"coercion", to_string(configuration.settings.coercion)}});
    object["drives"] = drives;
    object["vds"] = vds;
    object["jbods"] = configuration.jbods;
    object["tombstones"] = uuids_to_json(configuration.tombstones);
    return object.dump(1, '\t', false, json::error_handler_t::replace) + "\n";
}

Result<Configuration> configuration_from_text(const std::string& text) {
    if (!json_depth_within(text, max_depth)) {
        return fail(Errc::corrupt, "configuration nested too deeply");
    }
    try {
        auto object = json::parse(text);
        Configuration configuration;
        configuration.controller = uuid_at(object, "controller");
        read_integer(object, "sequence", configuration.sequence);
        configuration.id = uuid_at(object, "id");
        configuration.parent = uuid_at(object, "parent");
        for (const auto& drive : object.at("drives")) {
            configuration.drives.push_back(drive_from_json(drive));
        }
        for (const auto& vd : object.at("vds")) {
            configuration.vds.push_back(vd_from_json(vd));
        }
        configuration.settings.coercion =
            name_at<Coercion>(object.at("settings"), "coercion", parse_coercion);
        configuration.settings.unknown = unknown_fields(object.at("settings"), {"coercion"});
        object.at("jbods").get_to(configuration.jbods);
        configuration.tombstones = uuids_at(object, "tombstones");
        for (const auto* known : {"controller", "sequence", "id", "parent", "settings", "drives",
                                  "vds", "jbods", "tombstones"}) {
            object.erase(known);
        }
        configuration.unknown = object.dump();
        check(configuration);
        return configuration;
    } catch (const json::exception& error) {
        return fail(Errc::corrupt, "unreadable configuration: {}", error.what());
    } catch (const std::invalid_argument& error) {
        return fail(Errc::corrupt, "configuration does not hold together: {}", error.what());
    }
}

}  // namespace perch
