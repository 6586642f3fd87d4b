// SPDX-License-Identifier: GPL-2.0-or-later
// add vd: one or more VDs on the same drives.
#include <algorithm>
#include <set>

#include "change.hpp"
#include "handlers.hpp"
#include "layout/raid_level.hpp"
#include "rows.hpp"
#include "size_list.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

/// One VD of the command.
struct Wanted {
    std::string name;                   ///< may be empty
    std::optional<std::uint64_t> size;  ///< absent: all that is free
};

struct Request {
    RaidLevel level = RaidLevel::raid5;
    int per_span = 0;  ///< 0: the level's default
    Drives drives;
    Drives spares;
    std::vector<Wanted> vds;
};

/// "r5" or "raid5".
RaidLevel level_of(const Invocation& invocation) {
    const auto& word = invocation.words.back();
    return *parse_raid_level("raid" + word.substr(word.find_first_of("0123456789")));
}

/// Pairs sizes with names. With several VDs each is said in full: a guess which one stays without
/// a name would be right for half of the users.
Result<std::vector<Wanted>> wanted_vds(const Invocation& invocation) {
    std::vector<std::optional<std::uint64_t>> sizes{std::nullopt};
    std::vector<std::string> names;
    if (invocation.has("size")) {
        sizes = *parse_sizes(invocation.value("size"));
    }
    if (invocation.has("name")) {
        names = *parse_names(invocation.value("name"));
    }
    if (!names.empty() && names.size() != sizes.size()) {
        return fail(Errc::invalid_argument,
                    "{} name{} and {} size{} are given; give one of each for every VD, such as "
                    "size=100G,all name=a,b",
                    names.size(), names.size() == 1 ? "" : "s",
                    invocation.has("size") ? sizes.size() : 0, sizes.size() == 1 ? "" : "s");
    }
    std::vector<Wanted> wanted;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        wanted.push_back({names.empty() ? std::string() : names[i], sizes[i]});
    }
    return wanted;
}

/// Drives that are members already must be all the members of one drive group: the VD goes into its
/// free space. The request is brought into the group's shape and order.
Result<void> fit_into_group(const Snapshot& snapshot, Request& request) {
    std::set<int> ids;
    Drives members;
    for (const auto* drive : request.drives) {
        if (drive->state == DriveState::configured && drive->group) {
            ids.insert(*drive->group);
            members.push_back(drive);
        }
    }
    if (ids.empty()) {
        return {};
    }
    const auto group = std::find_if(snapshot.groups.begin(), snapshot.groups.end(),
                                    [&](const auto& row) { return row.id == *ids.begin(); });
    if (group == snapshot.groups.end()) {
        return {};  // the model does not say enough; perchd does
    }
    const DriveIndex index(snapshot);
    Drives order;
    for (const auto& member : group->members) {
        order.push_back(index.find(member.drive));
    }
    if (ids.size() > 1 || !std::is_permutation(order.begin(), order.end(), request.drives.begin(),
                                               request.drives.end())) {
        return fail(Errc::wrong_state,
                    "{} is a member of drive group {}. A VD takes free drives, or all the drives "
                    "of one drive group, in whose free space it is made; '/c0/dall show all' lists "
                    "them.",
                    slot_text(*members.front()), group->id);
    }
    const auto level = parse_raid_level(group->level);
    if (level != request.level) {
        return fail(Errc::invalid_argument,
                    "These drives are drive group {}, which is {}; all its VDs are.", group->id,
                    group->level);
    }
    if (request.per_span != 0 && request.per_span != group->per_span) {
        return fail(Errc::invalid_argument,
                    "Drive group {} has {} drives per span; leave pdperarray out.", group->id,
                    group->per_span);
    }
    request.drives = std::move(order);
    request.per_span = group->per_span;
    return {};
}

Result<Drives> select_spares(const Snapshot& snapshot, const Invocation& invocation,
                             const Request& request) {
    if (!invocation.has("spares")) {
        return Drives{};
    }
    if (!is_redundant(request.level)) {
        return fail(Errc::invalid_argument,
                    "{} has no redundancy, so a spare could not take over anything.",
                    to_string(request.level));
    }
    auto spares = select_drive_list(snapshot, invocation.value("spares"));
    if (!spares) {
        return spares;
    }
    for (const auto* spare : *spares) {
        if (std::find(request.drives.begin(), request.drives.end(), spare) !=
            request.drives.end()) {
            return fail(Errc::invalid_argument, "The drive in {} cannot be member and spare.",
                        slot_text(*spare));
        }
    }
    return spares;
}

Result<Request> make_request(const Snapshot& snapshot, const Invocation& invocation) {
    Request request;
    request.level = level_of(invocation);
    request.per_span = parse_number(invocation.value("pdperarray")).value_or(0);
    auto vds = wanted_vds(invocation);
    if (!vds) {
        return tl::make_unexpected(vds.error());
    }
    request.vds = std::move(*vds);
    auto drives = select_drive_list(snapshot, invocation.value("drives"));
    if (!drives) {
        return tl::make_unexpected(drives.error());
    }
    request.drives = std::move(*drives);
    if (auto fits = fit_into_group(snapshot, request); !fits) {
        return tl::make_unexpected(fits.error());
    }
    const auto shape =
        make_shape(request.level, static_cast<int>(request.drives.size()), request.per_span);
    if (!shape) {
        return tl::make_unexpected(shape.error());
    }
    auto spares = select_spares(snapshot, invocation, request);
    if (!spares) {
        return tl::make_unexpected(spares.error());
    }
    request.spares = std::move(*spares);
    return request;
}

