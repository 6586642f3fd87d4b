// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/configuration.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "uapi/perch_format.h"

namespace perch {

using nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(MemberState, {{MemberState::failed, "failed"},
                                           {MemberState::online, "online"},
                                           {MemberState::candidate, "candidate"},
                                           {MemberState::offline, "offline"},
                                           {MemberState::missing, "missing"}})

namespace {

constexpr std::size_t max_tombstones = 256;

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

json drive_to_json(const ConfigDrive& drive) {
    return {
        {"uuid", drive.uuid.str()},          {"serial", drive.serial},       {"model", drive.model},
        {"identity", drive.identity},        {"enclosure", drive.enclosure}, {"slot", drive.slot},
        {"device_bytes", drive.device_bytes}};
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
    return {{"id", vd.id},
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
            {"deleting", vd.deleting},
            {"members", members}};
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
    object.at("deleting").get_to(vd.deleting);
    for (const auto& member : object.at("members")) {
        vd.members.push_back(member_from_json(member));
    }
    return vd;
}

void check_extent(std::uint64_t offset, std::uint64_t bytes) {
    if (offset < PERCH_EXTENTS_OFFSET || bytes == 0 || offset % PERCH_EXTENT_ALIGN != 0 ||
        bytes > UINT64_MAX / 2 || offset > UINT64_MAX / 2) {
        throw std::invalid_argument(fmt::format("extent of {} bytes at {}", bytes, offset));
    }
}

/// What a writer of this version never writes is refused, so that a damaged or hostile
/// configuration cannot lead the engine to foreign blocks.
void check_vd(const ConfigVd& vd) {
    if (vd.level != "raid5" || vd.engine != "dm-raid") {
        throw std::invalid_argument("level " + vd.level + " on engine " + vd.engine +
                                    ", which this version does not know");
    }
    if (vd.block_bytes != 512 && vd.block_bytes != 4096) {
        throw std::invalid_argument(fmt::format("block size {}", vd.block_bytes));
    }
    if (vd.members.empty()) {
        throw std::invalid_argument("a VD without members");
    }
    for (const auto& member : vd.members) {
        check_extent(member.metadata_offset, member.metadata_bytes);
        check_extent(member.data_offset, member.data_bytes);
        if (member.metadata_offset + member.metadata_bytes > member.data_offset ||
            member.data_bytes != vd.members.front().data_bytes) {
            throw std::invalid_argument("members whose extents do not fit together");
        }
    }
    const auto smallest = PERCH_EXTENTS_OFFSET + vd.members.front().metadata_bytes +
                          vd.members.front().data_bytes + PERCH_EDGE_BYTES;
    const auto layout =
        raid5_layout(static_cast<int>(vd.members.size()), smallest, vd.strip_bytes, vd.block_bytes);
    if (!layout || vd.vd_bytes != layout->vd_bytes) {
        throw std::invalid_argument(layout ? fmt::format("VD of {} bytes", vd.vd_bytes)
                                           : layout.error().message);
    }
}

void check(const Configuration& configuration) {
    std::set<int> ids;
    std::set<Uuid> uuids;
    std::set<std::string> names;
    std::set<Uuid> members;
    for (const auto& vd : configuration.vds) {
        if (!ids.insert(vd.id).second || !uuids.insert(vd.uuid).second ||
            !names.insert(vd.name).second) {
            throw std::invalid_argument(fmt::format("VD {} twice", vd.id));
        }
        check_vd(vd);
        for (const auto& member : vd.members) {
            if (!members.insert(member.drive).second) {
                throw std::invalid_argument("drive " + member.drive.str() + " is a member twice");
            }
            if (find_drive(configuration, member.drive) == nullptr) {
                throw std::invalid_argument("member on unknown drive " + member.drive.str());
            }
        }
    }
}

}  // namespace

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
