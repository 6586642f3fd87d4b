// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/configuration.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

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

/// Enumerations read strictly: the library's macro maps an unknown name to the first value.
MemberState state_at(const json& object) {
    const auto state = object.at("state").get<MemberState>();
    if (json(state) != object.at("state")) {
        throw std::invalid_argument("unknown member state " + object.at("state").dump());
    }
    return state;
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

json drive_to_json(const ConfigDrive& drive) {
    return merged(drive.unknown, {{"uuid", drive.uuid.str()},
                                  {"serial", drive.serial},
                                  {"model", drive.model},
                                  {"identity", drive.identity},
                                  {"enclosure", drive.enclosure},
                                  {"slot", drive.slot},
                                  {"device_bytes", drive.device_bytes}});
}

ConfigDrive drive_from_json(const json& object) {
    ConfigDrive drive;
    drive.uuid = uuid_at(object, "uuid");
    object.at("serial").get_to(drive.serial);
    object.at("model").get_to(drive.model);
    object.at("identity").get_to(drive.identity);
    object.at("enclosure").get_to(drive.enclosure);
    object.at("slot").get_to(drive.slot);
    object.at("device_bytes").get_to(drive.device_bytes);
    drive.unknown = unknown_fields(
        object, {"uuid", "serial", "model", "identity", "enclosure", "slot", "device_bytes"});
    return drive;
}

json member_to_json(const ConfigMember& member) {
    return {
        {"drive", member.drive.str()},
        {"instance", member.instance.str()},
        {"state", member.state},
        {"extents",
         json::array(
             {{{"type", "dm-raid-metadata"},
               {"offset", member.metadata_offset},
               {"bytes", member.metadata_bytes}},
              {{"type", "data"}, {"offset", member.data_offset}, {"bytes", member.data_bytes}}})}};
}

ConfigMember member_from_json(const json& object) {
    ConfigMember member;
    member.drive = uuid_at(object, "drive");
    member.instance = uuid_at(object, "instance");
    member.state = state_at(object);
    for (const auto& extent : object.at("extents")) {
        const auto type = extent.at("type").get<std::string>();
        if (type == "dm-raid-metadata") {
            extent.at("offset").get_to(member.metadata_offset);
            extent.at("bytes").get_to(member.metadata_bytes);
        } else if (type == "data") {
            extent.at("offset").get_to(member.data_offset);
            extent.at("bytes").get_to(member.data_bytes);
        } else {
            throw std::invalid_argument("unknown extent type " + type);
        }
    }
    return member;
}

json vd_to_json(const ConfigVd& vd) {
    auto members = json::array();
    for (const auto& member : vd.members) {
        members.push_back(member_to_json(member));
    }
    return merged(vd.unknown, {{"id", vd.id},
                               {"drive_group", vd.group},
                               {"uuid", vd.uuid.str()},
                               {"name", vd.name},
                               {"level", vd.level},
                               {"engine", vd.engine},
                               {"strip_bytes", vd.strip_bytes},
                               {"block_bytes", vd.block_bytes},
                               {"vd_bytes", vd.vd_bytes},
                               {"created", vd.created},
                               {"started", vd.started},
                               {"needs_resync", vd.needs_resync},
                               {"deleting", vd.deleting},
                               {"members", members}});
}

ConfigVd vd_from_json(const json& object) {
    ConfigVd vd;
    object.at("id").get_to(vd.id);
    object.at("drive_group").get_to(vd.group);
    vd.uuid = uuid_at(object, "uuid");
    object.at("name").get_to(vd.name);
    object.at("level").get_to(vd.level);
    object.at("engine").get_to(vd.engine);
    object.at("strip_bytes").get_to(vd.strip_bytes);
    object.at("block_bytes").get_to(vd.block_bytes);
    object.at("vd_bytes").get_to(vd.vd_bytes);
    object.at("created").get_to(vd.created);
    object.at("started").get_to(vd.started);
    object.at("needs_resync").get_to(vd.needs_resync);
    object.at("deleting").get_to(vd.deleting);
    for (const auto& member : object.at("members")) {
        vd.members.push_back(member_from_json(member));
    }
    vd.unknown = unknown_fields(object, {"id", "drive_group", "uuid", "name", "level", "engine",
                                         "strip_bytes", "block_bytes", "vd_bytes", "created",
                                         "started", "needs_resync", "deleting", "members"});
    return vd;
}

void check_extent(std::uint64_t offset, std::uint64_t bytes, std::uint64_t end) {
    if (offset < PERCH_EXTENTS_OFFSET || bytes == 0 || offset % PERCH_EXTENT_ALIGN != 0 ||
        bytes % PERCH_EXTENT_ALIGN != 0 || offset > end || bytes > end - offset) {
        throw std::invalid_argument(fmt::format("extent of {} bytes at {}", bytes, offset));
    }
}

void check_member(const Configuration& configuration, const ConfigVd& vd,
                  const ConfigMember& member) {
    const auto* drive = find_drive(configuration, member.drive);
    const auto partition = drive == nullptr
                               ? Result<PartitionLayout>(fail(Errc::corrupt, "unknown drive"))
                               : partition_layout(drive->device_bytes);
    if (!partition) {
        throw std::invalid_argument("member on drive " + member.drive.str() + ": " +
                                    partition.error().message);
    }
    const auto end = partition->length - PERCH_EDGE_BYTES;
    check_extent(member.metadata_offset, member.metadata_bytes, end);
    check_extent(member.data_offset, member.data_bytes, end);
    if (member.metadata_offset + member.metadata_bytes > member.data_offset ||
        member.metadata_bytes != dmraid_metadata_bytes ||
        member.data_bytes != vd.members.front().data_bytes) {
        throw std::invalid_argument("members whose extents do not fit together");
    }
}

/// What a writer of this version never writes is refused, so that a damaged or hostile
/// configuration cannot lead the engine to foreign blocks.
void check_vd(const Configuration& configuration, const ConfigVd& vd) {
    if (vd.id < 0 || vd.id > max_number || vd.group < 0 || vd.group > max_number ||
        !valid_vd_name(vd.name)) {
        throw std::invalid_argument(fmt::format("VD {} with the name '{}'", vd.id, vd.name));
    }
    if (vd.level != "raid5" || vd.engine != "dm-raid") {
        throw std::invalid_argument("level " + vd.level + " on engine " + vd.engine +
                                    ", which this version does not know");
    }
    if (vd.block_bytes != 512 && vd.block_bytes != 4096) {
        throw std::invalid_argument(fmt::format("block size {}", vd.block_bytes));
    }
    for (const auto& member : vd.members) {
        check_member(configuration, vd, member);
    }
    const auto data_bytes = vd.members.empty() ? 0 : vd.members.front().data_bytes;
    const auto needed =
        PERCH_EXTENTS_OFFSET + dmraid_metadata_bytes + data_bytes + PERCH_EDGE_BYTES;
    const auto layout =
        raid5_layout(static_cast<int>(vd.members.size()), needed, vd.strip_bytes, vd.block_bytes);
    if (!layout || vd.vd_bytes != data_bytes * (vd.members.size() - 1)) {
        throw std::invalid_argument(layout ? fmt::format("VD of {} bytes", vd.vd_bytes)
                                           : layout.error().message);
    }
}

template <typename T>
void once(std::set<T>& seen, const T& value, std::string_view what) {
    if (!seen.insert(value).second) {
        throw std::invalid_argument(fmt::format("{} twice", what));
    }
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
        once(groups, vd.group, "a drive group");
        once(uuids, vd.uuid, "a VD's UUID");
        once(names, vd.name, "a VD's name");
        check_vd(configuration, vd);
        for (const auto& member : vd.members) {
            once(members, member.drive, "a drive as member");
            once(instances, member.instance, "a member's instance");
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

const ConfigMember* find_member(const Configuration& configuration, const Uuid& drive) {
    for (const auto& vd : configuration.vds) {
        for (const auto& member : vd.members) {
            if (member.drive == drive) {
                return &member;
            }
        }
    }
    return nullptr;
}

void forget_absent_drives(Configuration& configuration, const std::vector<Uuid>& present) {
    std::erase_if(configuration.drives, [&](const auto& drive) {
        return find_member(configuration, drive.uuid) == nullptr &&
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
    auto tombstones = json::array();
    for (const auto& uuid : configuration.tombstones) {
        tombstones.push_back(uuid.str());
    }
    object["controller"] = configuration.controller.str();
    object["sequence"] = configuration.sequence;
    object["id"] = configuration.id.str();
    object["parent"] = configuration.parent.str();
    object["drives"] = drives;
    object["vds"] = vds;
    object["tombstones"] = tombstones;
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
        object.at("sequence").get_to(configuration.sequence);
        configuration.id = uuid_at(object, "id");
        configuration.parent = uuid_at(object, "parent");
        for (const auto& drive : object.at("drives")) {
            configuration.drives.push_back(drive_from_json(drive));
        }
        for (const auto& vd : object.at("vds")) {
            configuration.vds.push_back(vd_from_json(vd));
        }
        for (const auto& uuid : object.at("tombstones")) {
            const auto parsed = Uuid::parse(uuid.get<std::string>());
            if (!parsed) {
                return fail(Errc::corrupt, "configuration: {}", parsed.error().message);
            }
            configuration.tombstones.push_back(*parsed);
        }
        for (const auto* known :
             {"controller", "sequence", "id", "parent", "drives", "vds", "tombstones"}) {
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
