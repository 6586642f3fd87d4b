// SPDX-License-Identifier: GPL-2.0-or-later
// "Detailed Status": how a command went for each of the objects it named.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"
#include "value.hpp"

namespace perch::cli {

/// Rows of {what, Status, ErrType, ErrCd, ErrMsg}, where "what" are the columns that identify an
/// object.
class Outcomes {
  public:
    /// failure is the vendor's word for a row that failed: "Failure" for drives, "Failed" else.
    Outcomes(const std::vector<Column>& what, std::string failure);

    void success(Row what);
    /// type is "CLI" for what perchcli found out, "Perch" for perchd's answer.
    void failure(Row what, std::string_view type, const Error& error);

    [[nodiscard]] const Table& table() const { return table_; }
    /// The first failure's; absent when there was none.
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  private:
    std::string failure_;
    Table table_;
    std::optional<Error> error_;
};

/// {EID:Slt, PID} and {VD} and {DG}: how drives, VDs and drive groups are identified.
Outcomes drive_outcomes();
Outcomes vd_outcomes();
Outcomes group_outcomes();

/// "0:3" and 14.
Row drive_cells(const Drive& drive);

/// Makes the reply a failure whose rows name what was asked for and is not there. Nothing when
/// nothing is missing.
void report_missing(Reply& reply, Outcomes outcomes, const std::vector<Row>& missing,
                    const std::string& message, std::string description);

}  // namespace perch::cli
