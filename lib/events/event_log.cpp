// SPDX-License-Identifier: GPL-2.0-or-later
#include "events/event_log.hpp"

#include <sqlite3.h>
#include <syslog.h>
#include <systemd/sd-journal.h>

#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>

namespace perch {

namespace {

constexpr std::size_t max_recent = 1000;
constexpr int max_rows = 10000;
/// journalctl MESSAGE_ID=… finds every event of Perch by it.
constexpr const char* journal_message_id = "5f7045524348400c9c0a1d2e3f405162";

struct DatabaseCloser {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct StatementFinalizer {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, DatabaseCloser>;
using Statement = std::unique_ptr<sqlite3_stmt, StatementFinalizer>;

int syslog_priority(Severity severity) {
    switch (severity) {
        case Severity::info:
            return LOG_INFO;
        case Severity::warning:
            return LOG_WARNING;
        case Severity::critical:
            return LOG_CRIT;
        case Severity::fatal:
            return LOG_ALERT;
    }
    return LOG_ALERT;
}

void to_journal(const Event& event) {
    sd_journal_send("MESSAGE=%s", event.text.c_str(), "MESSAGE_ID=%s", journal_message_id,
                    "PRIORITY=%i", syslog_priority(event.severity), "PERCH_CODE=%i", event.code,
                    "PERCH_SEQUENCE=%llu", static_cast<unsigned long long>(event.sequence),
                    "REDFISH_MESSAGE_ID=%s", event.message_id.c_str(), nullptr);
}

std::string utc_now() {
    const auto now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

Event make_event(EventKind kind, const std::string& text) {
    const auto& info = event_info(kind);
    return {0, utc_now(), info.code, info.severity, std::string(info.message_id), text};
}

Statement prepare(const Database& database, const char* sql) {
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v2(database.get(), sql, -1, &raw, nullptr);
    return Statement(raw);
}

Database open_database(const std::string& path) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    sqlite3* raw = nullptr;
    const int rc = sqlite3_open(path.c_str(), &raw);
    Database database(raw);
    constexpr const char* schema =
        "PRAGMA journal_mode=WAL;"
        "CREATE TABLE IF NOT EXISTS events(sequence INTEGER PRIMARY KEY, time TEXT, code INTEGER,"
        " severity INTEGER, message_id TEXT, text TEXT);";
    if (rc != SQLITE_OK ||
        sqlite3_exec(database.get(), schema, nullptr, nullptr, nullptr) != SQLITE_OK) {
        sd_journal_print(LOG_WARNING, "events are kept in memory only: %s: %s", path.c_str(),
                         sqlite3_errmsg(database.get()));
        return nullptr;
    }
    return database;
}

std::string column_text(const Statement& row, int column) {
    const auto* text = sqlite3_column_text(row.get(), column);
    return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

std::deque<Event> load_events(const Database& database) {
    std::deque<Event> events;
    const auto rows = prepare(database,
                              "SELECT sequence, time, code, severity, message_id, text FROM events "
                              "ORDER BY sequence DESC LIMIT 1000");
    while (rows && sqlite3_step(rows.get()) == SQLITE_ROW) {
        events.push_front({static_cast<std::uint64_t>(sqlite3_column_int64(rows.get(), 0)),
                           column_text(rows, 1), sqlite3_column_int(rows.get(), 2),
                           static_cast<Severity>(sqlite3_column_int(rows.get(), 3)),
                           column_text(rows, 4), column_text(rows, 5)});
    }
    return events;
}

void store_event(const Database& database, const Event& event) {
    const auto insert =
        prepare(database, "INSERT OR REPLACE INTO events VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    const auto trim = prepare(database, "DELETE FROM events WHERE sequence <= ?1");
    const auto sequence = static_cast<sqlite3_int64>(event.sequence);
    if (!insert || !trim) {
        return;
    }
    sqlite3_bind_int64(insert.get(), 1, sequence);
    sqlite3_bind_text(insert.get(), 2, event.time.c_str(), -1, SQLITE_STATIC);
    sqlite3_bind_int(insert.get(), 3, event.code);
    sqlite3_bind_int(insert.get(), 4, static_cast<int>(event.severity));
    sqlite3_bind_text(insert.get(), 5, event.message_id.c_str(), -1, SQLITE_STATIC);
    sqlite3_bind_text(insert.get(), 6, event.text.c_str(), -1, SQLITE_STATIC);
    sqlite3_bind_int64(trim.get(), 1, sequence - max_rows);
    if (sqlite3_step(insert.get()) != SQLITE_DONE || sqlite3_step(trim.get()) != SQLITE_DONE) {
        sd_journal_print(LOG_WARNING, "event %lld was not stored: %s",
                         static_cast<long long>(sequence), sqlite3_errmsg(database.get()));
    }
}

}  // namespace

EventLog::EventLog(std::string path) : path_(std::move(path)), writer_([this] { run(); }) {
    // Numbers go on where they ended; a store that answers slowly only delays this start.
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return loaded_; });
}

EventLog::~EventLog() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    writer_.join();
}

void EventLog::emit(EventKind kind, const std::string& text) {
    auto event = make_event(kind, text);
    const std::lock_guard lock(mutex_);
    event.sequence = next_sequence_++;
    recent_.push_back(event);
    if (recent_.size() > max_recent) {
        recent_.pop_front();
    }
    unwritten_.push_back(std::move(event));
    if (unwritten_.size() > max_recent) {
        unwritten_.pop_front();
    }
    wake_.notify_all();
}

void EventLog::flush() {
    constexpr auto patience = std::chrono::seconds(2);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, patience, [&] { return unwritten_.empty() && !writing_; });
}

std::vector<Event> EventLog::read(std::uint64_t after, std::size_t latest) {
    const std::lock_guard lock(mutex_);
    std::vector<Event> events;
    for (const auto& event : recent_) {
        if (event.sequence > after) {
            events.push_back(event);
        }
    }
    if (latest != 0 && events.size() > latest) {
        events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(latest));
    }
    return events;
}

void EventLog::run() {
    const auto database = open_database(path_);
    std::unique_lock lock(mutex_);
    if (database) {
        recent_ = load_events(database);
        next_sequence_ = recent_.empty() ? 1 : recent_.back().sequence + 1;
    }
    loaded_ = true;
    wake_.notify_all();
    while (true) {
        wake_.wait(lock, [&] { return stopping_ || !unwritten_.empty(); });
        if (unwritten_.empty()) {
            return;
        }
        const auto event = unwritten_.front();
        unwritten_.pop_front();
        writing_ = true;
        lock.unlock();
        to_journal(event);
        if (database) {
            store_event(database, event);
        }
        lock.lock();
        writing_ = false;
        wake_.notify_all();
    }
}

void StderrEvents::emit(EventKind kind, const std::string& text) {
    fmt::print(stderr, "{}: {}\n", to_string(event_info(kind).severity), text);
}

}  // namespace perch
