// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/config_slot.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.hpp"
#include "engine/sim/sim_device.hpp"
#include "support/hex_dump.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;
using nlohmann::json;

namespace {

std::string golden_text() {
    return read_text(PERCH_GOLDEN_DIR "/configuration-v1.json");
}

/// The golden configuration as the slot that version 1 wrote.
Bytes golden_slot() {
    auto bytes = parse_hex_dump(read_text(PERCH_GOLDEN_DIR "/config-header-v1.hex"));
    const auto text = golden_text();
    const auto payload = std::as_bytes(std::span(text));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(round_up(bytes.size(), PERCH_METADATA_UNIT));
    return bytes;
}

/// A slot whose checksums are right, whatever the text says.
Bytes slot_of(const std::string& text, std::uint32_t version = PERCH_CONFIG_VERSION,
              std::uint64_t features = 0) {
    auto raw = load<perch_config_header>(golden_slot());
    const auto payload = std::as_bytes(std::span(text));
    raw.version = htole32(version);
    raw.feature_incompat = htole64(features);
    raw.payload_bytes = htole64(payload.size());
    raw.payload_crc32c = htole32(crc32c(payload));
    raw.header_crc32c = 0;
    raw.header_crc32c = htole32(crc32c(bytes_of(raw)));
    const auto header = bytes_of(raw);
    Bytes bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(round_up(bytes.size(), PERCH_METADATA_UNIT));
    return bytes;
}

Configuration golden() {
    return *configuration_from_text(golden_text());
}

/// A configuration that takes several 4 KiB units: `vds` VDs of three members each.
Configuration large(int vds, std::uint64_t sequence) {
    auto configuration = golden();
    const auto model = configuration.vds.front();
    configuration.vds.clear();
    configuration.drives.clear();
    for (int i = 0; i < vds; ++i) {
        auto vd = model;
        vd.id = i + 1;
        vd.group = i;
        vd.uuid = Uuid::random();
        vd.name = fmt::format("v{}", vd.id);
        for (auto& member : vd.members) {
            member.drive = Uuid::random();
            member.instance = Uuid::random();
            ConfigDrive drive;
            drive.uuid = member.drive;
            drive.serial = "SN";
            drive.slot = i;
            drive.device_bytes = 3 * GiB;
            drive.partition_bytes = GiB;
            configuration.drives.push_back(drive);
        }
        configuration.vds.push_back(vd);
    }
    configuration.sequence = sequence;
    configuration.id = Uuid::random();
    return configuration;
}

struct SlotDrive {
    void write(const Configuration& configuration) {
        REQUIRE(write_configuration(device, partition, configuration));
    }
    [[nodiscard]] std::uint64_t offset(unsigned slot) const {
        return partition.offset + PERCH_EDGE_BYTES + slot * PERCH_CONFIG_SLOT_BYTES;
    }
    Configuration read() {
        const auto found = read_configuration(device, partition);
        REQUIRE(found);
        REQUIRE(found->has_value());
        return **found;
    }
    std::optional<std::uint64_t> sequence_in(unsigned slot) {
        const auto bytes = device.read(offset(slot), PERCH_CONFIG_SLOT_BYTES);
        const auto found = decode_config_slot(*bytes);
        return found ? std::optional(found->sequence) : std::nullopt;
    }

