// SPDX-License-Identifier: GPL-2.0-or-later
// Catch2 v2 (Debian 12) and v3 (Debian 13) under one name.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
