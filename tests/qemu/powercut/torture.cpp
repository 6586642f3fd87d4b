// SPDX-License-Identifier: GPL-2.0-or-later
// Writes all over a block device until that fails, and says afterwards whether what is there may be
// there.
//
//   torture run DEVICE STATE SEED     writes, of all sizes, some durable at once, with flushes
//   torture check DEVICE STATE [errors]   reads everything; with "errors" sectors may be unreadable
//
// STATE is a file in memory: for each sector of 512 bytes the numbers of the last write to it that
// is durable, that was acknowledged, and that was begun. A sector may hold any write of its own
// from the durable one on. check notes what it found: from then on nothing else may be there.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t sector_bytes = 512;
constexpr std::size_t most_sectors = 1024;
constexpr int writers = 6;

struct Sector {
    std::uint32_t durable;
    std::uint32_t acknowledged;
    std::uint32_t begun;
};

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "torture: %s: %s\n", what.c_str(), std::strerror(errno));
    std::exit(2);
}

struct Device {
    int fd;
    std::uint64_t sectors;
    unsigned block;  ///< sectors of a logical block
};

Device open_device(const char* path, int flags) {
    Device device{open(path, flags | O_DIRECT | O_CLOEXEC), 0, 0};
    std::uint64_t bytes = 0;
    int block = 0;
    if (device.fd < 0 || ioctl(device.fd, BLKGETSIZE64, &bytes) != 0 ||
        ioctl(device.fd, BLKSSZGET, &block) != 0) {
        die(path);
    }
    device.sectors = bytes / sector_bytes;
    device.block = static_cast<unsigned>(block) / sector_bytes;
    return device;
}

Sector* map_state(const char* path, std::uint64_t sectors) {
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(sectors * sizeof(Sector))) != 0) {
        die(path);
    }
    void* memory =
        mmap(nullptr, sectors * sizeof(Sector), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        die(path);
    }
    close(fd);
    return static_cast<Sector*>(memory);
}

struct Aligned {
    void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::uint64_t[], Aligned>;

Buffer make_buffer(std::size_t bytes) {
    return Buffer(static_cast<std::uint64_t*>(std::aligned_alloc(4096, bytes)));
}

std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ value >> 31) * 0x9e3779b97f4a7c15ULL;
    return value ^ value >> 29;
}

/// What write `number` puts into a sector: its number, then words that only that write has.
void fill(std::uint64_t* words, std::uint64_t sector, std::uint32_t number) {
    for (std::size_t i = 0; i < sector_bytes / sizeof(*words); ++i) {
        words[i] = i == 0 ? number : mixed(sector << 32 ^ std::uint64_t{number} << 8 ^ i);
    }
}

/// The number of the write that a sector holds, 0 for zeros; -1: none.
std::int64_t number_in(const std::uint64_t* words, std::uint64_t sector) {
    std::uint64_t expected[sector_bytes / sizeof(*words)] = {};
    if (words[0] != 0) {
        fill(expected, sector, static_cast<std::uint32_t>(words[0]));
    }
    return std::memcmp(words, expected, sector_bytes) == 0 ? static_cast<std::int64_t>(words[0])
                                                           : -1;
}

class Load {
  public:
    Load(Device device, Sector* state, std::uint64_t seed)
        : device_(device), state_(state), seed_(seed) {
        for (std::uint64_t i = 0; i < device.sectors; ++i) {
            next_ = std::max<std::uint32_t>(next_, state[i].begun + 1);
        }
    }

    int run() {
        std::vector<std::thread> threads;
        for (int i = 0; i < writers; ++i) {
            threads.emplace_back(
                [this, i] { write_on(seed_ * writers + static_cast<unsigned>(i)); });
        }
        for (auto& thread : threads) {
            thread.join();
        }
        std::printf("%u writes, %u flushes, %u were in flight\n", acknowledged_.load(),
                    flushes_.load(), failed_.load());
        return 0;
    }

  private:
    struct Range {
        std::uint64_t first, end;
    };

    /// A range that no other thread writes to.
    Range take(std::mt19937_64& random) {
        while (true) {
            // Small ones, windows, whole rows.
            const std::uint64_t most = std::uint64_t{1} << random() % 11;
            auto sectors = 1 + random() % std::min<std::uint64_t>(most, most_sectors);
            sectors = std::max<std::uint64_t>(sectors / device_.block, 1) * device_.block;
            auto first = random() % (device_.sectors - sectors + 1);
            first -= first % device_.block;
            const std::lock_guard guard(mutex_);
            if (std::none_of(taken_.begin(), taken_.end(), [&](const Range& other) {
                    return first < other.end && other.first < first + sectors;
                })) {
                taken_.push_back({first, first + sectors});
                return taken_.back();
            }
        }
    }
    void give_back(const Range& range) {
        const std::lock_guard guard(mutex_);
        taken_.erase(std::find_if(taken_.begin(), taken_.end(),
                                  [&](const Range& other) { return other.first == range.first; }));
    }

