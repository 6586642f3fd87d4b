// SPDX-License-Identifier: GPL-2.0-or-later
#include "object_path.hpp"

#include <algorithm>
#include <charconv>

#include "tokenizer.hpp"

namespace perch::cli {

namespace {

constexpr std::string_view objects_help =
    "objects are /cx, /cx/ex, /cx/ex/sx, /cx/sx, /cx/vx, /cx/dx and /cx/fx";

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    while (true) {
        const auto end = text.find(separator, begin);
        parts.push_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) {
            return parts;
        }
        begin = end + 1;
    }
}

std::optional<IdRange> parse_range(std::string_view text) {
    const auto dash = text.find('-');
    if (dash == std::string_view::npos) {
        const auto id = parse_number(text);
        return id ? std::optional(IdRange{*id, *id}) : std::nullopt;
    }
    const auto from = parse_number(text.substr(0, dash));
    const auto to = parse_number(text.substr(dash + 1));
    return from && to && *from <= *to ? std::optional(IdRange{*from, *to}) : std::nullopt;
}

/// Puts one component ("s0-3") where it belongs, or says why it does not.
Result<void> add_component(ObjectPath& path, std::string_view component) {
    if (component.empty()) {
        return fail(Errc::syntax, "syntax error, an object name is missing after '/'; {}",
                    objects_help);
    }
    const auto name = lower(component);
    const char letter = name.front();
    std::optional<IdSet>* place = nullptr;
    bool fits = true;
    const bool has_leaf = path.slots || path.vds || path.groups || path.foreign;
    switch (letter) {
        case 'c':
            place = &path.controllers;
            break;
        case 'e':
            place = &path.enclosures;
            fits = !has_leaf;
            break;
        case 's':
            place = &path.slots;
            fits = !has_leaf;
            break;
        case 'v':
            place = &path.vds;
            fits = !has_leaf && !path.enclosures;
            break;
        case 'd':
            place = &path.groups;
            fits = !has_leaf && !path.enclosures;
            break;
        case 'f':
            place = &path.foreign;
            fits = !has_leaf && !path.enclosures;
            break;
        default:
            return fail(Errc::syntax, "syntax error, unexpected object '/{}'; {}", component,
                        objects_help);
    }
    if (letter != 'c' && !path.controllers) {
        return fail(Errc::syntax, "syntax error, '/{}' needs its controller first: /c0/{}",
                    component, component);
    }
    if (*place) {
        return fail(Errc::syntax,
                    "syntax error, '/{}' comes twice; for several write a list: /{}0,1", component,
                    letter);
    }
    if (!fits) {
        return fail(Errc::syntax, "syntax error, '/{}' cannot stand here; {}", component,
                    objects_help);
    }
    auto ids = parse_ids(name.substr(1), fmt::format("/{}", letter));
    if (!ids) {
        return fail(ids.error().code, "syntax error, '/{}': {}", component, ids.error().message);
    }
    *place = std::move(*ids);
    return {};
}

}  // namespace

bool IdSet::contains(int id) const {
    return all || std::any_of(ranges.begin(), ranges.end(), [id](const IdRange& range) {
               return range.from <= id && id <= range.to;
           });
}

std::vector<int> IdSet::singles() const {
    std::vector<int> ids;
    for (const auto& range : ranges) {
        if (range.from == range.to) {
            ids.push_back(range.from);
        }
    }
    return ids;
}

std::string_view path_pattern(PathKind kind) {
    switch (kind) {
        case PathKind::none:
            return "";
        case PathKind::controller:
            return "/cx";
        case PathKind::enclosure:
            return "/cx/ex";
        case PathKind::drive:
            return "/cx[/ex]/sx";
        case PathKind::vd:
            return "/cx/vx";
        case PathKind::group:
            return "/cx/dx";
        case PathKind::foreign:
            return "/cx/fx";
    }
    return "";
}

PathKind ObjectPath::kind() const {
    if (vds) {
        return PathKind::vd;
    }
    if (groups) {
        return PathKind::group;
    }
    if (foreign) {
        return PathKind::foreign;
    }
    if (slots) {
        return PathKind::drive;
    }
    if (enclosures) {
        return PathKind::enclosure;
    }
    return controllers ? PathKind::controller : PathKind::none;
}

std::optional<int> parse_number(std::string_view text) {
    int number = 0;
    const auto* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (text.empty() || error != std::errc() || rest != end || number < 0) {
        return std::nullopt;
    }
    return number;
}

Result<IdSet> parse_ids(std::string_view text, std::string_view what) {
    if (lower(text) == "all") {
        return IdSet{true, {}};
    }
    IdSet set;
    for (const auto part : split(text, ',')) {
        const auto range = parse_range(part);
        if (!range) {
            return fail(Errc::syntax,
                        "expecting {0}all, a number, a list or a range such as {0}0-3,7", what);
        }
        set.ranges.push_back(*range);
    }
    return set;
}

Result<ObjectPath> parse_path(std::string_view text) {
    ObjectPath path;
    if (text.empty()) {
        return path;
    }
    if (text.front() != '/') {
        return fail(Errc::syntax, "syntax error, '{}' is not an object; {}", text, objects_help);
    }
    for (const auto component : split(text.substr(1), '/')) {
        if (auto added = add_component(path, component); !added) {
            return tl::make_unexpected(added.error());
        }
    }
    return path;
}

Result<std::vector<DriveRange>> parse_drive_list(std::string_view text) {
    std::vector<DriveRange> list;
    std::optional<int> enclosure;
    for (auto part : split(text, ',')) {
        const auto whole = part;
        const auto colon = part.find(':');
        bool good = true;
        if (colon != std::string_view::npos) {
            enclosure = parse_number(part.substr(0, colon));
            good = enclosure.has_value();
            part = part.substr(colon + 1);
        }
        const auto range = parse_range(part);
        if (!good || !range) {
            return fail(Errc::syntax,
                        "syntax error, unexpected '{}' in the drive list, expecting e:s, e:s-x or "
                        "e:s-x,y, for example 0:0-3",
                        whole);
        }
        list.push_back({enclosure, *range});
    }
    return list;
}

}  // namespace perch::cli
