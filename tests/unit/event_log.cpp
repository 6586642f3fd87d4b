// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/event_log.hpp"

#include <sqlite3.h>

#include <memory>
#include <set>

#include "catch.hpp"
#include "support/temp_dir.hpp"

using namespace perch;
using namespace perch::test;

namespace {

/// What an SQL query answers with its one number.
long number_of(const std::string& database, const char* sql) {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open(database.c_str(), &raw) == SQLITE_OK);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> keeper(raw, sqlite3_close);
    sqlite3_stmt* row = nullptr;
    REQUIRE(sqlite3_prepare_v2(raw, sql, -1, &row, nullptr) == SQLITE_OK);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(row, sqlite3_finalize);
    REQUIRE(sqlite3_step(row) == SQLITE_ROW);
    return static_cast<long>(sqlite3_column_int64(row, 0));
}

void run_sql(const std::string& database, const std::string& sql) {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open(database.c_str(), &raw) == SQLITE_OK);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> keeper(raw, sqlite3_close);
    REQUIRE(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
}

}  // namespace

TEST_CASE("events: carry code, severity, message id and time") {
    const TempDir directory;
    EventLog log(directory.str("events.db"));
    log.emit(EventKind::vd_degraded, "v1 (data) is Degraded.");
    const auto events = log.read(0, 0);
    REQUIRE(events.size() == 1);
    CHECK(events[0].sequence == 1);
    CHECK(events[0].code == 0xfb);
    CHECK(events[0].severity == Severity::critical);
    CHECK(events[0].message_id == "StorageDevice.1.2.VolumeDegraded");
    CHECK(events[0].text == "v1 (data) is Degraded.");
    REQUIRE(events[0].time.size() == 20);
    CHECK(events[0].time[4] == '-');
    CHECK(events[0].time.back() == 'Z');
}

TEST_CASE("events: the catalogue has a row of its own for each kind, worst ones by their name") {
    for (int i = 0; i <= static_cast<int>(EventKind::configuration_trouble); ++i) {
        const auto kind = static_cast<EventKind>(i);
        const auto& info = event_info(kind);
        INFO(info.title);
        CHECK(info.kind == kind);
        CHECK_FALSE(info.title.empty());
        // Registry.major.minor.Key
        CHECK(std::count(info.message_id.begin(), info.message_id.end(), '.') == 3);
    }
    CHECK(event_info(EventKind::vd_offline).severity == Severity::fatal);
    CHECK(event_info(EventKind::drive_failed).severity == Severity::critical);
    CHECK(event_info(EventKind::vd_started_degraded).severity == Severity::critical);
}

TEST_CASE("events: reading after a number, and only the newest") {
    const TempDir directory;
    EventLog log(directory.str("events.db"));
    for (int i = 1; i <= 10; ++i) {
        log.emit(EventKind::started, std::to_string(i));
    }
    CHECK(log.read(0, 0).size() == 10);
    const auto after = log.read(7, 0);
    REQUIRE(after.size() == 3);
    CHECK(after.front().sequence == 8);
    CHECK(after.back().text == "10");
    const auto latest = log.read(0, 2);
    REQUIRE(latest.size() == 2);
    CHECK(latest.front().text == "9");
    CHECK(log.read(10, 0).empty());
    CHECK(log.read(UINT64_MAX, 5).empty());
}

TEST_CASE("events: numbers go on and texts are kept over a restart") {
    const TempDir directory;
    const auto database = directory.str("made/when/missing/events.db");
    {
        EventLog log(database);
        log.emit(EventKind::drive_inserted, "first; 'quoted' \"and\" ünïcode\n");
        log.emit(EventKind::drive_removed, "second");
    }
    EventLog log(database);
    log.emit(EventKind::started, "third");
    const auto events = log.read(0, 0);
    REQUIRE(events.size() == 3);
    CHECK(events[0].text == "first; 'quoted' \"and\" ünïcode\n");
    CHECK(events[0].severity == Severity::info);
    CHECK(events[1].code == 0x70);
    CHECK(events[1].message_id == "StorageDevice.1.2.DriveRemoved");
    CHECK(events[2].sequence == 3);
}

TEST_CASE("events: memory is bounded, the newest stay") {
    const TempDir directory;
    EventLog log(directory.str("none/at/all"));
    for (int i = 1; i <= 1500; ++i) {
        log.emit(EventKind::started, std::to_string(i));
    }
    const auto events = log.read(0, 0);
    REQUIRE(events.size() == 1000);
    CHECK(events.front().sequence == 501);
    CHECK(events.back().sequence == 1500);
}

TEST_CASE("events: the database is bounded, and numbers are never used twice") {
    const TempDir directory;
    const auto database = directory.str("events.db");
    { const EventLog make(database); }
    // Ten times what is kept, as if an older version had kept more.
    run_sql(database,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000) "
            "INSERT INTO events SELECT i, 't', 0, 0, 'm', 'x' FROM n");
    {
        EventLog log(database);
        log.emit(EventKind::started, "newest");
        CHECK(log.read(0, 1).at(0).sequence == 20001);
        CHECK(log.read(0, 0).size() == 1000);
    }
    CHECK(number_of(database, "SELECT count(*) FROM events") == 10000);
    CHECK(number_of(database, "SELECT min(sequence) FROM events") == 10002);
    CHECK(number_of(database, "SELECT max(sequence) FROM events") == 20001);
}

TEST_CASE("events: without a usable database they live in memory") {
    const TempDir directory;
    std::string database;
    SECTION("its directory cannot be made") {
        directory.write("file", "");
        database = directory.str("file/events.db");
    }
    SECTION("its place is a directory") {
        database = directory.path();
    }
    SECTION("something else is there") {
        directory.write("events.db", std::string(8192, 'j'));
        database = directory.str("events.db");
    }
    SECTION("it has a table of another shape") {
        database = directory.str("events.db");
        run_sql(database, "CREATE TABLE events(a TEXT)");
    }
    EventLog log(database);
    log.emit(EventKind::started, "one");
    log.emit(EventKind::stopped, "two");
    const auto events = log.read(0, 0);
    REQUIRE(events.size() == 2);
    CHECK(events[1].sequence == 2);
    CHECK(events[1].text == "two");
}
