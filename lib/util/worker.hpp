// SPDX-License-Identifier: GPL-2.0-or-later
// A thread that does jobs in order. It exists so that a drive or kernel call that never returns
// hangs this thread and nobody else: callers wait with a time limit, and destruction does not wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "util/error.hpp"

namespace perch {

class Worker {
  public:
    Worker() : state_(std::make_shared<State>()) {
        std::thread([state = state_] { run(*state); }).detach();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    /// Jobs that wait are dropped; the one that runs finishes on its own, with what it owns.
    ~Worker() {
        const std::lock_guard lock(state_->mutex);
        state_->stopping = true;
        state_->jobs.clear();
        state_->wake.notify_one();
    }

    void post(std::function<void()> job) {
        const std::lock_guard lock(state_->mutex);
        state_->jobs.push_back(std::move(job));
        state_->wake.notify_one();
    }

    /// Queues a job that returns T; the job must own (by value or shared pointer) all it uses.
    template <typename T>
    std::shared_future<T> ask(std::function<T()> job) {
        auto task = std::make_shared<std::packaged_task<T()>>(std::move(job));
        auto future = task->get_future().share();
        post([task] { (*task)(); });
        return future;
    }

  private:
    struct State {
        std::mutex mutex;
        std::condition_variable wake;
        std::deque<std::function<void()>> jobs;
        bool stopping = false;
    };

    static void run(State& state) {
        std::unique_lock lock(state.mutex);
        while (true) {
            state.wake.wait(lock, [&] { return state.stopping || !state.jobs.empty(); });
            if (state.stopping) {
                return;
            }
            auto job = std::move(state.jobs.front());
            state.jobs.pop_front();
            lock.unlock();
            try {
                job();
            } catch (const std::exception& error) {
                fmt::print(stderr, "perch: a defect in a worker's job: {}\n", error.what());
            }
            job = nullptr;
            lock.lock();
        }
    }

    std::shared_ptr<State> state_;
};

/// The answer, or Errc::timeout once the deadline has passed.
template <typename T>
Result<T> wait_until(const std::shared_future<Result<T>>& answer,
                     std::chrono::steady_clock::time_point deadline, std::string_view who) {
    if (answer.wait_until(deadline) != std::future_status::ready) {
        return fail(Errc::timeout, "{} does not answer", who);
    }
    return answer.get();
}

}  // namespace perch
