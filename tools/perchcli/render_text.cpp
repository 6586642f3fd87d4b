// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "render.hpp"

namespace perch::cli {

namespace {

std::string pad(const std::string& text, std::size_t width, bool right) {
    // Cells may hold UTF-8: count code points, not bytes.
    const auto length =
        static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
            return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
        }));
    const std::string blanks(width > length ? width - length : 0, ' ');
    return right ? blanks + text : text + blanks;
}

std::size_t text_width(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
    }));
}

/// Writes blocks with the vendor's blank lines: two before a headed section, one after plain lines.
class TextWriter {
  public:
    explicit TextWriter(std::string& out) : out_(out) {}

    void blocks(const std::vector<Block>& blocks) {
        for (const auto& block : blocks) {
            std::visit([this](const auto& item) { write(item); }, block.item);
        }
    }
    void write(const Table& table) {
        heading(table.text_title.empty() ? table.title : table.text_title);
        out_ += '\n';
        out_ += render_table(table);
        last_ = Last::section;
    }

  private:
    enum class Last { header, pair, section, text };

    void heading(const std::string& title) {
        out_ += last_ == Last::pair ? "\n" : "\n\n";
        out_ += fmt::format("{} :\n{}\n", title, std::string(text_width(title), '='));
    }
    void write(const Properties& properties) {
        heading(properties.title);
        for (const auto& [key, value] : properties.values) {
            out_ += fmt::format("{} = {}\n", key, value_text(value));
        }
        last_ = Last::section;
        for (const auto& child : properties.children) {
            write(child);
        }
    }
    void write(const Pair& pair) {
        if (last_ != Last::pair) {
            out_ += '\n';
        }
        out_ += fmt::format("{} = {}\n", pair.key, value_text(pair.value));
        last_ = Last::pair;
    }
    void write(const Text& text) { lines(text.lines); }
    void write(const Notes& notes) { lines(notes.lines); }
    void lines(const std::vector<std::string>& lines) {
        if (lines.empty()) {
            return;
        }
        out_ += '\n';
        for (const auto& line : lines) {
            out_ += line + '\n';
        }
        last_ = Last::text;
    }
    void write(const Group& group) {
        for (const auto& entry : group.entries) {
            blocks(entry);
        }
    }

    std::string& out_;
    Last last_ = Last::header;
};

}  // namespace

std::string render_table(const Table& table) {
    std::vector<std::size_t> widths;
    widths.reserve(table.columns.size());
    for (const auto& column : table.columns) {
        widths.push_back(text_width(column.name));
    }
    for (const auto& row : table.rows) {
        for (std::size_t i = 0; i < widths.size() && i < row.size(); ++i) {
            widths[i] = std::max(widths[i], text_width(value_text(row[i])));
        }
    }
    std::size_t total = 0;
    std::string head;
    for (std::size_t i = 0; i < widths.size(); ++i) {
        total += widths[i] + 1;
        head += pad(table.columns[i].name, widths[i], table.columns[i].align == Align::right) + ' ';
    }
    const auto rule = std::string(total, '-') + '\n';
    std::string out = rule + head + '\n' + rule;
    for (const auto& row : table.rows) {
        for (std::size_t i = 0; i < widths.size() && i < row.size(); ++i) {
            const auto align = table.columns[i].align;
            const bool number = std::holds_alternative<std::int64_t>(row[i]);
            const bool right = align == Align::right || (align == Align::number && number);
            out += pad(value_text(row[i]), widths[i], right) + ' ';
        }
        out += '\n';
    }
    return out + rule;
}

std::string render_text(const std::vector<Reply>& replies, const Header& header) {
    std::string out;
    for (const auto& reply : replies) {
        if (!out.empty()) {
            out += '\n';
        }
        for (const auto& line : reply.preface) {
            out += line + '\n';
        }
        if (!reply.preface.empty()) {
            out += '\n';
        }
        out += fmt::format("CLI Version = {}\nOperating system = {}\n", header.cli_version,
                           header.operating_system);
        if (reply.controller) {
            out += fmt::format("Controller = {}\n", *reply.controller);
        } else {
            out += fmt::format("Status Code = {}\n", exit_status({reply}));
        }
        const bool use_error = reply.error && !reply.description_is_final;
        out += fmt::format("Status = {}\nDescription = {}\n", reply.error ? "Failure" : "Success",
                           use_error ? reply.error->message : reply.description);
        TextWriter writer(out);
        if (reply.detailed_status) {
            writer.write(*reply.detailed_status);
        }
        writer.blocks(reply.blocks);
        out += '\n';
    }
    return out;
}

}  // namespace perch::cli