nlohmann::json links_to(const Drives& drives) {
    auto links = nlohmann::json::array();
    for (const auto* drive : drives) {
        links.push_back({{"@odata.id", drive_uri(*drive)}});
    }
    return links;
}

nlohmann::json create_body(const Invocation& invocation, const Request& request,
                           const Wanted& wanted, bool with_spares) {
    nlohmann::json body{{"RAIDType", to_string(request.level)}};
    if (!wanted.name.empty()) {
        body["Name"] = wanted.name;
    }
    if (wanted.size) {
        body["CapacityBytes"] = *wanted.size;
    }
    if (invocation.has("strip")) {
        body["StripSizeBytes"] = *parse_strip(invocation.value("strip"));
    }
    body["Links"]["Drives"] = links_to(request.drives);
    if (with_spares && !request.spares.empty()) {
        body["Links"]["DedicatedSpareDrives"] = links_to(request.spares);
    }
    if (request.per_span != 0) {
        body["Oem"]["Perch"]["PerSpan"] = request.per_span;
    }
    if (invocation.has("engine")) {
        body["Oem"]["Perch"]["Engine"] = invocation.value("engine");
    }
    if (invocation.has("force")) {
        body["Oem"]["Perch"]["Force"] = true;
    }
    return body;
}

/// The number at the end of ".../Volumes/7".
std::optional<int> volume_id(const std::string& uri) {
    return parse_number(std::string_view(uri).substr(uri.rfind('/') + 1));
}

std::string size_text(const std::optional<std::uint64_t>& size) {
    return size ? format_size(*size) : "-";
}

/// Makes the VDs one after the other; each is a change of its own, so those that were made stay.
class Creator {
  public:
    Creator(Session& session, const Invocation& invocation, const Request& request)
        : session_(session), invocation_(invocation), request_(request) {}

    Reply run() {
        for (std::size_t i = 0; i < request_.vds.size(); ++i) {
            if (error_) {
                add_row("-", size_text(request_.vds[i].size), "Not tried", "-", "-", "-");
            } else {
                create(request_.vds[i], i == 0);
            }
        }
        return error_ ? failure() : success();
    }

  private:
    void create(const Wanted& wanted, bool first) {
        // The spares are the drive group's: they are there once the first VD is.
        const auto outcome = change(session_, "POST", fmt::format("{}/Volumes", storage_uri),
                                    create_body(invocation_, request_, wanted, first));
        if (!outcome) {
            error_ = outcome.error();
            add_row("-", size_text(wanted.size), "Failed", "Perch",
                    std::int64_t{errc_info(error_->code).exit_status}, error_->message);
            return;
        }
        const auto id = volume_id(outcome->task.target);
        const auto* vd = id ? find_vd(outcome->snapshot, *id) : nullptr;
        made_.push_back(id ? fmt::format("v{}", *id) : "one");
        add_row(number_or_dash(id), vd == nullptr ? "-" : format_size(vd->size_bytes), "Success",
                "-", "-", "-");
        if (vd != nullptr) {
            vds_.push_back(*vd);
        }
    }
    void add_row(Value id, std::string size, std::string status, std::string type, Value code,
                 std::string message) {
        table_.rows.push_back({std::move(id), std::move(size), std::move(status), std::move(type),
                               std::move(code), std::move(message)});
    }
    void append_made(Reply& reply) {
        reply.blocks = {{table_}};
        if (vds_.empty()) {
            return;
        }
        Vds vds;
        for (const auto& vd : vds_) {
            vds.push_back(&vd);
        }
        if (vds.size() == 1) {
            const auto& device = vds.front()->device;
            reply.blocks.push_back({Pair{"Device", device.empty() ? "-" : device}});
        }
        reply.blocks.push_back({vd_notes(vds)});
    }
    Reply success() {
        Reply reply;
        reply.description = "Add VD succeeded.";
        append_made(reply);
        return reply;
    }
    Reply failure() {
        auto reply = failure_reply(*error_);
        if (request_.vds.size() == 1) {
            return reply;
        }
        reply.description_is_final = true;
        reply.description = fmt::format(
            "Add VD failed: {} of {} made{}. {}", made_.size(), request_.vds.size(),
            made_.empty() ? std::string() : fmt::format(" ({})", fmt::join(made_, ", ")),
            error_->message);
        append_made(reply);
        return reply;
    }

    Session& session_;
    const Invocation& invocation_;
    const Request& request_;
    std::optional<Error> error_;  ///< of the first that failed
    std::vector<std::string> made_;
    std::vector<VirtualDrive> vds_;
    Table table_{"VD Information",
                 {{"VDID", Align::number},
                  {"VDSize", Align::right},
                  {"Status"},
                  {"ErrType"},
                  {"ErrCd", Align::number},
                  {"Msg"}},
                 {},
                 false,
                 {}};
};

}  // namespace

Reply add_vd(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto request = make_request(*snapshot, invocation);
    if (!request) {
        return failure_reply(request.error());
    }
    return Creator(session, invocation, *request).run();
}

}  // namespace perch::cli
