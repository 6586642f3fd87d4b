// SPDX-License-Identifier: GPL-2.0-or-later
#include <nlohmann/json.hpp>

#include "confirm.hpp"
#include "follow.hpp"
#include "handlers.hpp"
#include "rows.hpp"
#include "selection.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

constexpr const char* volumes_uri = "/redfish/v1/Systems/1/Storage/c0/Volumes";
constexpr const char* drives_uri = "/redfish/v1/Systems/1/Storage/c0/Drives";

/// The number at the end of ".../Volumes/7".
std::optional<int> volume_id(const std::string& uri) {
    return parse_number(std::string_view(uri).substr(uri.rfind('/') + 1));
}

nlohmann::json create_body(const Invocation& invocation, const Drives& drives) {
    nlohmann::json body{{"RAIDType", "RAID5"}};
    if (invocation.has("name")) {
        body["Name"] = invocation.value("name");
    }
    if (invocation.has("strip")) {
        body["StripSizeBytes"] = *parse_strip(invocation.value("strip"));
    }
    auto links = nlohmann::json::array();
    for (const auto* drive : drives) {
        links.push_back({{"@odata.id", fmt::format("{}/{}", drives_uri, drive->id)}});
    }
    body["Links"]["Drives"] = std::move(links);
    if (invocation.has("force")) {
        body["Oem"]["Perch"]["Force"] = true;
    }
    return body;
}

Table created_table(std::optional<int> id, const VirtualDrive* vd) {
    return {"VD Information",
            {{"VDID", Align::number},
             {"VDSize", Align::right},
             {"Status"},
             {"ErrType"},
             {"ErrCd"},
             {"Msg"}},
            {{number_or_dash(id), vd == nullptr ? "-" : format_size(vd->size_bytes), "Success", "-",
              "-", "-"}},
            false,
            {}};
}

/// "v1 (data): RAID5, 11.250 GiB; used by: nothing"
std::string deletion_fact(const VirtualDrive& vd) {
    auto fact = fmt::format("{}: {}, {}; used by: {}", vd_text(vd), vd.level,
                            format_size(vd.size_bytes), users_text(vd));
    if (!vd.users.empty()) {
        fact += " (perchd will refuse until that has ended)";
    }
    return fact;
}

}  // namespace

Reply add_vd(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto drives = select_drive_list(*snapshot, invocation.value("drives"));
    if (!drives) {
        return failure_reply(drives.error());
    }
    const auto outcome = change(session, "POST", volumes_uri, create_body(invocation, *drives));
    if (!outcome) {
        return failure_reply(outcome.error());
    }
    const auto id = volume_id(outcome->task.target);
    const auto* vd = id ? find_vd(outcome->snapshot, *id) : nullptr;
    Reply reply;
    reply.description = "Add VD succeeded.";
    reply.blocks = {{created_table(id, vd)}};
    if (vd != nullptr) {
        reply.blocks.push_back({Pair{"Device", vd->device.empty() ? "-" : vd->device}});
        reply.blocks.push_back({vd_notes({vd})});
    }
    return reply;
}

Reply delete_vd(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_vds(*snapshot, invocation.path);
    Reply reply;
    reply.description_is_final = true;
    VdOutcomes outcomes;
    const auto add_failure = [&](int id, std::string_view type, const Error& error) {
        outcomes.failure(id, type, error);
        reply.error = reply.error ? reply.error : error;
    };
    // Nothing is deleted when one of the names is wrong: the user may mean something else.
    for (const int id : selection.missing) {
        add_failure(id, "CLI", {Errc::not_found, "Invalid VD number"});
    }
    if (selection.found.empty() && selection.missing.empty()) {
        return failure_reply({Errc::not_found, "There is no such VD."});
    }
    if (!reply.error) {
        std::vector<std::string> facts{"This deletes for ever, with all data on it:"};
        for (const auto* vd : selection.found) {
            facts.push_back("  " + deletion_fact(*vd));
        }
        const auto confirmed = confirm(session, invocation, facts);
        for (const auto* vd : selection.found) {
            if (!confirmed) {
                add_failure(vd->id, "CLI", confirmed.error());
                continue;
            }
            const auto outcome =
                change(session, "DELETE", fmt::format("{}/{}", volumes_uri, vd->id), nullptr);
            if (outcome) {
                outcomes.success(vd->id);
            } else {
                add_failure(vd->id, "Perch", outcome.error());
            }
        }
    }
    reply.description = reply.error ? "Delete VD failed" : "Delete VD succeeded";
    if (reply.error) {
        reply.detailed_status = outcomes.table();
    }
    return reply;
}

}  // namespace perch::cli
