// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/raid_level.hpp"

#include <algorithm>
#include <array>

namespace perch {

namespace {

/// How a level is built.
struct LevelFacts {
    RaidLevel level;
    std::string_view name;
    int parity;       ///< members of a span that hold no data of their own; mirrors: 0
    int min_span;     ///< members of a span
    int min_spans;    ///< 1: spans are not allowed to be more
    bool multi_span;  ///< stripes over spans
};

constexpr std::array<LevelFacts, 7> facts{{
    {RaidLevel::raid0, "RAID0", 0, 1, 1, false},
    {RaidLevel::raid1, "RAID1", 0, 2, 1, false},
    {RaidLevel::raid10, "RAID10", 0, 2, 2, true},
    {RaidLevel::raid5, "RAID5", 1, 3, 1, false},
    {RaidLevel::raid6, "RAID6", 2, 4, 1, false},
    {RaidLevel::raid50, "RAID50", 1, 3, 2, true},
    {RaidLevel::raid60, "RAID60", 2, 4, 2, true},
}};

const LevelFacts& facts_of(RaidLevel level) {
    return *std::find_if(facts.begin(), facts.end(),
                         [&](const auto& row) { return row.level == level; });
}

std::string lowered(std::string_view text) {
    std::string result(text);
    for (auto& c : result) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return result;
}

/// Rows [first, first + count) stand and fall together, and survive `tolerates` losses.
struct RedundancySet {
    int first = 0;
    int count = 0;
    int tolerates = 0;
};

std::vector<RedundancySet> redundancy_sets(const RaidShape& shape) {
    std::vector<RedundancySet> sets;
    switch (shape.level) {
        case RaidLevel::raid0:
            sets.push_back({0, shape.members, 0});
            break;
        case RaidLevel::raid1:
            sets.push_back({0, shape.members, shape.members - 1});
            break;
        case RaidLevel::raid10:
            for (int row = 0; row + 1 < shape.members; row += 2) {
                sets.push_back({row, 2, 1});
            }
            break;
        default:
            for (int span = 0; span < shape.spans(); ++span) {
                sets.push_back(
                    {span * shape.per_span, shape.per_span, facts_of(shape.level).parity});
            }
    }
    return sets;
}

/// Losses that the set survives beyond those in `lost`.
int slack(const RedundancySet& set, const std::vector<bool>& lost) {
    const auto begin = lost.begin() + set.first;
    return set.tolerates - static_cast<int>(std::count(begin, begin + set.count, true));
}

}  // namespace

std::string to_string(RaidLevel level) {
    return std::string(facts_of(level).name);
}

std::string lower_name(RaidLevel level) {
    return lowered(facts_of(level).name);
}

std::optional<RaidLevel> parse_raid_level(std::string_view text) {
    for (const auto& row : facts) {
        if (lowered(row.name) == lowered(text)) {
            return row.level;
        }
    }
    return std::nullopt;
}

const std::vector<RaidLevel>& raid_levels() {
    static const std::vector<RaidLevel> levels = [] {
        std::vector<RaidLevel> all;
        for (const auto& row : facts) {
            all.push_back(row.level);
        }
        return all;
    }();
    return levels;
}

bool is_redundant(RaidLevel level) {
    return level != RaidLevel::raid0;
}

bool has_parity(RaidLevel level) {
    return facts_of(level).parity > 0;
}

int RaidShape::data_members() const {
    switch (level) {
        case RaidLevel::raid1:
            return 1;
        case RaidLevel::raid10:
            return members / 2;
        default:
            return members - spans() * facts_of(level).parity;
    }
}

Result<RaidShape> make_shape(RaidLevel level, int members, int per_span) {
    const auto& fact = facts_of(level);
    const int least = fact.min_span * fact.min_spans;
    if (members < least) {
        return fail(Errc::invalid_argument, "{} needs at least {} drives, {} given", fact.name,
                    least, members);
    }
    if (members > max_members) {
        return fail(Errc::limit, "a VD has at most {} members, {} given", max_members, members);
    }
    if (per_span == 0) {
        per_span = !fact.multi_span             ? members
                   : level == RaidLevel::raid10 ? 2
                   : members % 2 == 0           ? members / 2
                                                : members;
    }
    if (!fact.multi_span && per_span != members) {
        return fail(Errc::invalid_argument, "{} has one span; leave PDperArray out", fact.name);
    }
    if (level == RaidLevel::raid10 && (per_span % 2 != 0 || members % 2 != 0)) {
        return fail(Errc::invalid_argument, "RAID10 needs an even number of drives, {} given",
                    members);
    }
    if (per_span < fact.min_span || members % per_span != 0 ||
        (fact.multi_span && members / per_span < fact.min_spans)) {
        return fail(Errc::invalid_argument,
                    "{} needs at least {} spans of at least {} drives, all of one size; {} drives "
                    "with {} per span are not that. PDperArray chooses the drives per span",
                    fact.name, fact.min_spans, fact.min_span, members, per_span);
    }
    if (per_span > max_members_per_span && level != RaidLevel::raid0) {
        return fail(Errc::limit, "a span has at most {} members, {} given", max_members_per_span,
                    per_span);
    }
    if (fact.multi_span && level != RaidLevel::raid10 && members / per_span > max_spans) {
        return fail(Errc::limit, "a VD has at most {} spans, {} asked for", max_spans,
                    members / per_span);
    }
    return RaidShape{level, members, per_span};
}

bool readable(const RaidShape& shape, const std::vector<bool>& lost) {
    return survives_more(shape, lost) >= 0;
}

int survives_more(const RaidShape& shape, const std::vector<bool>& lost) {
    int least = shape.members;
    for (const auto& set : redundancy_sets(shape)) {
        least = std::min(least, slack(set, lost));
    }
    return std::max(least, -1);
}

bool survives_loss_of(const RaidShape& shape, const std::vector<bool>& lost, std::size_t row) {
    auto more = lost;
    more[row] = true;
    return readable(shape, more);
}

}  // namespace perch
