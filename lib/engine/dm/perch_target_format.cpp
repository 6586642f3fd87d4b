// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/perch_target_format.hpp"

#include <algorithm>
#include <array>

#include "engine/dm/words.hpp"
#include "util/units.hpp"

namespace perch::dm {

namespace {

/// What the target counts tasks and mismatches in, for each strip (kmod/core/geometry.c).
constexpr std::uint64_t max_window_sectors = 64 * KiB / sector_bytes;

// Words of a table line.
constexpr std::size_t member_count_word = 1;
constexpr std::size_t strip_word = 3;
constexpr std::size_t first_member_word = 8;
constexpr std::size_t member_words = 5;

EngineTask parse_task(std::string_view action) {
    constexpr std::array<std::pair<std::string_view, EngineTask>, 5> names{
        {{"idle", EngineTask::none},
         {"resync", EngineTask::resync},
         {"rebuild", EngineTask::rebuild},
         {"check", EngineTask::check},
         {"patrol", EngineTask::other}}};
    return look_up(names, action, EngineTask::other);
}

MemberHealth parse_health(char letter, bool named) {
    switch (letter) {
        case 'A':
            return MemberHealth::in_sync;
        case 'a':
            return MemberHealth::rebuilding;
        default:
            return named ? MemberHealth::failed : MemberHealth::absent;
    }
}

/// It does not run: "failed" and why, or "stopped" while it is suspended.
EngineStatus not_running(std::string_view params, const PerchTable& table) {
    constexpr std::string_view failed = "failed ";
    EngineStatus status;
    status.members.assign(table.named.size(), MemberHealth::absent);
    status.trouble = params.starts_with(failed) ? std::string(params.substr(failed.size()))
                                                : "the kernel holds it stopped";
    return status;
}

}  // namespace

std::string perch_params(const EngineVd& vd, const std::vector<std::string>& devices) {
    const auto& shape = vd.shape;
    std::uint64_t data_sectors =
        vd.vd_bytes / sector_bytes / static_cast<std::uint64_t>(std::max(shape.data_members(), 1));
    // "RAID50" is 50.
    const auto level = to_string(shape.level).substr(std::string_view("RAID").size());
    auto hex = vd.uuid.str();
    std::erase(hex, '-');
    auto line = fmt::format("{} {} {} {} {} {} {} {}", level, shape.members, shape.per_span,
                            vd.strip_bytes / sector_bytes, data_sectors,
                            vd.region_bytes / sector_bytes, vd.block_bytes, hex);
    for (std::size_t row = 0; row < devices.size(); ++row) {
        if (devices[row].empty()) {
            line += " -";
            continue;
        }
        line += " " + devices[row];
        for (const auto type : {ExtentType::superblock, ExtentType::dirty_map,
                                ExtentType::bad_ranges, ExtentType::data}) {
            line += fmt::format(" {}", vd.members[row].extent(type).offset / sector_bytes);
        }
    }
    return line;
}

Result<PerchTable> parse_perch_table(std::string_view params) {
    const auto words = split(params);
    PerchTable table;
    std::size_t members = 0;
    bool good = words.size() > first_member_word && to_number(words[member_count_word], members) &&
                to_number(words[strip_word], table.strip_sectors) && table.strip_sectors > 0;
    auto word = first_member_word;
    while (good && word < words.size()) {
        table.named.push_back(words[word] != "-");
        word += table.named.back() ? member_words : 1;
    }
    if (!good || word != words.size() || table.named.size() != members) {
        return fail(Errc::io, "unexpected table of a perch target '{}'", params);
    }
    return table;
}

Result<EngineStatus> parse_perch_status(std::string_view params, const PerchTable& table) {
    // <members> <letters> <done>/<all> <action> <synced|unsynced> <mismatches> <bad ranges>
    // [broken]
    const auto words = split(params);
    if (!words.empty() && (words[0] == "failed" || words[0] == "stopped")) {
        return not_running(params, table);
    }
    EngineStatus status;
    std::size_t members = 0;
    if (words.size() < 7 || !to_number(words[0], members) || members != table.named.size() ||
        words[1].size() != members || !to_number(words[5], status.mismatches) ||
        !to_fraction(words[2], status.task_done_sectors, status.task_total_sectors)) {
        return fail(Errc::io, "unexpected status of a perch target '{}'", params);
    }
    const auto window = std::min(table.strip_sectors, max_window_sectors);
    status.task_done_sectors *= window;
    status.task_total_sectors *= window;
    status.mismatches *= window;
    status.task = parse_task(words[3]);
    status.synced = words[4] == "synced";
    for (std::size_t row = 0; row < members; ++row) {
        status.members.push_back(parse_health(words[1][row], table.named[row]));
    }
    return status;
}

}  // namespace perch::dm
