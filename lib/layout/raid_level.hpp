// SPDX-License-Identifier: GPL-2.0-or-later
// RAID levels and what they survive. Pure arithmetic over rows (the places of members in a VD).
//
// A VD has `members` rows in spans of `per_span` rows each: row r belongs to span r / per_span.
// RAID0, 1, 5 and 6 have one span. RAID10 is near-2 over the stated order: rows 2i and 2i+1 mirror
// each other, whatever the span length. RAID50 and 60 stripe over equal spans of RAID5 and 6.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/error.hpp"

namespace perch {

enum class RaidLevel { raid0, raid1, raid10, raid5, raid6, raid50, raid60 };

inline constexpr int max_members = 256;  ///< of one VD
inline constexpr int max_spans = 32;
inline constexpr int max_members_per_span = 32;

/// "RAID50", as people and Redfish write it.
std::string to_string(RaidLevel level);
/// "raid50", as the configuration and dm write it.
std::string lower_name(RaidLevel level);
/// Either spelling, any case.
std::optional<RaidLevel> parse_raid_level(std::string_view text);
/// All levels, in the order help prints them.
const std::vector<RaidLevel>& raid_levels();

/// How a VD's members are arranged.
struct RaidShape {
    RaidLevel level = RaidLevel::raid5;
    int members = 0;
    int per_span = 0;  ///< members of one span
    bool operator==(const RaidShape&) const = default;

    [[nodiscard]] int spans() const { return per_span == 0 ? 0 : members / per_span; }
    [[nodiscard]] int span_of(std::size_t row) const { return static_cast<int>(row) / per_span; }
    /// Members' worth of data: what is left without mirrors and parity.
    [[nodiscard]] int data_members() const;
};

/// Checks member count and spans; `per_span` 0 asks for the level's default (one span; RAID10:
/// pairs; RAID50 and 60: two spans). Errc::invalid_argument says what the level needs.
Result<RaidShape> make_shape(RaidLevel level, int members, int per_span = 0);

/// True for levels that keep data when a member is lost.
bool is_redundant(RaidLevel level);
/// True for levels with parity: content must be resynced after an unclean stop.
bool has_parity(RaidLevel level);

/// Whether all data can be read with exactly the rows of `lost` (by row: true is lost) gone.
bool readable(const RaidShape& shape, const std::vector<bool>& lost);
/// How many more members may fail, whichever they are, before data is lost; -1 when it is already.
int survives_more(const RaidShape& shape, const std::vector<bool>& lost);
/// Whether data is still readable once `row` is lost as well.
bool survives_loss_of(const RaidShape& shape, const std::vector<bool>& lost, std::size_t row);

}  // namespace perch
