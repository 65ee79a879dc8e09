// JSON Schema, as far as the schemas here use it: whether a value is as it is described.
//
// A keyword that is not known here is a mistake, never ignored. And what is described is
// all there is: a member that no schema names is a mistake too, unless
// `additionalProperties` says otherwise, so a description cannot fall behind what it
// describes.
//
// Thread safety: a JsonSchemas is immutable once it is made.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>

namespace weir {

class JsonSchemas {
 public:
  using Value = boost::json::value;
  using Object = boost::json::object;

  // `document`: what `$ref` points into. All its patterns are read here.
  explicit JsonSchemas(Value document) : document_(std::move(document)) {
    read_patterns(document_);
  }

  const Value& document() const noexcept { return document_; }

  // The schema itself, not a reference to one.
  const Object& resolved(const Value& schema) const {
    const Object* object = &schema.as_object();
    while (const Value* const reference = object->if_contains("$ref")) {
      object =
          &document_.at_pointer(std::string_view(reference->as_string()).substr(1)).as_object();
    }
    return *object;
  }

  // Why `value` is not as `schema` says, and where; empty: it is, with and without the rule
  // that what is described is all there is.
  std::string mismatch(const Value& schema, const Value& value) const {
    std::string why = mismatch(schema, value, "$", Members::kDescribed);
    return why.empty() ? mismatch(schema, value, "$", Members::kAny) : why;
  }

  static bool knows(std::string_view keyword) {
    return is_note(keyword) || std::ranges::find(kKeywords, keyword) != std::end(kKeywords);
  }

 private:
  enum class Members : bool { kDescribed, kAny };

  std::string mismatch(const Value& schema, const Value& value, const std::string& where,
                       Members allowed) const {
    for (const auto& [keyword, says] : schema.as_object()) {
      std::string why = mismatch_of(keyword, says, schema.as_object(), value, where, allowed);
      if (!why.empty()) return why;
    }
    return {};
  }

  static constexpr std::string_view kKeywords[] = {
      "$ref",    "type",    "properties", "required",  "additionalProperties",
      "items",   "oneOf",   "anyOf",      "enum",      "const",
      "pattern", "format",  // of `format`: date-time only
      "minimum", "maximum", "minLength",  "maxLength", "minItems",
      "maxItems"};

  // What tells people something, and a checker nothing.
  static bool is_note(std::string_view keyword) {
    return keyword == "description" || keyword == "examples" || keyword == "title";
  }

  static std::string text_of(const Value& value) {
    return boost::json::serialize(value).substr(0, 200);
  }

  static bool is_integer(const Value& value) {
    if (value.is_int64() || value.is_uint64()) return true;
    return value.is_double() && std::trunc(value.as_double()) == value.as_double();
  }

  static bool is_of_type(std::string_view type, const Value& value) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_bool();
    if (type == "integer") return is_integer(value);
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    return type == "object" && value.is_object();
  }

