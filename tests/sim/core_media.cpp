// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_media.hpp"

#include <algorithm>
#include <stdexcept>

namespace perch::test {

namespace {
constexpr std::size_t sector_bytes = 512;
}

void Media::write(const void* owner, std::size_t offset, Content data) {
    entries_.push_back(
        std::make_unique<Entry>(Entry{owner, {offset, std::move(data), false}, SIZE_MAX}));
}

Media::Entry& Media::find(const void* owner) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
        return entry->owner == owner && !entry->write.complete;
    });
    if (found == entries_.end()) {
        throw std::logic_error("no such write");
    }
    return **found;
}

void Media::put(Content& content, const Write& write) {
    std::copy(write.data.begin(), write.data.end(),
              content.begin() + static_cast<std::ptrdiff_t>(write.offset));
    const auto first = write.offset / sector_bytes;
    unreadable_.erase(unreadable_.lower_bound(first),
                      unreadable_.lower_bound(first + write.data.size() / sector_bytes));
}

void Media::complete_write(const void* owner, bool fua) {
    auto& entry = find(owner);
    entry.write.complete = true;
    entry.completed = sequence_++;
    put(current_, entry.write);
    if (!fua) {
        return;
    }
    put(durable_, entry.write);
    // What the cache still has of these sectors is superseded: it cannot come back over it.
    const auto made = std::move(entry.write);
    std::erase_if(entries_, [&](const auto& one) { return one.get() == &entry; });
    for (const auto& other : entries_) {
        const auto first = std::max(made.offset, other->write.offset);
        const auto end = std::min(made.offset + made.data.size(),
                                  other->write.offset + other->write.data.size());
        for (auto place = first; place < end; ++place) {
            other->write.data[place - other->write.offset] = made.data[place - made.offset];
        }
    }
}

void Media::fail_write(const void* owner, std::size_t bytes) {
    auto& entry = find(owner);
    if (bytes == 0) {
        std::erase_if(entries_, [&](const auto& one) { return one.get() == &entry; });
        return;
    }
    entry.write.data.resize(std::min(bytes, entry.write.data.size()));
    complete_write(owner, false);
}

void Media::pull() {
    for (auto& entry : entries_) {
        entry->owner = nullptr;
    }
}

void Media::complete_flush(std::size_t until) {
    std::vector<Entry*> covered;
    for (const auto& entry : entries_) {
        if (entry->write.complete && entry->completed < until) {
            covered.push_back(entry.get());
        }
    }
    std::sort(covered.begin(), covered.end(),
              [](const auto* a, const auto* b) { return a->completed < b->completed; });
    for (const auto* entry : covered) {
        std::copy(entry->write.data.begin(), entry->write.data.end(),
                  durable_.begin() + static_cast<std::ptrdiff_t>(entry->write.offset));
    }
    std::erase_if(entries_, [&](const auto& entry) {
        return entry->write.complete && entry->completed < until;
    });
}

void Media::fail_flush(std::size_t until) {
    for (auto& entry : entries_) {
        if (entry->write.complete && entry->completed < until) {
            entry->completed = SIZE_MAX;
        }
    }
}

bool Media::is_readable(std::size_t offset, std::size_t bytes) const {
    const auto found = unreadable_.lower_bound(offset / sector_bytes);
    return found == unreadable_.end() ||
           *found >= (offset + bytes + sector_bytes - 1) / sector_bytes;
}

void Media::flip(std::size_t offset, std::uint8_t bits) {
    for (auto* content : {&durable_, &current_}) {
        content->at(offset) = static_cast<std::uint8_t>(content->at(offset) ^ bits);
    }
}

std::vector<const Media::Write*> Media::volatile_writes() const {
    std::vector<const Write*> writes;
    for (const auto& entry : entries_) {
        writes.push_back(&entry->write);
    }
    return writes;
}

}  // namespace perch::test
