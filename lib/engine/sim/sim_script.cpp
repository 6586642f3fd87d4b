// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/sim/sim_script.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>

#include "layout/drive_layout.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

using Verb = SimCommand::Verb;
using Words = std::vector<std::string>;

/// Splits at blanks; "double quotes" keep them. A '#' outside of quotes begins a comment.
Result<Words> split(std::string_view line) {
    Words words;
    bool quoted = false;
    bool inside = false;
    for (const char c : line) {
        if (c == '"') {
            quoted = !quoted;
            if (quoted && !inside) {
                words.emplace_back();
                inside = true;
            }
        } else if (!quoted && c == '#') {
            break;
        } else if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
            inside = false;
        } else {
            if (!inside) {
                words.emplace_back();
                inside = true;
            }
            words.back() += c;
        }
    }
    if (quoted) {
        return fail(Errc::syntax, "a quote is not closed");
    }
    return words;
}

/// A number and what follows it. The C++ library's own parser, which knows no locale.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
    double number = 0;
    const auto [rest, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number) || number < 0) {
        return std::nullopt;
    }
    return std::pair{number, text.substr(static_cast<std::size_t>(rest - text.data()))};
}

Result<double> parse_seconds(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, double>, 4> units{
        {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}}};
    if (const auto parsed = number_and_unit(text)) {
        for (const auto& [unit, seconds] : units) {
            if (parsed->second == unit) {
                return parsed->first * seconds;
            }
        }
    }
    return fail(Errc::syntax, "'{}' is no duration; give 5s, 2m, 1h or 100ms", text);
}

Result<double> parse_speed(std::string_view text) {
    constexpr double slowest = 0.001;
    constexpr double fastest = 1e6;
    const auto parsed = number_and_unit(text);
    if (!parsed || parsed->second != "x" || parsed->first < slowest || parsed->first > fastest) {
        return fail(Errc::syntax, "'{}' is no speed; give 1x, 100x or 0.5x", text);
    }
    return parsed->first;
}

Result<int> parse_slot(std::string_view text) {
    constexpr int last = 65535;
    int slot = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
    if (error != std::errc() || rest != text.data() + text.size() || slot < 0 || slot > last) {
        return fail(Errc::syntax, "'{}' is no slot; give its number", text);
    }
    return slot;
}

Result<std::uint32_t> parse_block(std::string_view text) {
    if (text == "512") {
        return std::uint32_t{512};
    }
    if (text == "4k" || text == "4K" || text == "4096") {
        return std::uint32_t{4096};
    }
    return fail(Errc::syntax, "'{}' is no block size; give 512 or 4k", text);
}

template <typename T, typename Field>
Result<void> set(Field& field, Result<T> value) {
    if (!value) {
        return tl::make_unexpected(value.error());
    }
    field = std::move(*value);
    return {};
}

Result<void> set_text(SimCommand& command, const std::string& word) {
    command.text = word;
    return {};
}

Result<void> set_one_of(SimCommand& command, const std::string& word,
                        std::initializer_list<std::string_view> choices) {
    if (std::find(choices.begin(), choices.end(), word) == choices.end()) {
        return fail(Errc::syntax, "'{}' is not known here", word);
    }
    return set_text(command, word);
}

/// A verb, how it is written, and how its arguments are read, in order.
struct Rule {
    std::string_view name;
    Verb verb;
    std::string_view usage;
    std::size_t least;  ///< arguments
    std::vector<std::function<Result<void>(SimCommand&, const std::string&)>> arguments;
};

const std::vector<Rule>& rules() {
    using C = SimCommand&;
    using W = const std::string&;
    const auto slot = [](C c, W w) { return set<int>(c.slot, parse_slot(w)); };
    const auto text = [](C c, W w) { return set_text(c, w); };
    const auto size = [](C c, W w) { return set<std::uint64_t>(c.bytes, parse_sim_size(w)); };
    static const std::vector<Rule> table{
        {"wait", Verb::wait, "wait 5s", 1, {[](C c, W w) {
             return set<double>(c.number, parse_seconds(w));
         }}},
        {"pull", Verb::pull, "pull SLOT", 1, {slot}},
        {"insert",
         Verb::insert,
         "insert SLOT [same|blank]",
         1,
         {slot,
          [](C c, W w) {
              return set_one_of(c, w, {"same", "blank"});
          }}},
        {"add",
         Verb::add,
         "add SLOT SIZE [512|4k]",
         2,
         {slot, size, [](C c, W w) { return set<std::uint32_t>(c.block, parse_block(w)); }}},
        {"slow", Verb::slow, "slow SLOT BYTES-PER-SECOND", 2, {slot, size}},
        {"fail",
         Verb::fail,
         "fail SLOT [reads|writes]",
         1,
         {slot,
          [](C c, W w) {
              return set_one_of(c, w, {"reads", "writes"});
          }}},
        {"hang", Verb::hang, "hang SLOT", 1, {slot}},
        {"wake", Verb::wake, "wake SLOT", 1, {slot}},
        {"foreign", Verb::foreign, "foreign SLOT \"WHAT IT CARRIES\"", 2, {slot, text}},
        {"use", Verb::use, "use SLOT \"BY WHOM\"", 2, {slot, text}},
        {"write", Verb::write, "write VD", 1, {text}},
        {"idle", Verb::idle, "idle VD", 1, {text}},
        {"open", Verb::open, "open VD", 1, {text}},
        {"close", Verb::close, "close VD", 1, {text}},
        {"speed", Verb::speed, "speed 100x", 1, {[](C c, W w) {
             return set<double>(c.number, parse_speed(w));
         }}},
        {"power-cut", Verb::power_cut, "power-cut", 0, {}},
        {"reboot", Verb::reboot, "reboot", 0, {}},
    };
    return table;
}

}  // namespace

