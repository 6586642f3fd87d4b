// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/sim/sim_device.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "util/units.hpp"

namespace perch {

namespace {

bool is_zero(std::span<const std::byte> bytes) {
    // Equal to itself shifted by one, and beginning with zero.
    return bytes[0] == std::byte{0} &&
           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// The pages of a torn write of `pages` that arrived: a first or a last part, never none or all
/// where there is a choice.
std::pair<std::uint64_t, std::uint64_t> torn_part(std::uint64_t pages, unsigned seed) {
    if (pages < 2) {
        return {0, 0};
    }
    if (seed == 0) {
        return {0, pages / 2};
    }
    const auto cuts = pages - 1;
    const auto choice = (seed - 1) % (2 * cuts);
    const auto kept = choice % cuts + 1;
    return choice < cuts ? std::pair{std::uint64_t{0}, kept} : std::pair{pages - kept, kept};
}

}  // namespace

void StepCounter::step(Stepper who) {
    if (const auto stop = begin(1, who)) {
        if (!stop->has_done(0)) {
            throw Stopped();
        }
        arm(0);  // what this step does happens, and nothing after it
    }
}

std::optional<StopPoint> StepCounter::begin(std::size_t width, Stepper who) {
    if (who == Stepper::kernel && !counts_kernel_) {
        return std::nullopt;
    }
    if (stop_.step == 0) {
        auto stop = std::move(stop_);
        stop_ = {};
        return stop;
    }
    if (stop_.step > 0) {
        --stop_.step;
    }
    constexpr int most = 10'000;  // a daemon counts for ever
    if (count_ < most) {
        widths_.push_back(width);
        ++count_;
    }
    return std::nullopt;
}

std::shared_ptr<const SimPage> PagePool::intern(std::span<const std::byte> bytes) {
    if (is_zero(bytes)) {
        return nullptr;
    }
    const auto hash =
        std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    auto& known = pages_[hash];
    auto page = known.lock();
    if (page && std::memcmp(page->data(), bytes.data(), sim_page_bytes) == 0) {
        return page;
    }
    auto fresh = std::make_shared<SimPage>();
    std::memcpy(fresh->data(), bytes.data(), sim_page_bytes);
    known = fresh;
    if (pages_.size() > sweep_at_) {
        std::erase_if(pages_, [](const auto& entry) { return entry.second.expired(); });
        sweep_at_ = std::max<std::size_t>(sweep_at_, pages_.size() * 2);
    }
    return fresh;
}

SimDevice::SimDevice(std::uint64_t size, StepCounter& steps, std::shared_ptr<PagePool> pool)
    : size_(size), steps_(steps), pool_(pool ? std::move(pool) : std::make_shared<PagePool>()) {}

Result<void> SimDevice::keep_in(const std::string& path) {
    constexpr mode_t mode = 0600;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open {}: {}", path, errno_text(errno));
    }
    const auto end = lseek(fd.get(), 0, SEEK_END);
    if (end != static_cast<off_t>(size_) && ftruncate(fd.get(), static_cast<off_t>(size_)) != 0) {
        return fail(Errc::io, "{} cannot have {}: {}", path, format_size(size_), errno_text(errno));
    }
    SimPage page{};
    for (off_t place = 0; (place = lseek(fd.get(), place, SEEK_DATA)) >= 0;) {
        const auto hole = lseek(fd.get(), place, SEEK_HOLE);
        for (auto at = round_down(static_cast<std::uint64_t>(place), sim_page_bytes);
             at < static_cast<std::uint64_t>(hole); at += sim_page_bytes) {
            if (pread(fd.get(), page.data(), sim_page_bytes, static_cast<off_t>(at)) !=
                static_cast<ssize_t>(sim_page_bytes)) {
                return fail(Errc::io, "cannot read {} at {}: {}", path, at, errno_text(errno));
            }
            if (auto kept = pool_->intern(page)) {
                pages_[at / sim_page_bytes] = std::move(kept);
            }
        }
        place = hole;
    }
    file_ = std::move(fd);
    return {};
}

Result<void> SimDevice::check_read(std::uint64_t offset, std::uint64_t length) const {
    if (hung) {
        return fail(Errc::timeout, "the drive does not answer");
    }
    if (failing || fail_reads || offset + length > size_ || offset % sim_page_bytes != 0) {
        return fail(Errc::io, "read of {} bytes at {} failed", length, offset);
    }
    return {};
}

Result<void> SimDevice::check_write(std::uint64_t offset, std::uint64_t length) const {
    if (hung) {
        return fail(Errc::timeout, "the drive does not answer");
    }
    if (failing || fail_writes || offset + length > size_ || offset % sim_page_bytes != 0 ||
        length % sim_page_bytes != 0) {
        return fail(Errc::io, "write of {} bytes at {} failed", length, offset);
    }
    return {};
}

Result<Bytes> SimDevice::read(std::uint64_t offset, std::uint64_t length) {
    if (auto good = check_read(offset, length); !good) {
        return tl::make_unexpected(good.error());
    }
    Bytes result(length);
    const auto end = pages_.lower_bound((offset + length + sim_page_bytes - 1) / sim_page_bytes);
    for (auto page = pages_.lower_bound(offset / sim_page_bytes); page != end; ++page) {
        const auto place = page->first * sim_page_bytes - offset;
        std::memcpy(result.data() + place, page->second->data(),
                    std::min(sim_page_bytes, length - place));
    }
    return result;
}

void SimDevice::store_page(std::uint64_t page, std::span<const std::byte> bytes) {
    if (auto kept = pool_->intern(bytes)) {
        pages_[page] = std::move(kept);
    } else {
        pages_.erase(page);
    }
}

void SimDevice::store(std::uint64_t offset, std::span<const std::byte> bytes) {
    for (std::uint64_t done = 0; done < bytes.size(); done += sim_page_bytes) {
        store_page((offset + done) / sim_page_bytes, bytes.subspan(done, sim_page_bytes));
    }
    if (file_.valid()) {
        // A file that cannot be written shows at the next start; the simulation goes on without.
        [[maybe_unused]] const auto ignored =
            pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    }
}

void SimDevice::erase(std::uint64_t offset, std::uint64_t length) {
    pages_.erase(pages_.lower_bound(offset / sim_page_bytes),
                 pages_.lower_bound((offset + length) / sim_page_bytes));
    if (file_.valid()) {
        [[maybe_unused]] const auto ignored =
            fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(offset), static_cast<off_t>(length));
    }
}

