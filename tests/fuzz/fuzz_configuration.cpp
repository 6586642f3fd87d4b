// SPDX-License-Identifier: GPL-2.0-or-later
// Input that begins with the slot's magic is a slot: the header's first bytes, then the text, whose
// length and checksums are made right. Anything else is the text.
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "ondisk/config_slot.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace {

using nlohmann::json;
using perch::fuzz::require;

constexpr std::size_t header_bytes = offsetof(perch_config_header, reserved);

/// What holds of every configuration that is accepted, wherever it comes from.
void check(const perch::Configuration& configuration) {
    const auto text = perch::configuration_to_text(configuration);
    const auto again = perch::configuration_from_text(text);
    require(again.has_value());
    require(*again == configuration);
    require(perch::configuration_to_text(*again) == text);
    if (const auto slot = perch::encode_config_slot(configuration)) {
        const auto decoded = perch::decode_config_slot(*slot);
        require(decoded.has_value() && *decoded == configuration);
    }
    // What the programs then ask of it.
    for (const auto& vd : configuration.vds) {
        require(perch::shape_of(vd).members == static_cast<int>(vd.members.size()));
        require(perch::find_vd(configuration, vd.id) == &vd);
        for (const auto& range : perch::free_in_group(configuration, vd.group)) {
            for (const auto& extent : vd.members.front().extents) {
                require(range.offset >= extent.end() ||
                        extent.offset >= range.offset + range.bytes);
            }
        }
    }
}

perch::Bytes slot_from(const std::uint8_t* data, std::size_t size) {
    auto bytes = perch::fuzz::exactly(data, std::min(size, header_bytes), PERCH_METADATA_UNIT);
    const auto text = std::as_bytes(std::span(data, size).subspan(std::min(size, header_bytes)));
    auto raw = perch::load<perch_config_header>(bytes);
    raw.payload_bytes = htole64(text.size());
    raw.payload_crc32c = htole32(perch::crc32c(text));
    std::memcpy(bytes.data(), &raw, sizeof(raw));
    bytes = perch::fuzz::sealed(std::move(bytes), offsetof(perch_config_header, header_crc32c));
    bytes.insert(bytes.end(), text.begin(), text.end());
    return bytes;
}

// --- changes that keep the text JSON, which random bytes hardly ever do

using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

void collect(json& value, std::vector<json*>& all) {
    all.push_back(&value);
    for (auto& inner : value) {
        if (value.is_structured()) {
            collect(inner, all);
        }
    }
}

void change_number(json& value, Random& random) {
    const std::vector<json> edges{0,         1,         -1,         512,
                                  4096,      1 << 20,   9 << 20,    INT32_MAX,
                                  INT64_MAX, INT64_MIN, UINT64_MAX, UINT64_MAX - 4095,
                                  1e300,     0.5};
    const auto old = value.is_number_integer() ? value.get<std::int64_t>() : 0;
    switch (below(random, 4)) {
        case 0:
            value = edges[below(random, edges.size())];
            break;
        case 1:
            value = static_cast<std::uint64_t>(old) + (1ULL << below(random, 64));
            break;
        case 2:
            value = static_cast<std::uint64_t>(old) - (1ULL << below(random, 64));
            break;
        default:
            value = static_cast<std::uint64_t>(old) * (below(random, 4));
    }
}

/// One change somewhere in it.
void change(json& root, Random& random) {
    std::vector<json*> all;
    collect(root, all);
    auto& value = *all[below(random, all.size())];
    const auto other = *all[below(random, all.size())];
    if (value.is_number() && below(random, 4) != 0) {
        change_number(value, random);
    } else if (value.is_array() && below(random, 4) != 0) {
        if (value.empty() || below(random, 3) == 0) {
            value.push_back(value.empty() || below(random, 4) == 0
                                ? other
                                : value[below(random, value.size())]);
        } else {
            value.erase(below(random, value.size()));
        }
    } else if (value.is_object() && !value.empty() && below(random, 4) != 0) {
        auto place = value.begin();
        std::advance(place, static_cast<std::ptrdiff_t>(below(random, value.size())));
        if (below(random, 2) == 0) {
            value.erase(place);
        } else {
            value["unknown-" + std::to_string(below(random, 3))] = other;
        }
    } else if (value.is_string() && below(random, 2) == 0) {
        auto text = value.get<std::string>();
        text.empty()
            ? text.assign("x")
            : text.replace(below(random, text.size()), 1, 1, "0f-/.\"\\ \n\xc3"[below(random, 10)]);
        value = text;
    } else if (value.is_boolean()) {
        value = !value.get<bool>();
    } else {
        value = other;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    auto configuration = perch::configuration_from_text(text);
    if (text.starts_with(PERCH_CONFIG_MAGIC)) {
        (void)perch::decode_config_slot(std::as_bytes(std::span(data, size)));
        configuration = perch::decode_config_slot(slot_from(data, size));
    }
    if (configuration) {
        check(*configuration);
    }
    return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
    Random random(seed);
    std::string text(reinterpret_cast<const char*>(data), size);
    const auto head = text.starts_with(PERCH_CONFIG_MAGIC) ? std::min(size, header_bytes) : 0;
    auto root = json::parse(text.substr(head), nullptr, false);
    if (root.is_discarded() || below(random, 4) == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    for (auto left = 1 + below(random, 3); left > 0; --left) {
        change(root, random);
    }
    text = text.substr(0, head) + root.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > max_size) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    std::memcpy(data, text.data(), text.size());
    return text.size();
}