    StepCounter steps;
    SimDevice device{3 * GiB, steps};
    PartitionLayout partition = *partition_layout(3 * GiB);
};

struct Mutation {
    const char* name;
    std::function<void(json&)> edit;
};

json& member(json& text, std::size_t row) {
    return text["vds"][0]["members"][row];
}
json& extent(json& text, std::size_t row, std::size_t number) {
    return member(text, row)["extents"][number];
}

constexpr std::size_t metadata = 1;
constexpr std::size_t data = 2;

/// A second VD on drives of its own, all in order.
json& second_vd(json& text) {
    json vd = text["vds"][0];
    vd["id"] = 2;
    vd["drive_group"] = 1;
    vd["name"] = "second";
    vd["uuid"] = "5d000000-0000-4000-8000-000000000002";
    for (int row = 0; row < 3; ++row) {
        json drive = text["drives"][0];
        drive["uuid"] = fmt::format("d1000000-0000-4000-8000-00000000000{}", row);
        vd["members"][static_cast<std::size_t>(row)]["drive"] = drive["uuid"];
        vd["members"][static_cast<std::size_t>(row)]["instance"] =
            fmt::format("a1000000-0000-4000-8000-00000000000{}", row);
        text["drives"].push_back(drive);
    }
    text["vds"].push_back(vd);
    return text["vds"][1];
}

void set_offset(json& text, std::size_t number, std::uint64_t offset) {
    for (std::size_t row = 0; row < 3; ++row) {
        extent(text, row, number)["offset"] = offset;
    }
}

/// Makes all members' data that large, and the VD as large as follows from it.
void set_data_bytes(json& text, std::uint64_t bytes) {
    for (std::size_t row = 0; row < 3; ++row) {
        extent(text, row, data)["bytes"] = bytes;
    }
    text["vds"][0]["vd_bytes"] = 2 * bytes;
}

/// Text that parses and has a right checksum, and must never be acted on.
std::vector<Mutation> nonsense() {
    return {
        {"the metadata overlaps the data", [](json& t) { set_offset(t, metadata, 13 * MiB); }},
        {"an extent in the configuration slots", [](json& t) { set_offset(t, metadata, 4 * MiB); }},
        {"an extent that is not aligned", [](json& t) { set_offset(t, data, 14 * MiB + 4096); }},
        {"members whose extents lie at different places",
         [](json& t) { extent(t, 1, data)["offset"] = 15 * MiB; }},
        {"two extents of one type",
         [](json& t) {
             for (std::size_t row = 0; row < 3; ++row) {
                 extent(t, row, 0)["type"] = "data";
             }
         }},
        {"no superblock extent",
         [](json& t) {
             for (std::size_t row = 0; row < 3; ++row) {
                 member(t, row)["extents"].erase(0);
             }
         }},
        {"an empty extent", [](json& t) { extent(t, 2, metadata)["bytes"] = 0; }},
        {"no data extent", [](json& t) { member(t, 0)["extents"].erase(2); }},
        {"no extents", [](json& t) { member(t, 0)["extents"] = json::array(); }},
        {"members of different sizes", [](json& t) { extent(t, 2, data)["bytes"] = 1008 * MiB; }},
        {"an extent with a negative size", [](json& t) { extent(t, 0, data)["bytes"] = -1; }},
        {"data of almost 2^63 bytes", [](json& t) { set_data_bytes(t, (1ULL << 63) - MiB); }},
        {"data of almost 2^64 bytes", [](json& t) { set_data_bytes(t, UINT64_MAX - MiB + 1); }},
        {"data that leaves the drive", [](json& t) { set_data_bytes(t, 1100 * MiB); }},
        {"data that reaches into the last MiB", [](json& t) { set_data_bytes(t, 1010 * MiB); }},
        {"an offset beyond 2^63",
         [](json& t) { extent(t, 0, data)["offset"] = UINT64_MAX - MiB + 1; }},
        {"an unknown extent type", [](json& t) { extent(t, 0, data)["type"] = "warp"; }},
        {"a VD larger than its members",
         [](json& t) {
             // Metadata larger and data smaller by the same amount.
             for (std::size_t row = 0; row < 3; ++row) {
                 extent(t, row, metadata)["bytes"] = 5 * MiB;
                 extent(t, row, data)["offset"] = 15 * MiB;
                 extent(t, row, data)["bytes"] = 1008 * MiB;
             }
         }},
        {"a VD size that does not follow from its members",
         [](json& t) { t["vds"][0]["vd_bytes"] = 3027 * MiB; }},
        {"a VD of no bytes", [](json& t) { t["vds"][0]["vd_bytes"] = 0; }},
        {"a strip that is no power of two", [](json& t) { t["vds"][0]["strip_bytes"] = 65537; }},
        {"a strip of zero", [](json& t) { t["vds"][0]["strip_bytes"] = 0; }},
        {"a strip of 2^63", [](json& t) { t["vds"][0]["strip_bytes"] = 1ULL << 63; }},
        {"a block size of 520", [](json& t) { t["vds"][0]["block_bytes"] = 520; }},
        {"an unknown level", [](json& t) { t["vds"][0]["level"] = "raid7"; }},
        {"an unknown engine", [](json& t) { t["vds"][0]["engine"] = "warp"; }},
        {"an unknown member state", [](json& t) { member(t, 0)["state"] = "shiny"; }},
        {"a member state that is a number", [](json& t) { member(t, 0)["state"] = 1; }},
        {"no members", [](json& t) { t["vds"][0]["members"] = json::array(); }},
        {"two members only", [](json& t) { t["vds"][0]["members"].erase(2); }},
        {"a drive that is a member twice",
         [](json& t) { member(t, 1)["drive"] = member(t, 0)["drive"]; }},
        {"a drive that is a member of two VDs",
         [](json& t) { second_vd(t)["members"][0]["drive"] = member(t, 0)["drive"]; }},
        {"two members with one instance",
         [](json& t) { member(t, 1)["instance"] = member(t, 0)["instance"]; }},
        {"a member on an unknown drive",
         [](json& t) { member(t, 0)["drive"] = "ffffffff-0000-4000-8000-000000000000"; }},
        {"a member on something that is no UUID", [](json& t) { member(t, 0)["drive"] = "sda"; }},
        {"one drive listed twice", [](json& t) { t["drives"].push_back(t["drives"][0]); }},
        {"two VDs with one id", [](json& t) { second_vd(t)["id"] = 1; }},
        {"two VDs with one UUID", [](json& t) { second_vd(t)["uuid"] = t["vds"][0]["uuid"]; }},
        {"two VDs with one name", [](json& t) { second_vd(t)["name"] = "data"; }},
        {"two VDs of one drive group on different drives",
         [](json& t) { second_vd(t)["drive_group"] = 0; }},
        {"two VDs of one drive group that overlap",
         [](json& t) {
             auto& second = second_vd(t);
             second["drive_group"] = 0;
             for (std::size_t row = 0; row < 3; ++row) {
                 second["members"][row]["drive"] = member(t, row)["drive"];
             }
         }},
        {"a level with too few members", [](json& t) { t["vds"][0]["level"] = "raid6"; }},
        {"spans that do not fit", [](json& t) { t["vds"][0]["per_span"] = 2; }},
        {"no members per span", [](json& t) { t["vds"][0]["per_span"] = 0; }},
        {"a negative number of members per span", [](json& t) { t["vds"][0]["per_span"] = -3; }},
        {"more initialized than there is",
         [](json& t) { t["vds"][0]["initialized"] = 3000 * MiB; }},
        {"an unknown role", [](json& t) { t["drives"][0]["role"] = "paperweight"; }},
        {"an unknown coercion", [](json& t) { t["settings"]["coercion"] = "3G"; }},
        {"attempts that are no UUIDs",
         [](json& t) { t["drives"][0]["attempted"] = json::array({"x"}); }},
        {"a place without a drive that is counted on",
         [](json& t) { member(t, 0)["drive"] = "00000000-0000-0000-0000-000000000000"; }},
        {"a VD with a deleted one's UUID",
         [](json& t) { t["vds"][0]["uuid"] = t["tombstones"][0]; }},
        {"a VD with a negative id", [](json& t) { t["vds"][0]["id"] = -1; }},
        {"a VD name that is a path", [](json& t) { t["vds"][0]["name"] = "../../etc/shadow"; }},
        {"an empty VD name", [](json& t) { t["vds"][0]["name"] = ""; }},
        {"no sequence", [](json& t) { t.erase("sequence"); }},
        {"a sequence that is text", [](json& t) { t["sequence"] = "41"; }},
        {"another sequence than the header", [](json& t) { t["sequence"] = 42; }},
        {"another id than the header",
         [](json& t) { t["id"] = "1d000000-0000-4000-8000-000000000099"; }},
        {"another controller than the header",
         [](json& t) { t["controller"] = "c0c0c0c0-0001-4002-8003-000000000005"; }},
        {"no drives", [](json& t) { t.erase("drives"); }},
        {"drives that are a number", [](json& t) { t["drives"] = 7; }},
        {"VDs that are a number", [](json& t) { t["vds"] = 7; }},
        {"tombstones that are no UUIDs", [](json& t) { t["tombstones"] = json::array({"x"}); }},
    };
}

}  // namespace

