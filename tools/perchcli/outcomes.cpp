// SPDX-License-Identifier: GPL-2.0-or-later
#include "outcomes.hpp"

#include "rows.hpp"

namespace perch::cli {

Outcomes::Outcomes(const std::vector<Column>& what, std::string failure)
    : failure_(std::move(failure)), table_{"Detailed Status", what, {}, false, {}} {
    table_.columns.push_back({"Status"});
    table_.columns.push_back({"ErrType"});
    table_.columns.push_back({"ErrCd", Align::number});
    table_.columns.push_back({"ErrMsg"});
}

void Outcomes::success(Row what) {
    what.insert(what.end(), {"Success", "-", "-", "-"});
    table_.rows.push_back(std::move(what));
}

void Outcomes::failure(Row what, std::string_view type, const Error& error) {
    what.emplace_back(failure_);
    what.emplace_back(std::string(type));
    what.emplace_back(std::int64_t{errc_info(error.code).exit_status});
    what.emplace_back(error.message);
    table_.rows.push_back(std::move(what));
    error_ = error_ ? error_ : error;
}

Outcomes drive_outcomes() {
    return {{{"EID:Slt"}, {"PID", Align::number}}, "Failure"};
}

Outcomes vd_outcomes() {
    return {{{"VD", Align::number}}, "Failed"};
}

Outcomes group_outcomes() {
    return {{{"DG", Align::number}}, "Failed"};
}

Row drive_cells(const Drive& drive) {
    return {slot_text(drive), std::int64_t{drive.pid}};
}

void report_missing(Reply& reply, Outcomes outcomes, const std::vector<Row>& missing,
                    const std::string& message, std::string description) {
    if (missing.empty()) {
        return;
    }
    for (const auto& what : missing) {
        outcomes.failure(what, "CLI", {Errc::not_found, message});
    }
    reply.error = outcomes.error();
    reply.description = std::move(description);
    reply.description_is_final = true;
    reply.detailed_status = outcomes.table();
}

}  // namespace perch::cli
