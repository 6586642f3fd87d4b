// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_fibers.hpp"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <ucontext.h>

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace perch::test {

namespace {

constexpr std::size_t stack_bytes = 256 << 10;
using Stack = std::vector<char>;

/// Stacks are used again: there are millions of fibers, and three at a time.
std::vector<Stack>& spare_stacks() {
    static std::vector<Stack> stacks;
    return stacks;
}

}  // namespace

struct Fiber::State {
    std::function<void()> work;
    Stack stack;
    ucontext_t own{};
    ucontext_t caller{};
    const void* caller_stack = nullptr;
    std::size_t caller_bytes = 0;
    void* fake_stack = nullptr;  ///< AddressSanitizer's
    bool started = false;
    bool ended = false;
    std::exception_ptr thrown;

    static State*& current() {
        static State* state = nullptr;
        return state;
    }
    static void enter() {
        auto& self = *current();
        __sanitizer_finish_switch_fiber(nullptr, &self.caller_stack, &self.caller_bytes);
        try {
            self.work();
        } catch (...) {
            self.thrown = std::current_exception();
        }
        self.ended = true;
        __sanitizer_start_switch_fiber(nullptr, self.caller_stack, self.caller_bytes);
        swapcontext(&self.own, &self.caller);
    }
};

Fiber::Fiber(std::function<void()> work) : state_(std::make_unique<State>()) {
    state_->work = std::move(work);
    auto& spare = spare_stacks();
    if (spare.empty()) {
        state_->stack.resize(stack_bytes);
    } else {
        state_->stack = std::move(spare.back());
        spare.pop_back();
    }
}

Fiber::~Fiber() {
    __asan_unpoison_memory_region(state_->stack.data(), state_->stack.size());
    spare_stacks().push_back(std::move(state_->stack));
}

bool Fiber::resume() {
    auto& state = *state_;
    if (!state.started) {
        state.started = true;
        getcontext(&state.own);
        state.own.uc_stack.ss_sp = state.stack.data();
        state.own.uc_stack.ss_size = state.stack.size();
        makecontext(&state.own, State::enter, 0);
    }
    auto* outer = std::exchange(State::current(), &state);
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, state.stack.data(), state.stack.size());
    swapcontext(&state.caller, &state.own);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
    State::current() = outer;
    if (state.thrown) {
        std::rethrow_exception(std::exchange(state.thrown, nullptr));
    }
    return state.ended;
}

void Fiber::pause() {
    auto* state = State::current();
    if (state == nullptr) {
        return;
    }
    __sanitizer_start_switch_fiber(&state->fake_stack, state->caller_stack, state->caller_bytes);
    swapcontext(&state->own, &state->caller);
    __sanitizer_finish_switch_fiber(state->fake_stack, &state->caller_stack, &state->caller_bytes);
}

}  // namespace perch::test
