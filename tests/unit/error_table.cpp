// SPDX-License-Identifier: GPL-2.0-or-later
#include <set>

#include "catch.hpp"
#include "util/error.hpp"

using namespace perch;

namespace {
constexpr int codes = static_cast<int>(Errc::internal) + 1;
}

TEST_CASE("errors: each code has its own row, name and exit status") {
    std::set<std::string_view> names;
    std::set<int> statuses;
    for (int i = 0; i < codes; ++i) {
        const auto& info = errc_info(static_cast<Errc>(i));
        INFO(info.name);
        CHECK(static_cast<int>(info.code) == i);
        CHECK(names.insert(info.name).second);
        CHECK(statuses.insert(info.exit_status).second);
        // 0 is success, and a shell shows 126 to 199 for its own troubles and signals.
        CHECK(info.exit_status >= 1);
        CHECK(info.exit_status <= 255);
        CHECK((info.exit_status < 126 || info.exit_status > 192));
        CHECK(info.http_status >= 400);
        CHECK(info.http_status < 600);
        CHECK_FALSE(info.meaning.empty());
        CHECK(errc_from_name(info.name) == info.code);
    }
    CHECK_THROWS(errc_info(static_cast<Errc>(codes)));
}

TEST_CASE("errors: only defects and failing hardware are the server's fault in HTTP") {
    for (int i = 0; i < codes; ++i) {
        const auto& info = errc_info(static_cast<Errc>(i));
        INFO(info.name);
        const bool ours = info.code == Errc::io || info.code == Errc::timeout ||
                          info.code == Errc::corrupt || info.code == Errc::unsupported ||
                          info.code == Errc::no_daemon || info.code == Errc::internal;
        CHECK((info.http_status >= 500) == ours);
    }
    CHECK(errc_info(Errc::permission).http_status == 403);
    CHECK(errc_info(Errc::not_found).http_status == 404);
    CHECK(errc_info(Errc::unsupported).http_status == 501);
}

TEST_CASE("errors: a name that this version does not know is a defect, not success") {
    CHECK(errc_from_name("brand_new") == Errc::internal);
    CHECK(errc_from_name("") == Errc::internal);
}