TEST_CASE("configuration: the one that version 1 wrote is read for ever, and written the same") {
    const auto slot = golden_slot();
    const auto configuration = decode_config_slot(slot);
    REQUIRE(configuration);
    CHECK(configuration->controller.str() == "c0c0c0c0-0001-4002-8003-000000000004");
    CHECK(configuration->sequence == 41);
    CHECK(configuration->id.str() == "1d000000-0000-4000-8000-000000000041");
    CHECK(configuration->parent.str() == "1d000000-0000-4000-8000-000000000040");
    REQUIRE(configuration->drives.size() == 4);
    const auto& drive = configuration->drives[2];
    CHECK(drive.uuid.str() == "d0000000-0000-4000-8000-000000000002");
    CHECK(drive.serial == "PERCH00000002");
    CHECK(drive.model == "QEMU NVMe Ctrl");
    CHECK(drive.identity == "nguid.2");
    CHECK(drive.slot == 2);
    CHECK(drive.device_bytes == 3 * GiB);
    CHECK(drive.partition_bytes == GiB);
    CHECK(drive.failed);
    CHECK(drive.acknowledged == configuration->parent);
    CHECK(drive.attempted.empty());
    CHECK(configuration->drives[0].attempted == std::vector{configuration->id});
    CHECK(configuration->drives[3].role == DriveRole::dedicated_spare);
    CHECK(configuration->drives[3].spare_for == std::vector{0});
    CHECK(configuration->settings.coercion == Coercion::gib_1);
    CHECK(configuration->jbods == std::vector<std::string>{"nguid.9"});
    CHECK(configuration->drives[3].slot == -1);
    REQUIRE(configuration->vds.size() == 1);
    const auto& vd = configuration->vds[0];
    CHECK(vd.id == 1);
    CHECK(vd.group == 0);
    CHECK(vd.name == "data");
    CHECK(vd.strip_bytes == 64 * KiB);
    CHECK(vd.vd_bytes == 2018 * MiB);
    CHECK(vd.created == 1796050000);
    CHECK(vd.started);
    CHECK_FALSE(vd.deleting);
    REQUIRE(vd.members.size() == 3);
    CHECK(vd.members[0].state == MemberState::online);
    CHECK(vd.members[1].state == MemberState::candidate);
    CHECK(vd.members[2].state == MemberState::missing);
    CHECK(vd.level == RaidLevel::raid5);
    CHECK(vd.per_span == 3);
    CHECK_FALSE(vd.initialized);
    CHECK(vd.members[1].extents == std::vector{Extent{ExtentType::superblock, 9 * MiB, MiB},
                                               Extent{ExtentType::dm_raid, 10 * MiB, 4 * MiB},
                                               Extent{ExtentType::data, 14 * MiB, 1009 * MiB}});
    CHECK(configuration->tombstones ==
          std::vector{*Uuid::parse("5d000000-0000-4000-8000-000000000000")});
    const auto again = encode_config_slot(*configuration);
    REQUIRE(again);
    CHECK(*again == slot);
}

