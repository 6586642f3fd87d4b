// SPDX-License-Identifier: GPL-2.0-or-later
// Stacks are switched by Boost.Context's primitives: swapcontext() makes two system calls each
// time, and boost::context::fiber uses it when there are sanitizers.
#include "sim/core_fibers.hpp"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

/// A fake stack for each of millions of fibers, and a long memory of what was freed, cost more than
/// all else together.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
    return "detect_stack_use_after_return=0:quarantine_size_mb=16";
}

namespace perch::test {

namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

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
    fcontext_t own = nullptr;  ///< where it goes on; null before its start
    fcontext_t caller = nullptr;
    const void* caller_stack = nullptr;
    std::size_t caller_bytes = 0;
    void* fake_stack = nullptr;  ///< AddressSanitizer's
    bool ended = false;
    std::exception_ptr thrown;

    static State*& current() {
        static State* state = nullptr;
        return state;
    }
    static void enter(transfer_t from) {
        auto& self = *current();
        self.caller = from.fctx;
        __sanitizer_finish_switch_fiber(nullptr, &self.caller_stack, &self.caller_bytes);
        try {
            self.work();
        } catch (...) {
            self.thrown = std::current_exception();
        }
        self.ended = true;
        __sanitizer_start_switch_fiber(nullptr, self.caller_stack, self.caller_bytes);
        jump_fcontext(self.caller, nullptr);
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
    if (state.own == nullptr) {
        state.own = make_fcontext(state.stack.data() + state.stack.size(), state.stack.size(),
                                  State::enter);
    }
    auto* outer = std::exchange(State::current(), &state);
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, state.stack.data(), state.stack.size());
    state.own = jump_fcontext(state.own, nullptr).fctx;
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
    state->caller = jump_fcontext(state->caller, nullptr).fctx;
    __sanitizer_finish_switch_fiber(state->fake_stack, &state->caller_stack, &state->caller_bytes);
}

}  // namespace perch::test
