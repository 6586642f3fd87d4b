// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/block_users.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/dm/names.hpp"
#include "util/utf8.hpp"

namespace perch {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> entries(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
        names.push_back(it->path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// mountinfo escapes blanks and backslashes as three octal digits (proc(5)); anything else stays.
std::string unescape(const std::string& text) {
    const auto octal = [&](std::size_t i) {
        return i < text.size() && text[i] >= '0' && text[i] <= '7';
    };
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
            result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                        (text[i + 3] - '0'));
            i += 3;
        } else {
            result += text[i];
        }
    }
    return printable_utf8(result);
}

void add_mounts(const std::string& device_number, const std::string& mountinfo,
                std::vector<std::string>& users) {
    std::ifstream file(mountinfo);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string id;
        std::string parent;
        std::string number;
        std::string root;
        std::string target;
        words >> id >> parent >> number >> root >> target;
        if (number == device_number) {
            users.push_back("mounted on " + unescape(target));
        }
    }
}

void add_swap(const std::string& name, const std::string& swaps, std::vector<std::string>& users) {
    std::ifstream file(swaps);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string device;
        words >> device;
        std::error_code error;
        const auto real = fs::canonical(device, error);
        if (!error && real.filename() == name) {
            users.emplace_back("swap");
        }
    }
}

}  // namespace

std::string read_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\n')) {
        line.pop_back();
    }
    return printable_utf8(line);
}

std::vector<std::string> block_users(const std::string& name, const KernelViews& views) {
    std::vector<std::string> users;
    const fs::path base = fs::path(views.sysfs) / "class/block" / name;
    add_mounts(read_line(base / "dev"), views.mountinfo, users);
    add_swap(name, views.swaps, users);
    for (const auto& holder : entries(base / "holders")) {
        const fs::path dm = fs::path(views.sysfs) / "class/block" / holder / "dm";
        const auto uuid = read_line(dm / "uuid");
        if (uuid.starts_with(dm::part_prefix) || uuid.starts_with(dm::vd_prefix)) {
            continue;
        }
        const auto dm_name = read_line(dm / "name");
        users.push_back("held by " + (dm_name.empty() ? holder : dm_name));
    }
    for (const auto& entry : entries(base)) {
        if (fs::exists(base / entry / "partition")) {
            const auto below = block_users(entry, views);
            users.insert(users.end(), below.begin(), below.end());
        }
    }
    return users;
}

}  // namespace perch
