#include "weir/config/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"

namespace weir::config {
namespace {

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

// What to write for a word that means yes or no elsewhere. Never the nearest word: 'on' is
// nearer to none of the two, and 'no' must not become 'true'.
std::string_view meant_flag(std::string_view text) {
  static constexpr std::string_view kYes[] = {"true", "yes", "on", "y", "1", "t"};
  static constexpr std::string_view kNo[] = {"false", "no", "off", "n", "0", "f"};
  std::string word(text);
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (std::find(std::begin(kYes), std::end(kYes), word) != std::end(kYes)) return "'true'";
  if (std::find(std::begin(kNo), std::end(kNo), word) != std::end(kNo)) return "'false'";
  return "one of them";
}

// `parse` turns a text into a value, or into an error that begins with the key.
template <typename Value, typename Parse>
void read_value(const Entry& entry, Context& context, Value& out, const Parse& parse) {
  if (!check_text(entry.value, entry.key, context)) return;
  const auto value = parse(entry.value.text);
  if (value) {
    out = *value;
  } else {
    context.mistake(entry.value.place, value.error().message);
  }
}

}  // namespace

bool check_text(const TreeNode& node, std::string_view what, Context& context) {
  if (node.kind != TreeNode::Kind::kText) {
    context.mistake(node.place, fmt::format("{} is {}, but it must be a single value; write one "
                                            "word, quoted if it is empty or 'null'",
                                            what, node.shown()));
    return false;
  }
  // The text is not shown: it may be a token.
  if (has_control(node.text)) {
    context.mistake(node.place, fmt::format("{} has a control character; write plain text", what));
    return false;
  }
  return true;
}

bool check_kind(const Entry& entry, TreeNode::Kind kind, std::string_view form, Context& context) {
  if (entry.value.kind == kind) return true;
  context.mistake(
      entry.value.place,
      fmt::format("{} is {}, but it must be {}; write '{}: {}'", entry.key, entry.value.shown(),
                  kind == TreeNode::Kind::kMap ? "a map" : "a list", entry.key, form));
  return false;
}

bool check_names(const TreeNode& map, Context& context) {
  const std::size_t before = context.mistakes.count();
  for (const Entry& entry : map.entries) {
    if (entry.is_repeated) {
      context.mistake(entry.place,
                      fmt::format("key {} is written twice; write it once", in_quotes(entry.key)));
    }
    if (entry.key.empty() || has_control(entry.key)) {
      context.mistake(entry.place,
                      fmt::format("key {} is not a name; write plain text", in_quotes(entry.key)));
    }
  }
  return context.mistakes.count() == before;
}

void read_text(const Entry& entry, Context& context, std::string& out) {
  if (!check_text(entry.value, entry.key, context)) return;
  if (entry.value.text.empty()) {
    context.mistake(entry.value.place,
                    fmt::format("{} is '', but it must not be empty; write a value, or leave out "
                                "the key",
                                entry.key));
    return;
  }
  out = entry.value.text;
}

void read_texts(const Entry& entry, Context& context, std::vector<std::string>& out) {
  if (entry.value.kind != TreeNode::Kind::kList) {
    if (check_text(entry.value, entry.key, context)) out = {entry.value.text};
    return;
  }
  if (entry.value.items.empty()) {
    context.mistake(entry.value.place,
                    fmt::format("{} is an empty list, but it must have a value; write one, or "
                                "leave out the key",
                                entry.key));
  }
  for (const TreeNode& item : entry.value.items) {
    if (check_text(item, entry.key, context)) out.push_back(item.text);
  }
}

void read_secret_file(const Entry& entry, Context& context, const ReadFile& read_file,
                      std::size_t bytes_max, std::string& out) {
  std::string path;
  read_text(entry, context, path);
  if (path.empty()) return;  // reported
  if (!read_file) {
    context.mistake(entry.value.place,
                    fmt::format("file {} is not read here, because no files are; load the "
                                "configuration from a file",
                                in_quotes(path)));
    return;
  }
  const Result<std::string> text = read_file(path);
  if (!text) {
    context.mistake(entry.value.place, text.error().message);
    return;
  }
  constexpr std::string_view kBlanks = " \t\r";
  std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
  if (line.empty() || line.size() > bytes_max) {
    context.mistake(entry.value.place,
                    fmt::format("{} has {} bytes in the first line of {}, but it must have 1 to "
                                "{}; put the secret alone there",
                                entry.key, line.size(), in_quotes(path), bytes_max));
    return;
  }
  if (has_control(line)) {
    context.mistake(entry.value.place,
                    fmt::format("{} has a control character in the first line of {}; put plain "
                                "text there",
                                entry.key, in_quotes(path)));
    return;
  }
  out = line;
}

void read_flag(const Entry& entry, Context& context, bool& out) {
  if (!check_text(entry.value, entry.key, context)) return;
  const std::string& text = entry.value.text;
  if (text == "true" || text == "false") {
    out = text == "true";
    return;
  }
  context.mistake(entry.value.place, fmt::format("{} is {}, but it must be true or false; write {}",
                                                 entry.key, in_quotes(text), meant_flag(text)));
}

void read_duration(const Entry& entry, Context& context, Duration& out) {
  read_value(entry, context, out,
             [&](std::string_view text) { return engine::parse_duration(entry.key, text); });
}

void read_span(const Entry& entry, Context& context, Duration& out) {
  read_value(entry, context, out,
             [&](std::string_view text) { return engine::parse_span(entry.key, text); });
}

void read_amount(const Entry& entry, Context& context, std::int64_t& out) {
  read_value(entry, context, out, [&](std::string_view text) {
    return engine::parse_amount(entry.key, text, context.scale);
  });
}

void read_count(const Entry& entry, Context& context, std::int64_t least, std::int64_t most,
                std::int64_t& out) {
  read_value(entry, context, out, [&](std::string_view text) {
    return engine::parse_count(entry.key, text, least, most);
  });
}

std::ptrdiff_t read_choice(const Entry& entry, Context& context,
                           std::span<const std::string_view> words) {
  if (!check_text(entry.value, entry.key, context)) return -1;
  const auto found = std::find(words.begin(), words.end(), entry.value.text);
  if (found != words.end()) return found - words.begin();
  // One that is not near is not advised: it may say the opposite.
  const std::string_view meant =
      words.size() == 1 ? words.front() : nearest(entry.value.text, words);
  context.mistake(entry.value.place,
                  fmt::format("{} is {}, but it must be one of {}; write {}", entry.key,
                              in_quotes(entry.value.text), joined(words),
                              meant.empty() ? "one of them" : fmt::format("'{}'", meant)));
  return -1;
}

void check_keys(const TreeNode& map, std::span<const std::string_view> known, Context& context) {
  for (const Entry& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      const std::string_view meant = nearest(entry.key, known);
      context.mistake(entry.place, fmt::format("key {} is unknown, but it must be one of {}; {}",
                                               in_quotes(entry.key), joined(known),
                                               meant.empty() ? "write one of them, or leave it out"
                                                             : fmt::format("write '{}'", meant)));
    } else if (entry.is_repeated) {
      context.mistake(entry.place,
                      fmt::format("key '{}' is written twice; write it once", entry.key));
    }
  }
}

std::string named_item(std::string_view what, const TreeNode& item, std::size_t number) {
  const Entry* name = item.find("name");
  if (name == nullptr || name->value.text.empty()) return fmt::format("{} {}", what, number);
  return fmt::format("{} {}", what, in_quotes(name->value.text));
}

}  // namespace weir::config