TEST_CASE("configuration: fields of a newer version survive a change by this one") {
    auto configuration = golden();
    configuration = successor(configuration);
    const auto text = json::parse(configuration_to_text(configuration));
    CHECK(text["patrol_read"] == json::parse(R"({"rate": 30, "days": ["sat"]})"));
    CHECK(text["sequence"] == 42);
}

TEST_CASE("configuration: fields of a newer version inside a VD or a drive survive as well") {
    auto text = json::parse(golden_text());
    text["vds"][0]["read_policy"] = "ra";
    text["drives"][0]["bay"] = "front 1";
    text["settings"]["rebuild_rate"] = 30;
    member(text, 1)["since"] = 7;
    const auto configuration = configuration_from_text(text.dump());
    REQUIRE(configuration);
    const auto again = json::parse(configuration_to_text(*configuration));
    CHECK(again["vds"][0].value("read_policy", "lost") == "ra");
    CHECK(again["drives"][0].value("bay", "lost") == "front 1");
    CHECK(again["settings"].value("rebuild_rate", 0) == 30);
    CHECK(again["vds"][0]["members"][1].value("since", 0) == 7);
}

TEST_CASE("configuration: what holds together by checksum only is refused as corrupt") {
    for (const auto& mutation : nonsense()) {
        INFO(mutation.name);
        auto text = json::parse(golden_text());
        mutation.edit(text);
        const auto configuration = decode_config_slot(slot_of(text.dump()));
        CHECK_FALSE(configuration);
        if (!configuration) {
            CHECK(configuration.error().code == Errc::corrupt);
            CHECK_FALSE(configuration.error().message.empty());
        }
    }
}