    /// What is acknowledged before a flush begins is durable after it.
    bool flush() {
        std::vector<std::uint32_t> before(device_.sectors);
        for (std::uint64_t i = 0; i < device_.sectors; ++i) {
            before[i] = __atomic_load_n(&state_[i].acknowledged, __ATOMIC_ACQUIRE);
        }
        if (fdatasync(device_.fd) != 0) {
            return false;
        }
        for (std::uint64_t i = 0; i < device_.sectors; ++i) {
            raise(state_[i].durable, before[i]);
        }
        ++flushes_;
        return true;
    }

    /// Flushes run beside each other; none may take back what another has seen.
    static void raise(std::uint32_t& value, std::uint32_t to) {
        auto now = __atomic_load_n(&value, __ATOMIC_ACQUIRE);
        while (now < to && !__atomic_compare_exchange_n(&value, &now, to, false, __ATOMIC_ACQ_REL,
                                                        __ATOMIC_ACQUIRE)) {
        }
    }

    void write_on(std::uint64_t seed) {
        std::mt19937_64 random(seed);
        const auto buffer = make_buffer(most_sectors * sector_bytes);
        while (true) {
            if (random() % 40 == 0 && !flush()) {
                return;
            }
            const auto range = take(random);
            const auto number = next_++;
            const bool durable = random() % 8 == 0;
            for (auto sector = range.first; sector < range.end; ++sector) {
                fill(&buffer[(sector - range.first) * sector_bytes / 8], sector, number);
                state_[sector].begun = number;
            }
            const iovec vector{buffer.get(), (range.end - range.first) * sector_bytes};
            const auto written =
                pwritev2(device_.fd, &vector, 1, static_cast<off_t>(range.first * sector_bytes),
                         durable ? RWF_DSYNC : 0);
            if (written != static_cast<ssize_t>(vector.iov_len)) {
                ++failed_;
                return;
            }
            for (auto sector = range.first; sector < range.end; ++sector) {
                __atomic_store_n(&state_[sector].acknowledged, number, __ATOMIC_RELEASE);
                if (durable) {
                    raise(state_[sector].durable, number);
                }
            }
            ++acknowledged_;
            give_back(range);
        }
    }

    Device device_;
    Sector* state_;
    std::uint64_t seed_;
    std::mutex mutex_;
    std::vector<Range> taken_;
    std::atomic<std::uint32_t> next_{1};
    std::atomic<std::uint32_t> acknowledged_{0};
    std::atomic<std::uint32_t> flushes_{0};
    std::atomic<std::uint32_t> failed_{0};
};

class Check {
  public:
    Check(Device device, Sector* state, bool errors_allowed)
        : device_(device), state_(state), errors_allowed_(errors_allowed) {}

    int run() {
        const auto buffer = make_buffer(most_sectors * sector_bytes);
        for (std::uint64_t first = 0; first < device_.sectors; first += most_sectors) {
            const auto sectors = std::min<std::uint64_t>(most_sectors, device_.sectors - first);
            if (read(buffer.get(), first, sectors)) {
                check(buffer.get(), first, sectors);
                continue;
            }
            for (auto one = first; one < first + sectors; one += device_.block) {
                if (read(buffer.get(), one, device_.block)) {
                    check(buffer.get(), one, device_.block);
                } else {
                    errors_ += device_.block;
                }
            }
        }
        std::printf("%llu sectors, %llu wrong, %llu errors\n",
                    static_cast<unsigned long long>(device_.sectors),
                    static_cast<unsigned long long>(wrong_),
                    static_cast<unsigned long long>(errors_));
        return wrong_ > 0 || (errors_ > 0 && !errors_allowed_) ? 1 : 0;
    }

  private:
    bool read(void* buffer, std::uint64_t first, std::uint64_t sectors) const {
        const auto bytes = sectors * sector_bytes;
        return pread(device_.fd, buffer, bytes, static_cast<off_t>(first * sector_bytes)) ==
               static_cast<ssize_t>(bytes);
    }

    void check(const std::uint64_t* words, std::uint64_t first, std::uint64_t sectors) {
        for (std::uint64_t i = 0; i < sectors; ++i) {
            auto& known = state_[first + i];
            const auto number = number_in(words + i * sector_bytes / 8, first + i);
            if (number < 0 || number < known.durable || number > known.begun) {
                if (++wrong_ <= 10) {
                    std::printf(
                        "sector %llu holds write %lld (%016llx); %u is durable, %u was the last\n",
                        static_cast<unsigned long long>(first + i), static_cast<long long>(number),
                        static_cast<unsigned long long>(words[i * sector_bytes / 8]), known.durable,
                        known.begun);
                }
                continue;
            }
            const auto found = static_cast<std::uint32_t>(number);
            known = {found, found, found};
        }
    }

    Device device_;
    Sector* state_;
    bool errors_allowed_;
    std::uint64_t wrong_ = 0;
    std::uint64_t errors_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "run" && argc == 5) {
        const auto device = open_device(argv[2], O_RDWR);
        return Load(device, map_state(argv[3], device.sectors), std::strtoull(argv[4], nullptr, 10))
            .run();
    }
    if (mode == "check" && (argc == 4 || argc == 5)) {
        const auto device = open_device(argv[2], O_RDONLY);
        return Check(device, map_state(argv[3], device.sectors), argc == 5).run();
    }
    std::fprintf(stderr, "usage: torture run DEVICE STATE SEED | check DEVICE STATE [errors]\n");
    return 2;
}
