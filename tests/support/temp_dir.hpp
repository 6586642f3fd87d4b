// SPDX-License-Identifier: GPL-2.0-or-later
// A directory that goes with its test, and what is needed to fill it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace perch::test {

class TempDir {
  public:
    TempDir() {
        std::string pattern = std::filesystem::temp_directory_path() / "perch-test-XXXXXX";
        if (mkdtemp(pattern.data()) == nullptr) {
            throw std::runtime_error("no temporary directory");
        }
        path_ = pattern;
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::string str(const std::string& name) const { return path_ / name; }

    /// A file with that text, its directories made.
    void write(const std::string& name, const std::string& text) const {
        const auto place = path_ / name;
        std::filesystem::create_directories(place.parent_path());
        std::ofstream(place, std::ios::binary) << text;
    }
    /// A symbolic link, its directories made. `target` as seen from this directory.
    void link(const std::string& name, const std::string& target) const {
        const auto place = path_ / name;
        std::filesystem::create_directories(place.parent_path());
        std::filesystem::create_symlink(path_ / target, place);
    }
    /// A file of zeros that takes no space.
    [[nodiscard]] std::string sparse(const std::string& name, std::uintmax_t bytes) const {
        write(name, "");
        std::filesystem::resize_file(path_ / name, bytes);
        return str(name);
    }

  private:
    std::filesystem::path path_;
};

/// The whole of a text file; throws when it is not there.
inline std::string read_text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error(path.string() + " cannot be read");
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace perch::test