TEST_CASE("configuration: text that is no configuration at all is corrupt") {
    const std::string deep(100000, '[');
    for (const auto& text :
         std::vector<std::string>{"", "null", "[]", "{", "\"x\"", "{}", "\xff\xfe",
                                  std::string(4096, '\0'), deep, golden_text().substr(0, 500)}) {
        const auto configuration = decode_config_slot(slot_of(text));
        REQUIRE_FALSE(configuration);
        CHECK(configuration.error().code == Errc::corrupt);
    }
}

TEST_CASE("configuration: an unknown field nested too deeply is no way to stop the daemon") {
    // Fits a slot, and everything that walks it by recursion runs out of stack.
    constexpr std::size_t depth = 1500000;
    auto text = golden_text();
    text.insert(text.find('{') + 1,
                "\"x\":" + std::string(depth, '[') + std::string(depth, ']') + ",");
    REQUIRE(text.size() < PERCH_CONFIG_SLOT_BYTES - PERCH_METADATA_UNIT);
    // In a process of its own: what this is about is a crash.
    const auto child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)std::signal(SIGSEGV, SIG_DFL);  // Catch would report it as the whole run's end
        const auto configuration = decode_config_slot(slot_of(text));
        _exit(!configuration && configuration.error().code == Errc::corrupt ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(status == 0);
}

TEST_CASE("configuration: names of drives that are no UTF-8 can be written and read again") {
    // sysfs hands out what the drive says, and drives say anything.
    auto configuration = golden();
    configuration.drives[0].serial = "SN\xff\xfe";
    configuration.drives[0].model = "M\xfcller";
    const auto slot = encode_config_slot(configuration);
    REQUIRE(slot);
    CHECK(decode_config_slot(*slot));
}

TEST_CASE("configuration: a newer version's is refused, with its number") {
    const auto version = decode_config_slot(slot_of(golden_text(), 2));
    REQUIRE_FALSE(version);
    CHECK(version.error().code == Errc::incompatible);
    CHECK(version.error().message.find("version 2") != std::string::npos);
    const auto feature = decode_config_slot(slot_of(golden_text(), 1, 0x10));
    REQUIRE_FALSE(feature);
    CHECK(feature.error().code == Errc::incompatible);
    CHECK(feature.error().message.find("0x10") != std::string::npos);
}

TEST_CASE("configuration: every changed byte of a slot is noticed") {
    const auto good = golden_slot();
    const auto used = PERCH_METADATA_UNIT + golden_text().size();
    for (std::size_t i = 0; i < used; ++i) {
        auto bytes = good;
        bytes[i] ^= std::byte{0x20};
        if (decode_config_slot(bytes)) {
            FAIL("a change of byte " << i << " went unnoticed");
        }
    }
}

TEST_CASE("configuration: a payload longer than the slot or than what was read is corrupt") {
    auto raw = load<perch_config_header>(golden_slot());
    for (const std::uint64_t length : {std::uint64_t{PERCH_CONFIG_SLOT_BYTES}, UINT64_MAX,
                                       UINT64_MAX - PERCH_METADATA_UNIT, std::uint64_t{100000}}) {
        auto bytes = golden_slot();
        raw.payload_bytes = htole64(length);
        raw.header_crc32c = 0;
        raw.header_crc32c = htole32(crc32c(bytes_of(raw)));
        std::memcpy(bytes.data(), &raw, sizeof(raw));
        const auto configuration = decode_config_slot(bytes);
        REQUIRE_FALSE(configuration);
        CHECK(configuration.error().code == Errc::corrupt);
    }
    const auto whole = golden_slot();
    CHECK_FALSE(decode_config_slot(std::span(whole).first(100)));
}