void SimDevice::set_pages(const Pages& pages) {
    if (!file_.valid()) {
        pages_ = pages;
        pages_.erase(pages_.lower_bound(size_ / sim_page_bytes), pages_.end());
        return;
    }
    erase(0, size_);
    for (const auto& [page, content] : pages) {
        if ((page + 1) * sim_page_bytes <= size_) {
            store(page * sim_page_bytes, *content);
        }
    }
}

Result<void> SimDevice::write(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (auto good = check_write(offset, bytes.size()); !good) {
        return good;
    }
    if (const auto stop = steps_.begin(1)) {
        if (stop->has_done(0)) {
            store(offset, bytes);
        } else if (torn || stop->torn) {
            const auto [first, count] = torn_part(bytes.size() / sim_page_bytes, stop->seed);
            store(offset + first * sim_page_bytes,
                  bytes.subspan(first * sim_page_bytes, count * sim_page_bytes));
        }
        throw Stopped();
    }
    store(offset, bytes);
    return {};
}

Result<void> SimDevice::zero(std::uint64_t offset, std::uint64_t length) {
    if (auto good = check_write(offset, length); !good) {
        return good;
    }
    if (const auto stop = steps_.begin(1)) {
        if (stop->has_done(0)) {
            erase(offset, length);
        } else if (torn || stop->torn) {
            const auto [first, count] = torn_part(length / sim_page_bytes, stop->seed);
            erase(offset + first * sim_page_bytes, count * sim_page_bytes);
        }
        throw Stopped();
    }
    erase(offset, length);
    return {};
}

Result<Bytes> StagedDevice::read(std::uint64_t offset, std::uint64_t length) {
    return device_.read(offset, length).map([&](Bytes bytes) {
        for (const auto& write : writes_) {
            const auto from = std::max(offset, write.offset);
            const auto to = std::min(offset + length, write.offset + write.length);
            for (auto at = from; at < to; ++at) {
                bytes[at - offset] = write.bytes ? (*write.bytes)[at - write.offset] : std::byte{0};
            }
        }
        return bytes;
    });
}

Result<void> StagedDevice::write(std::uint64_t offset, std::span<const std::byte> bytes) {
    return device_.check_write(offset, bytes.size()).map([&] {
        writes_.push_back({offset, bytes.size(), Bytes(bytes.begin(), bytes.end())});
    });
}

Result<void> StagedDevice::zero(std::uint64_t offset, std::uint64_t length) {
    return device_.check_write(offset, length).map([&] {
        writes_.push_back({offset, length, std::nullopt});
    });
}

Result<void> StagedDevice::repeat(const StagedDevice& other) {
    for (const auto& write : other.writes_) {
        if (auto good = device_.check_write(write.offset, write.length); !good) {
            return good;
        }
    }
    writes_.insert(writes_.end(), other.writes_.begin(), other.writes_.end());
    return {};
}

void StagedDevice::apply_part(const Write& write, std::uint64_t from, std::uint64_t length) {
    if (write.bytes) {
        device_.store(write.offset + from, std::span(*write.bytes).subspan(from, length));
    } else {
        device_.erase(write.offset + from, length);
    }
}

void StagedDevice::apply() {
    for (const auto& write : writes_) {
        apply_part(write, 0, write.length);
    }
}

void StagedDevice::apply_torn(unsigned seed) {
    const auto whole = seed % writes_.size();
    for (std::size_t i = 0; i < whole; ++i) {
        apply_part(writes_[i], 0, writes_[i].length);
    }
    const auto& cut = writes_[whole];
    const auto [first, count] = torn_part(cut.length / sim_page_bytes, seed);
    apply_part(cut, first * sim_page_bytes, count * sim_page_bytes);
}

void commit_staged(StepCounter& steps, const std::vector<std::unique_ptr<StagedDevice>>& devices,
                   Stepper who) {
    std::vector<StagedDevice*> jobs;
    for (const auto& device : devices) {
        if (device && !device->empty()) {
            jobs.push_back(device.get());
        }
    }
    if (jobs.empty()) {
        return;
    }
    const auto stop = steps.begin(jobs.size(), who);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (!stop || stop->has_done(i)) {
            jobs[i]->apply();
        } else if (stop->torn) {
            // Each drive is cut elsewhere.
            jobs[i]->apply_torn(stop->seed == 0 ? 0 : stop->seed + static_cast<unsigned>(i));
        }
    }
    if (stop) {
        throw Stopped();
    }
}

}  // namespace perch