// --- The clock.

struct SimClock::State {
    using Steady = std::chrono::steady_clock;
    mutable std::mutex mutex;
    Steady::time_point since = Steady::now();
    double base = 0;
    double speed = 1;

    [[nodiscard]] double now() const {
        return base + std::chrono::duration<double>(Steady::now() - since).count() * speed;
    }
};

SimClock::SimClock() : state_(std::make_shared<State>()) {}

double SimClock::now() const {
    const std::lock_guard lock(state_->mutex);
    return state_->now();
}

void SimClock::set_speed(double speed) {
    constexpr double slowest = 0.001;
    const std::lock_guard lock(state_->mutex);
    state_->base = state_->now();
    state_->since = State::Steady::now();
    state_->speed = std::max(speed, slowest);
}

double SimClock::speed() const {
    const std::lock_guard lock(state_->mutex);
    return state_->speed;
}

// --- Reading.

Result<std::uint64_t> parse_sim_size(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, double>, 12> units{{{"K", 1e3},
                                                                         {"M", 1e6},
                                                                         {"G", 1e9},
                                                                         {"T", 1e12},
                                                                         {"KB", 1e3},
                                                                         {"MB", 1e6},
                                                                         {"GB", 1e9},
                                                                         {"TB", 1e12},
                                                                         {"KiB", KiB},
                                                                         {"MiB", MiB},
                                                                         {"GiB", GiB},
                                                                         {"TiB", TiB}}};
    constexpr double most = 1e15;
    const auto parsed = number_and_unit(text);
    for (const auto& [unit, bytes] : units) {
        if (parsed && parsed->second == unit && parsed->first > 0 &&
            parsed->first * bytes <= most) {
            // Halves of a byte are rounding: 1.92T is 1920000000000.
            return static_cast<std::uint64_t>(std::llround(parsed->first * bytes));
        }
    }
    return fail(Errc::syntax, "'{}' is no size; give 3.2T, 480G, 100M or 3TiB", text);
}

Result<std::optional<SimCommand>> parse_sim_line(std::string_view line) {
    const auto words = split(line);
    if (!words) {
        return tl::make_unexpected(words.error());
    }
    if (words->empty()) {
        return std::optional<SimCommand>();
    }
    const auto rule = std::find_if(rules().begin(), rules().end(),
                                   [&](const auto& row) { return row.name == words->front(); });
    if (rule == rules().end()) {
        std::string known;
        for (const auto& row : rules()) {
            known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
        }
        return fail(Errc::syntax, "there is no '{}'; there is {}", words->front(), known);
    }
    const auto count = words->size() - 1;
    if (count < rule->least || count > rule->arguments.size()) {
        return fail(Errc::syntax, "{} arguments are not what '{}' takes; write: {}", count,
                    rule->name, rule->usage);
    }
    SimCommand command;
    command.verb = rule->verb;
    for (std::size_t i = 0; i < count; ++i) {
        if (auto good = rule->arguments[i](command, (*words)[i + 1]); !good) {
            return fail(Errc::syntax, "{}; write: {}", good.error().message, rule->usage);
        }
    }
    return std::optional(command);
}

