// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/dm_task.hpp"

#include <libdevmapper.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>

namespace perch::dm {

namespace {

// libdevmapper reports through one process-wide callback; the text is kept per thread.
std::string& last_message() {
    thread_local std::string message;
    return message;
}

constexpr int log_level_error = 3;  // LOG_ERR; below are the more severe ones

__attribute__((format(printf, 5, 6))) void keep_message(int level, const char* /*file*/,
                                                        int /*line*/, int /*error*/,
                                                        const char* format, ...) {
    if ((level & 7) > log_level_error) {
        return;
    }
    std::array<char, 512> text{};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    last_message() = text.data();
}

struct TaskDeleter {
    void operator()(dm_task* task) const { dm_task_destroy(task); }
};
using TaskPtr = std::unique_ptr<dm_task, TaskDeleter>;

TaskPtr make_task(int type) {
    dm_log_with_errno_init(keep_message);
    last_message().clear();
    return TaskPtr(dm_task_create(type));
}

tl::unexpected<Error> failure(std::string_view doing, const std::string& name, int error) {
    const auto& message = last_message();
    const bool gone = error == ENOENT || error == ENXIO || error == ENODEV;
    const auto code = error == EBUSY ? Errc::in_use : gone ? Errc::not_found : Errc::io;
    return fail(code, "device-mapper: cannot {} {}: {}", doing, name,
                message.empty() ? errno_text(error) : message);
}

std::uint16_t udev_flags(Visibility visibility) {
    if (visibility == Visibility::published) {
        return 0;
    }
    return DM_UDEV_DISABLE_SUBSYSTEM_RULES_FLAG | DM_UDEV_DISABLE_DISK_RULES_FLAG |
           DM_UDEV_DISABLE_OTHER_RULES_FLAG;
}

Result<TaskPtr> named_task(int type, std::string_view doing, const std::string& name) {
    auto task = make_task(type);
    if (!task || dm_task_set_name(task.get(), name.c_str()) == 0) {
        return failure(doing, name, ENOMEM);
    }
    return task;
}

Result<void> run(const TaskPtr& task, std::string_view doing, const std::string& name) {
    if (dm_task_run(task.get()) == 0) {
        return failure(doing, name, dm_task_get_errno(task.get()));
    }
    return {};
}

/// Runs a task that makes udev events, and waits until udev has handled them.
Result<void> run_and_settle(const TaskPtr& task, std::string_view doing, const std::string& name,
                            Visibility visibility) {
    std::uint32_t cookie = 0;
    if (dm_task_set_cookie(task.get(), &cookie, udev_flags(visibility)) == 0) {
        return failure(doing, name, ENOMEM);
    }
    auto done = run(task, doing, name);
    // Also after a failure: the cookie's semaphore must go.
    dm_udev_wait(cookie);
    return done;
}

Result<void> add_target(const TaskPtr& task, std::string_view doing, const std::string& name,
                        const Target& target) {
    if (dm_task_add_target(task.get(), target.start_sectors, target.length_sectors,
                           target.type.c_str(), target.params.c_str()) == 0) {
        return failure(doing, name, ENOMEM);
    }
    return {};
}

Result<std::optional<Info>> run_info(const TaskPtr& task, const std::string& what) {
    dm_info raw{};
    if (dm_task_run(task.get()) == 0) {
        // The library turns ENXIO into exists == 0; anything else is trouble.
        return failure("look at", what, dm_task_get_errno(task.get()));
    }
    if (dm_task_get_info(task.get(), &raw) == 0) {
        return failure("look at", what, EIO);
    }
    if (raw.exists == 0) {
        return std::optional<Info>();
    }
    Info info;
    info.name = dm_task_get_name(task.get());
    info.uuid = dm_task_get_uuid(task.get());
    info.major = raw.major;
    info.minor = raw.minor;
    info.suspended = raw.suspended != 0;
    info.live_table = raw.live_table != 0;
    info.open_count = raw.open_count;
    return std::optional(info);
}

Result<std::vector<Target>> targets(int type, std::string_view doing, const std::string& name) {
    auto task = named_task(type, doing, name);
    if (!task) {
        return tl::make_unexpected(task.error());
    }
    // Reading must not wait for I/O in flight.
    dm_task_no_flush(task->get());
    if (auto done = run(*task, doing, name); !done) {
        return tl::make_unexpected(done.error());
    }
    std::vector<Target> result;
    void* next = nullptr;
    do {
        Target target;
        char* target_type = nullptr;
        char* params = nullptr;
        next = dm_get_next_target(task->get(), next, &target.start_sectors, &target.length_sectors,
                                  &target_type, &params);
        if (target_type != nullptr) {
            target.type = target_type;
            target.params = params == nullptr ? "" : params;
            result.push_back(target);
        }
    } while (next != nullptr);
    return result;
}

}  // namespace

Result<void> create(const std::string& name, const std::string& uuid, const Target& target,
                    Visibility visibility) {
    auto task = named_task(DM_DEVICE_CREATE, "create", name);
    if (!task) {
        return tl::make_unexpected(task.error());
    }
    if (dm_task_set_uuid(task->get(), uuid.c_str()) == 0) {
        return failure("create", name, EINVAL);
    }
    return add_target(*task, "create", name, target).and_then([&] {
        return run_and_settle(*task, "create", name, visibility);
    });
}

Result<void> load(const std::string& name, const Target& target) {
    auto task = named_task(DM_DEVICE_RELOAD, "load", name);
    if (!task) {
        return tl::make_unexpected(task.error());
    }
    return add_target(*task, "load", name, target).and_then([&] {
        return run(*task, "load", name);
    });
}

Result<void> suspend(const std::string& name) {
    return named_task(DM_DEVICE_SUSPEND, "suspend", name).and_then([&](const TaskPtr& task) {
        return run(task, "suspend", name);
    });
}

Result<void> resume(const std::string& name, Visibility visibility) {
    return named_task(DM_DEVICE_RESUME, "resume", name).and_then([&](const TaskPtr& task) {
        return run_and_settle(task, "resume", name, visibility);
    });
}

Result<void> remove(const std::string& name, Visibility visibility) {
    return named_task(DM_DEVICE_REMOVE, "remove", name).and_then([&](const TaskPtr& task) {
        // udev's own probing may hold a device open for a moment.
        dm_task_retry_remove(task.get());
        return run_and_settle(task, "remove", name, visibility);
    });
}

Result<void> rename(const std::string& name, const std::string& new_name) {
    return named_task(DM_DEVICE_RENAME, "rename", name)
        .and_then([&](const TaskPtr& task) -> Result<void> {
            if (dm_task_set_newname(task.get(), new_name.c_str()) == 0) {
                return failure("rename", name, EINVAL);
            }
            return run_and_settle(task, "rename", name, Visibility::published);
        });
}

Result<void> message(const std::string& name, const std::string& text) {
    return named_task(DM_DEVICE_TARGET_MSG, "send a message to", name)
        .and_then([&](const TaskPtr& task) -> Result<void> {
            if (dm_task_set_sector(task.get(), 0) == 0 ||
                dm_task_set_message(task.get(), text.c_str()) == 0) {
                return failure("send a message to", name, ENOMEM);
            }
            return run(task, "send a message to", name);
        });
}

Result<void> clear(const std::string& name) {
    return named_task(DM_DEVICE_CLEAR, "clear", name).and_then([&](const TaskPtr& task) {
        return run(task, "clear", name);
    });
}

Result<std::optional<Info>> find(const std::string& uuid) {
    const auto task = make_task(DM_DEVICE_INFO);
    if (!task || dm_task_set_uuid(task.get(), uuid.c_str()) == 0) {
        return failure("look at", uuid, ENOMEM);
    }
    return run_info(task, uuid);
}

Result<std::vector<Info>> list(std::string_view uuid_prefix) {
    const auto task = make_task(DM_DEVICE_LIST);
    if (!task || dm_task_run(task.get()) == 0) {
        return failure("list", "devices", task ? dm_task_get_errno(task.get()) : ENOMEM);
    }
    std::vector<std::string> names;
    const auto* entry = dm_task_get_names(task.get());
    if (entry != nullptr && entry->dev != 0) {
        while (true) {
            names.emplace_back(entry->name);
            if (entry->next == 0) {
                break;
            }
            // The kernel's list is a chain of byte offsets (dm-ioctl.h).
            const auto* bytes = reinterpret_cast<const char*>(entry);
            entry = reinterpret_cast<const dm_names*>(bytes + entry->next);
        }
    }
    std::vector<Info> result;
    for (const auto& name : names) {
        const auto info_task = named_task(DM_DEVICE_INFO, "look at", name);
        if (!info_task) {
            return tl::make_unexpected(info_task.error());
        }
        const auto info = run_info(*info_task, name);
        if (!info) {
            return tl::make_unexpected(info.error());
        }
        if (*info && (*info)->uuid.starts_with(uuid_prefix)) {
            result.push_back(**info);
        }
    }
    return result;
}

Result<std::vector<Target>> table(const std::string& name) {
    return targets(DM_DEVICE_TABLE, "read the table of", name);
}

Result<std::vector<Target>> status(const std::string& name) {
    return targets(DM_DEVICE_STATUS, "read the status of", name);
}

Result<std::optional<TargetVersion>> target_version(const std::string& type) {
    const auto task = named_task(DM_DEVICE_GET_TARGET_VERSION, "ask for the version of", type);
    if (!task) {
        return tl::make_unexpected(task.error());
    }
    if (dm_task_run(task->get()) == 0) {
        const int error = dm_task_get_errno(task->get());
        if (error == EINVAL || error == ENOENT || error == ENXIO) {
            return std::optional<TargetVersion>();
        }
        return failure("ask for the version of", type, error);
    }
    const auto* found = dm_task_get_versions(task->get());
    if (found == nullptr) {
        return std::optional<TargetVersion>();
    }
    return std::optional(TargetVersion{found->version[0], found->version[1], found->version[2]});
}

bool available(std::string& reason) {
    if (::access("/dev/mapper/control", R_OK | W_OK) == 0) {
        return true;
    }
    reason = errno == EACCES ? "no permission for /dev/mapper/control; run as root"
                             : "the kernel has no device-mapper: load it with 'modprobe dm-mod'";
    return false;
}

}  // namespace perch::dm
