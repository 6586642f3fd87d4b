// SPDX-License-Identifier: GPL-2.0-or-later
// nlohmann-json 3.11 has no std::optional support: absent is JSON null here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

template <typename T>
struct nlohmann::adl_serializer<std::optional<T>> {
    static void to_json(json& j, const std::optional<T>& value) {
        if (value) {
            j = *value;
        } else {
            j = nullptr;
        }
    }
    static void from_json(const json& j, std::optional<T>& value) {
        if (j.is_null()) {
            value.reset();
        } else {
            value = j.get<T>();
        }
    }
};