Result<std::vector<SimCommand>> parse_sim_script(const std::string& name, std::string_view text) {
    std::vector<SimCommand> commands;
    for (int number = 1; !text.empty(); ++number) {
        const auto end = std::min(text.find('\n'), text.size());
        const auto command = parse_sim_line(text.substr(0, end));
        if (!command) {
            return fail(command.error().code, "{}:{}: {}", name, number, command.error().message);
        }
        if (*command) {
            commands.push_back(**command);
            commands.back().line = number;
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return commands;
}

Result<std::vector<SimDriveSet>> parse_sim_drives(std::string_view text) {
    std::vector<SimDriveSet> sets;
    int total = 0;
    while (true) {
        const auto end = std::min(text.find(','), text.size());
        const auto part = text.substr(0, end);
        const auto by = part.find('x');
        SimDriveSet drives;
        const auto [rest, error] =
            std::from_chars(part.data(), part.data() + part.size(), drives.count);
        if (error != std::errc() || by == std::string_view::npos || rest != part.data() + by) {
            return fail(Errc::syntax, "'{}' is no set of drives; give 8x3.2T or 4x1.92T:4k", part);
        }
        auto size = part.substr(by + 1);
        if (const auto colon = size.find(':'); colon != std::string_view::npos) {
            if (auto good = set<std::uint32_t>(drives.block, parse_block(size.substr(colon + 1)));
                !good) {
                return tl::make_unexpected(good.error());
            }
            size = size.substr(0, colon);
        }
        if (auto good = set<std::uint64_t>(drives.bytes, parse_sim_size(size)); !good) {
            return tl::make_unexpected(good.error());
        }
        if (const auto usable = partition_layout(drives.bytes); !usable) {
            return tl::make_unexpected(usable.error());
        }
        total = drives.count < 1 || drives.count > static_cast<int>(max_drives)
                    ? static_cast<int>(max_drives) + 1
                    : total + drives.count;
        if (total > static_cast<int>(max_drives)) {
            return fail(Errc::limit, "'{}': a controller has 1 to {} drives", part, max_drives);
        }
        sets.push_back(drives);
        if (end == text.size()) {
            return sets;
        }
        text.remove_prefix(end + 1);
    }
}

// --- Doing.

namespace {

Result<void> run_on_slot(const SimCommand& command, SimDrives& drives) {
    auto* drive = drives.find(command.slot);
    const bool there = drive != nullptr && drive->present;
    if (command.verb == Verb::add || command.verb == Verb::insert) {
        if (there) {
            return fail(Errc::wrong_state, "slot {} is taken by {}", command.slot,
                        drive->identity.serial);
        }
        if (command.verb == Verb::insert && drive == nullptr) {
            return fail(Errc::not_found, "nothing was ever in slot {}; use 'add'", command.slot);
        }
        if (command.verb == Verb::add) {
            drives.add(command.slot, command.bytes, command.block);
        } else if (command.text == "blank") {
            drives.insert_blank(command.slot);
        } else {
            drives.insert(command.slot);
        }
        return {};
    }
    if (!there) {
        return fail(Errc::not_found, "there is no drive in slot {}", command.slot);
    }
    auto& device = *drive->device;
    switch (command.verb) {
        case Verb::pull:
            drives.pull(command.slot);
            break;
        case Verb::slow:
            drive->bytes_per_second = command.bytes;
            break;
        case Verb::fail:
            device.fail_reads = device.fail_reads || command.text != "writes";
            device.fail_writes = device.fail_writes || command.text != "reads";
            break;
        case Verb::hang:
            device.hung = true;
            break;
        case Verb::wake:
            device.hung = device.fail_reads = device.fail_writes = false;
            drive->bytes_per_second = default_sim_speed;
            break;
        case Verb::foreign:
            device.erase(0, device.size());
            SimDrives::set_content(*drive, command.text);
            break;
        default:
            drive->users.clear();
            if (!command.text.empty()) {
                drive->users.push_back(command.text);
            }
    }
    return {};
}

Result<void> run_on_vd(const SimCommand& command, SimEngine& engine) {
    const auto vd = engine.find(command.text);
    if (!vd) {
        return fail(Errc::not_found, "no VD of the name '{}' runs", command.text);
    }
    if (command.verb == Verb::write) {
        if (!engine.write(*vd)) {
            return fail(Errc::io, "a host write to {} was not acknowledged", command.text);
        }
    } else if (command.verb == Verb::idle) {
        engine.idle(*vd);
    } else {
        engine.set_open(*vd, command.verb == Verb::open);
    }
    return {};
}

}  // namespace

Result<void> run_sim_command(const SimCommand& command, SimDrives& drives, SimEngine& engine,
                             SimClock& clock) {
    switch (command.verb) {
        case Verb::wait:
            return {};
        case Verb::speed:
            clock.set_speed(command.number);
            return {};
        case Verb::power_cut:
            engine.power_cut();
            return {};
        case Verb::reboot:
            engine.shut_down();
            engine.power_cut();
            return {};
        case Verb::write:
        case Verb::idle:
        case Verb::open:
        case Verb::close:
            return run_on_vd(command, engine);
        default:
            return run_on_slot(command, drives);
    }
}

}  // namespace perch