TEST_CASE("configuration: one that does not fit a slot is a clear limit, nothing is written") {
    SlotDrive drive;
    const auto before = drive.steps.count();
    auto configuration = golden();
    configuration.drives[0].model = std::string(PERCH_CONFIG_SLOT_BYTES, 'm');
    const auto done = write_configuration(drive.device, drive.partition, configuration);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == Errc::limit);
    CHECK(drive.steps.count() == before);
}

TEST_CASE("configuration: the slots alternate and the newest counts") {
    SlotDrive drive;
    const auto empty = read_configuration(drive.device, drive.partition);
    REQUIRE(empty);
    CHECK_FALSE(empty->has_value());
    for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
        drive.write(large(1, sequence));
        CHECK(drive.read().sequence == sequence);
        if (sequence > 1) {
            // The other slot still holds the state before.
            const std::set found{drive.sequence_in(0), drive.sequence_in(1)};
            CHECK(found == std::set<std::optional<std::uint64_t>>{sequence - 1, sequence});
        }
    }
}

TEST_CASE("configuration: a write torn at any 4 KiB leaves the old state or the new one") {
    const auto older = large(5, 1);
    const auto old = large(4, 2);
    const auto fresh = large(5, 3);
    const auto bytes = *encode_config_slot(fresh);
    const auto units = bytes.size() / PERCH_METADATA_UNIT;
    REQUIRE(units >= 4);
    REQUIRE(units <= 12);
    int torn = 0;
    // Every subset of the units, since a drive may persist them in any order.
    for (std::uint64_t subset = 0; subset < 1ULL << units; ++subset) {
        SlotDrive drive;
        drive.write(older);
        drive.write(old);
        const auto target = *drive.sequence_in(0) == 1 ? 0U : 1U;
        for (std::size_t unit = 0; unit < units; ++unit) {
            if ((subset >> unit & 1U) != 0) {
                const auto place = unit * PERCH_METADATA_UNIT;
                REQUIRE(drive.device.write(drive.offset(target) + place,
                                           std::span(bytes).subspan(place, PERCH_METADATA_UNIT)));
            }
        }
        const auto found = drive.read();
        if (subset + 1 == 1ULL << units) {
            REQUIRE(found == fresh);
        } else {
            REQUIRE(found == old);
            ++torn;
        }
        // And the next change goes over the torn slot, not over what is left.
        auto next = successor(found);
        drive.write(next);
        REQUIRE(drive.read() == next);
        REQUIRE((drive.sequence_in(1 - target) == found.sequence ||
                 drive.sequence_in(target) == found.sequence));
    }
    CHECK(torn + 1 == 1 << units);
}

TEST_CASE("configuration: an older program neither reads past a newer slot nor overwrites it") {
    SlotDrive drive;
    drive.write(golden());
    REQUIRE(drive.device.write(drive.offset(1), slot_of(golden_text(), 2)));
    const auto before = drive.steps.count();
    const auto found = read_configuration(drive.device, drive.partition);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Errc::incompatible);
    const auto written = write_configuration(drive.device, drive.partition, successor(golden()));
    REQUIRE_FALSE(written);
    CHECK(written.error().code == Errc::incompatible);
    CHECK(drive.steps.count() == before);
}

TEST_CASE("configuration: a drive that cannot be read is an error, never an empty configuration") {
    SlotDrive drive;
    drive.write(golden());
    drive.device.failing = true;
    const auto found = read_configuration(drive.device, drive.partition);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Errc::io);
}

TEST_CASE("configuration: drives that no VD names are forgotten only when they are away") {
    auto configuration = golden();
    const auto unused = configuration.drives[3].uuid;
    forget_absent_drives(configuration, {unused});
    CHECK(configuration.drives.size() == 4);
    forget_absent_drives(configuration, {});
    CHECK(configuration.drives.size() == 3);
    CHECK(find_drive(configuration, unused) == nullptr);
}

TEST_CASE("configuration: tombstones stay bounded, the newest are kept") {
    auto configuration = golden();
    for (int i = 0; i < 300; ++i) {
        configuration.tombstones.push_back(Uuid::random());
    }
    const auto newest = configuration.tombstones.back();
    const auto next = successor(configuration);
    CHECK(next.tombstones.size() == 256);
    CHECK(next.tombstones.back() == newest);
    CHECK(next.parent == configuration.id);
    CHECK(next.id != configuration.id);
}
