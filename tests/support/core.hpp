// SPDX-License-Identifier: GPL-2.0-or-later
// The core's C headers for tests in C++.
#pragma once

extern "C" {
#include "core/geometry.h"
#include "core/parity.h"
#include "core/plan.h"
#include "core/vd.h"
}
