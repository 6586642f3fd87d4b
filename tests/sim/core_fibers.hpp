// SPDX-License-Identifier: GPL-2.0-or-later
// Threads of which one runs at a time, and stops where it says so: how the lanes of the core are
// interleaved at every call of its environment, deterministically.
#pragma once

#include <functional>
#include <memory>

namespace perch::test {

class Fiber {
  public:
    /// `work` runs in resume(); what it throws comes out of there.
    explicit Fiber(std::function<void()> work);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Runs until pause() or the end; true: it has ended. One that is destroyed before its end is
    /// forgotten as it is: nothing on its stack is destroyed.
    bool resume();
    /// In a fiber: goes back to who called resume(). Elsewhere: nothing.
    static void pause();

    struct State;

  private:
    std::unique_ptr<State> state_;
};

}  // namespace perch::test