  static std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
  }

  // The size that a bound of this name is about; nothing: it is about other kinds of values.
  static std::optional<double> bounded(std::string_view keyword, const Value& value) {
    if (keyword.ends_with("imum")) {
      return value.is_number() ? std::optional(value.to_number<double>()) : std::nullopt;
    }
    if (keyword.ends_with("Length") && value.is_string()) {
      return static_cast<double>(characters(value.as_string()));
    }
    if (keyword.ends_with("Items") && value.is_array()) {
      return static_cast<double>(value.as_array().size());
    }
    return std::nullopt;
  }

  std::string mismatch_of(std::string_view keyword, const Value& says, const Object& schema,
                          const Value& value, const std::string& where, Members allowed) const {
    const auto wrong = [&](std::string_view expected) {
      return fmt::format("{} is {}, but it must be {}", where, text_of(value), expected);
    };
    if (is_note(keyword)) return {};
    if (!knows(keyword)) return fmt::format("{}: keyword '{}' is unknown", where, keyword);
    if (keyword == "$ref") {
      const std::string_view pointer = std::string_view(says.as_string()).substr(1);
      return mismatch(document_.at_pointer(pointer), value, where, allowed);
    }
    if (keyword == "type") {
      const auto is = [&](const Value& type) { return is_of_type(type.as_string(), value); };
      const bool fits = says.is_array() ? std::ranges::any_of(says.as_array(), is) : is(says);
      return fits ? "" : wrong(text_of(says));
    }
    if (keyword == "enum") {
      return std::ranges::count(says.as_array(), value) > 0 ? "" : wrong(text_of(says));
    }
    if (keyword == "const") return says == value ? "" : wrong(text_of(says));
    if (keyword == "oneOf" || keyword == "anyOf")
      return choice(keyword, says, value, where, allowed);
    if (keyword == "pattern" || keyword == "format") {
      if (!value.is_string()) return {};
      const std::string_view pattern =
          keyword == "pattern" ? std::string_view(says.as_string()) : kDateTime;
      if (keyword == "format" && says != "date-time") return wrong("of a format that is known");
      return std::regex_search(std::string(value.as_string()), patterns_.find(pattern)->second)
                 ? ""
                 : wrong(pattern);
    }
    if (keyword == "items") {
      if (!value.is_array()) return {};
      std::size_t place = 0;
      for (const Value& item : value.as_array()) {
        std::string why = mismatch(says, item, fmt::format("{}[{}]", where, place++), allowed);
        if (!why.empty()) return why;
      }
      return {};
    }
    if (keyword.starts_with("min") || keyword.starts_with("max")) {
      const std::optional<double> size = bounded(keyword, value);
      if (!size) return {};
      const double bound = says.to_number<double>();
      const bool fits = keyword.starts_with("min") ? *size >= bound : *size <= bound;
      return fits ? "" : wrong(fmt::format("{} {}", keyword, bound));
    }
    return members(keyword, says, schema, value, where, allowed);
  }

  std::string choice(std::string_view keyword, const Value& says, const Value& value,
                     const std::string& where, Members allowed) const {
    std::size_t fitting = 0;
    std::string reasons;
    for (const Value& one : says.as_array()) {
      const std::string why = mismatch(one, value, where, allowed);
      fitting += why.empty() ? 1 : 0;
      reasons += "\n  or: " + why;
    }
    if (keyword == "oneOf" ? fitting == 1 : fitting > 0) return {};
    return fmt::format("{} is as {} of the {} choices{}", where, fitting, says.as_array().size(),
                       reasons);
  }

  std::string members(std::string_view keyword, const Value& says, const Object& schema,
                      const Value& value, const std::string& where, Members allowed) const {
    if (!value.is_object()) return {};
    const Object& object = value.as_object();
    if (keyword == "required") {
      for (const Value& name : says.as_array()) {
        if (!object.contains(name.as_string())) {
          return fmt::format("{} has no '{}': {}", where, std::string_view(name.as_string()),
                             text_of(value));
        }
      }
      return {};
    }
    if (keyword == "additionalProperties" && schema.contains("properties")) return {};
    const Value* const others = schema.if_contains("additionalProperties");
    const Object* const known = keyword == "properties" ? &says.as_object() : nullptr;
    for (const auto& [name, member] : object) {
      const Value* const own = known == nullptr ? nullptr : known->if_contains(name);
      const Value* const its = own != nullptr ? own : others;
      const std::string at = fmt::format("{}.{}", where, std::string_view(name));
      if (its == nullptr && allowed == Members::kAny) continue;
      if (its == nullptr || (its->is_bool() && !its->as_bool())) {
        return at + " is described nowhere";
      }
      if (its->is_bool()) continue;
      std::string why = mismatch(*its, member, at, allowed);
      if (!why.empty()) return why;
    }
    return {};
  }

  void read_patterns(const Value& value) {
    patterns_.try_emplace(std::string(kDateTime), std::string(kDateTime));
    if (const Object* const object = value.if_object()) {
      for (const auto& [name, member] : *object) {
        if (name == "pattern" && member.is_string()) {
          const std::string pattern(member.as_string());
          patterns_.try_emplace(pattern, pattern);
        }
        read_patterns(member);
      }
    } else if (const auto* const list = value.if_array()) {
      for (const Value& element : *list) read_patterns(element);
    }
  }

  static constexpr std::string_view kDateTime = R"(^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$)";

  const Value document_;
  std::map<std::string, std::regex, std::less<>> patterns_;
};

}  // namespace weir
