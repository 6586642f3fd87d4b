// SPDX-License-Identifier: GPL-2.0-or-later
#include "change.hpp"

#include "confirm.hpp"

namespace perch::cli {

std::string drive_uri(const Drive& drive) {
    return fmt::format("{}/Drives/{}", storage_uri, drive.id);
}

std::string vd_uri(const VirtualDrive& vd) {
    return fmt::format("{}/Volumes/{}", storage_uri, vd.id);
}

namespace {

/// Does one change, and follows it to its end if that was asked for.
Result<void> apply(Session& session, const Change& wanted, Reply& reply) {
    if (const auto done = change(session, wanted.method, wanted.uri, wanted.body); !done) {
        return tl::make_unexpected(done.error());
    }
    if (!wanted.watched) {
        return {};
    }
    const auto end = watch(session, *wanted.watched);
    if (!end) {
        return tl::make_unexpected(end.error());
    }
    if (wanted.afterwards) {
        for (auto& block : wanted.afterwards(*end)) {
            reply.blocks.push_back(std::move(block));
        }
    }
    return {};
}

}  // namespace

Reply carry_out(Session& session, const Invocation& invocation, ChangePlan plan) {
    Reply reply;
    reply.description_is_final = true;
    const auto confirmed =
        plan.facts.empty() ? Result<void>() : confirm(session, invocation, plan.facts);
    for (auto& wanted : plan.changes) {
        if (!confirmed) {
            plan.outcomes.failure(std::move(wanted.cells), "CLI", confirmed.error());
        } else if (const auto done = apply(session, wanted, reply); !done) {
            plan.outcomes.failure(std::move(wanted.cells), "Perch", done.error());
        } else {
            plan.outcomes.success(std::move(wanted.cells));
        }
    }
    reply.error = plan.outcomes.error();
    reply.description = std::move(reply.error ? plan.failed : plan.succeeded);
    if (reply.error || plan.list_successes) {
        reply.detailed_status = plan.outcomes.table();
    }
    return reply;
}

Reply change_drives(Session& session, const Invocation& invocation,
                    const std::function<Result<ChangePlan>(const Snapshot&, const Drives&)>& plan) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_drives_to_change(*snapshot, invocation.path);
    if (!selection) {
        return failure_reply(selection.error());
    }
    if (!selection->missing.empty()) {
        Reply reply;
        report_missing(reply, drive_outcomes(), selection->missing, "Drive not found",
                       "No PD found.");
        return reply;
    }
    if (selection->found.empty()) {
        return failure_reply({Errc::not_found, "No PD found."});
    }
    auto planned = plan(*snapshot, selection->found);
    return planned ? carry_out(session, invocation, std::move(*planned))
                   : failure_reply(planned.error());
}

Reply change_vds(Session& session, const Invocation& invocation, const std::string& nothing,
                 const std::function<Result<ChangePlan>(const Snapshot&, const Vds&)>& plan) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_vds(*snapshot, invocation.path);
    if (!selection.missing.empty()) {
        Reply reply;
        report_missing(reply, vd_outcomes(), selection.missing, "Invalid VD number", nothing);
        return reply;
    }
    if (selection.found.empty()) {
        return failure_reply({Errc::not_found, "There is no such VD."});
    }
    auto planned = plan(*snapshot, selection.found);
    return planned ? carry_out(session, invocation, std::move(*planned))
                   : failure_reply(planned.error());
}

}  // namespace perch::cli
