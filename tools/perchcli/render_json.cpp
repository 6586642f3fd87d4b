// SPDX-License-Identifier: GPL-2.0-or-later
#include <nlohmann/json.hpp>

#include "render.hpp"

namespace perch::cli {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Value& value) {
    return std::visit([](const auto& item) { return Json(item); }, value);
}

Json to_json(const Table& table) {
    auto list = Json::array();
    for (const auto& row : table.rows) {
        auto object = Json::object();
        for (std::size_t i = 0; i < row.size() && i < table.columns.size(); ++i) {
            object[table.columns[i].name] = to_json(row[i]);
        }
        list.push_back(std::move(object));
    }
    if (table.single) {
        return list.empty() ? Json::object() : list.front();
    }
    return list;
}

Json to_json(const Properties& properties) {
    auto object = Json::object();
    for (const auto& [key, value] : properties.values) {
        object[key] = to_json(value);
    }
    for (const auto& child : properties.children) {
        object[child.title] = to_json(child);
    }
    return object;
}

struct BlockWriter {
    Json& object;

    void operator()(const Table& table) const { object[table.title] = to_json(table); }
    void operator()(const Properties& properties) const {
        object[properties.title] = to_json(properties);
    }
    void operator()(const Pair& pair) const { object[pair.key] = to_json(pair.value); }
    void operator()(const Text& /*text*/) const {}
    void operator()(const Notes& notes) const { object[notes.data.title] = to_json(notes.data); }
    void operator()(const Group& group) const {
        auto list = Json::array();
        for (const auto& entry : group.entries) {
            auto element = Json::object();
            for (const auto& block : entry) {
                std::visit(BlockWriter{element}, block.item);
            }
            list.push_back(std::move(element));
        }
        object[group.key] = std::move(list);
    }
};

std::string scalar(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print(std::string& out, const Json& value, std::size_t depth) {
    if (!value.is_structured()) {
        out += scalar(value);
        return;
    }
    const char open = value.is_array() ? '[' : '{';
    const char close = value.is_array() ? ']' : '}';
    out += open;
    bool first = true;
    for (const auto& [key, item] : value.items()) {
        out += first ? "\n" : ",\n";
        first = false;
        out.append(depth + 1, '\t');
        if (value.is_object()) {
            out += scalar(Json(key)) + " : ";
        }
        print(out, item, depth + 1);
    }
    if (!first) {
        out += '\n';
        out.append(depth, '\t');
    }
    out += close;
}

Json reply_json(const Reply& reply, const Header& header) {
    auto status = Json::object();
    status["CLI Version"] = header.cli_version;
    status["Operating system"] = header.operating_system;
    if (!reply.controller) {
        status["Status Code"] = exit_status({reply});
    } else if (reply.controller_is_number) {
        status["Controller"] = *reply.controller;
    } else {
        status["Controller"] = std::to_string(*reply.controller);
    }
    status["Status"] = reply.error ? "Failure" : "Success";
    status["Description"] =
        reply.error && !reply.description_is_final ? reply.error->message : reply.description;
    if (reply.detailed_status) {
        status["Detailed Status"] = to_json(*reply.detailed_status);
    }
    auto object = Json::object();
    object["Command Status"] = std::move(status);
    auto data = Json::object();
    for (const auto& block : reply.blocks) {
        std::visit(BlockWriter{data}, block.item);
    }
    if (!data.empty()) {
        object["Response Data"] = std::move(data);
    }
    return object;
}

}  // namespace

std::string render_json(const std::vector<Reply>& replies, const Header& header) {
    // The outer frame is not indented: the vendor's printer begins counting inside it.
    std::string out = "{\n\"Controllers\":[\n";
    for (std::size_t i = 0; i < replies.size(); ++i) {
        print(out, reply_json(replies[i], header), 0);
        out += i + 1 < replies.size() ? ",\n" : "\n";
    }
    return out + "]\n}\n\n";
}

}  // namespace perch::cli
