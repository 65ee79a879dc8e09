#include "weir/config/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>
#include <utility>

#include "weir/config/config.h"

namespace weir::config {
namespace {

constexpr std::string_view kWhere = "file";
constexpr std::string_view kVariable = "${";
constexpr std::string_view kNoAliases =
    "anchors ('&') and aliases ('*') are not read; write the value out, or quote it if it begins "
    "with such a sign";

Place place_of(const YAML::Mark& mark) {
  return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

// Leaves the parser's recursion; never leaves this file.
struct Refused : std::exception {
  Refused(const YAML::Mark& mark, std::string why) : place(place_of(mark)), what(std::move(why)) {}

  Place place;
  std::string what;
};

class Builder final : public YAML::EventHandler {
 public:
  std::optional<TreeNode> root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root)
      throw Refused(mark,
                    "the document has ended before this; write one map, and nothing after it");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_extras(mark, "", anchor);
    add({TreeNode::Kind::kNull, place_of(mark)}, mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_alias(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_extras(mark, tag, anchor);
    add({TreeNode::Kind::kText, place_of(mark), value}, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_extras(mark, tag, anchor);
    open(TreeNode::Kind::kList, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_extras(mark, tag, anchor);
    open(TreeNode::Kind::kMap, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    TreeNode node;
    YAML::Mark mark;
    bool awaits_value = false;     // of the last entry of a map
    std::set<std::string> keys{};  // of a map, so far
  };

  static void refuse_alias(const YAML::Mark& mark) { throw Refused(mark, std::string(kNoAliases)); }
  // yaml-cpp gives plain scalars the tag '?' and quoted ones '!'.
  static void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) refuse_alias(mark);
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refused(mark, fmt::format("tag {} is not read; leave it out", in_quotes(tag)));
    }
  }

  void open(TreeNode::Kind kind, const YAML::Mark& mark) {
    if (stack_.size() == kNestingMax) {
      throw Refused(mark, fmt::format("lists and maps are nested deeper than {} levels; write the "
                                      "file flatter",
                                      kNestingMax));
    }
    stack_.push_back({.node = {kind, place_of(mark)}, .mark = mark});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(frame.node), frame.mark);
  }

  void add(TreeNode node, const YAML::Mark& mark) {
    if (stack_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.kind == TreeNode::Kind::kList) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.awaits_value) {
      frame.awaits_value = false;
      Entry& entry = frame.node.entries.back();
      // The mark of a value that is not there is wherever the parser noticed.
      if (node.kind == TreeNode::Kind::kNull) node.place = entry.place;
      entry.value = std::move(node);
    } else {
      add_key(frame, std::move(node), mark);
    }
  }

  static void add_key(Frame& frame, TreeNode key, const YAML::Mark& mark) {
    if (key.kind != TreeNode::Kind::kText) {
      throw Refused(
          mark, fmt::format("a key is {}, but it must be a word; write 'key: value'", key.shown()));
    }
    const bool is_repeated = !frame.keys.insert(key.text).second;
    frame.node.entries.push_back(
        {.key = std::move(key.text), .place = key.place, .is_repeated = is_repeated});
    frame.awaits_value = true;
  }

  std::vector<Frame> stack_;
};

// A pattern such as *-internal, left unquoted, is a broken alias to the parser.
std::string reason(const YAML::Exception& error) {
  const std::string_view why = error.msg;
  if (why.find("alias") != why.npos || why.find("anchor") != why.npos) {
    return std::string(kNoAliases);
  }
  return fmt::format("it is not YAML here ({}); write 'key: value' lines, indented by spaces", why);
}

// Bytes of the character that begins `text`; 0 if it is not UTF-8, or a control
// character other than tab and the ends of lines. Overlong forms and surrogates
// are left to pass: they break nothing here.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    return (first >= 0x20 && first != 0x7f) || first == '\t' || first == '\n' || first == '\r';
  }
  std::size_t bytes = 0;
  if (first >= 0xC2 && first < 0xE0) bytes = 2;
  if (first >= 0xE0 && first < 0xF0) bytes = 3;
  if (first >= 0xF0 && first < 0xF5) bytes = 4;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return bytes;
}

// Refuses what is not text before a parser sees it.
bool is_text(std::string_view text, Mistakes& mistakes) {
  Place place;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      mistakes.add(place, kWhere,
                   fmt::format("byte 0x{:02x} is not text; write the file as UTF-8",
                               static_cast<unsigned char>(text[0])));
      return false;
    }
    place.column += static_cast<int>(bytes);
    if (text[0] == '\n') place = {place.line + 1, 1};
    text.remove_prefix(bytes);
  }
  return true;
}

// Whether `value` is text, for what comes from elsewhere than the file.
bool is_text(std::string_view value) {
  while (!value.empty()) {
    const std::size_t bytes = character_bytes(value);
    if (bytes == 0) return false;
    value.remove_prefix(bytes);
  }
  return true;
}

// Puts what the environment has into the values of a tree.
class Variables {
 public:
  Variables(const ReadVariable& read, Mistakes& mistakes) : read_(read), mistakes_(mistakes) {}

  // The tree is no deeper than kNestingMax.
  void expand(TreeNode& node) {
    if (node.kind == TreeNode::Kind::kText && node.text.find(kVariable) != node.text.npos) {
      expand_text(node);
    }
    for (TreeNode& item : node.items) expand(item);
    for (Entry& entry : node.entries) expand(entry.value);
  }

 private:
  static bool is_name(std::string_view name) {
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    return !name.empty() && is_letter(name[0]) &&
           std::all_of(name.begin(), name.end(),
                       [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  }

  void expand_text(TreeNode& node) {
    const std::size_t before = mistakes_.count();
    std::string expanded;
    std::string_view left = node.text;
    for (std::size_t at; (at = left.find(kVariable)) != left.npos;) {
      if (at > 0 && left[at - 1] == '$') {
        expanded += left.substr(0, at - 1);
        expanded += kVariable;
        left.remove_prefix(at + kVariable.size());
        continue;
      }
      const std::size_t end = left.find('}', at);
      const std::string_view name = end == left.npos ? "" : left.substr(at + 2, end - at - 2);
      const std::optional<std::string> value = value_of(name, node.place);
      if (!value) break;
      expanded += left.substr(0, at);
      expanded += *value;
      left.remove_prefix(end + 1);
    }
    expanded += left;
    node.written = std::exchange(node.text, std::move(expanded));
    mistakes_.hide(node.place, node.text, node.written);
    if (mistakes_.count() > before) mistakes_.silence(node.place);
  }

  // None: a mistake has been reported.
  std::optional<std::string> value_of(std::string_view name, Place place) {
    const auto refuse = [&](std::string_view what) {
      mistakes_.add(place, kWhere, what);
      return std::nullopt;
    };
    if (!is_name(name)) {
      return refuse(
          "'${' begins the name of a variable, but no name of letters, digits and '_' and no '}' "
          "follow; write '${NAME}', or '$${' for the two signs themselves");
    }
    if (!read_) {
      return refuse(fmt::format("variable {} is not read here; load the configuration from a file",
                                in_quotes(name)));
    }
    if (++named_ > kVariablesMax) {
      return refuse(
          fmt::format("it names more than {} variables; write some values out", kVariablesMax));
    }
    std::optional<std::string> value = read_(std::string(name));
    if (!value) {
      return refuse(
          fmt::format("variable {} is not set; set it in the environment, or write "
                      "'$${{' for the two signs themselves",
                      in_quotes(name)));
    }
    if (value->size() > kVariableBytesMax - std::min(taken_, kVariableBytesMax)) {
      return refuse(
          fmt::format("variable {} has {} bytes, but all that a file names have at most "
                      "{}; set a shorter value",
                      in_quotes(name), value->size(), kVariableBytesMax));
    }
    taken_ += value->size();
    if (!is_text(*value)) {
      return refuse(fmt::format("variable {} holds bytes that are not text; set it to UTF-8",
                                in_quotes(name)));
    }
    return value;
  }

  const ReadVariable& read_;
  Mistakes& mistakes_;
  std::size_t named_ = 0;
  std::size_t taken_ = 0;  // bytes of values
};

}  // namespace

TreeNode::TreeNode() = default;
TreeNode::TreeNode(Kind kind_of, Place at, std::string text_of)
    : kind(kind_of), place(at), text(std::move(text_of)) {}

const Entry* TreeNode::find(std::string_view key) const noexcept {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string TreeNode::shown() const {
  switch (kind) {
    case Kind::kNull:
      return "empty";
    case Kind::kText:
      return in_quotes(written.empty() ? text : written);
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      break;
  }
  return "a map";
}

std::optional<TreeNode> parse_document(std::string_view text, Mistakes& mistakes,
                                       const ReadVariable& read_variable) {
  if (text.size() > kFileBytesMax) {
    mistakes.add({}, kWhere,
                 fmt::format("it has {} bytes, but at most {} are read; write a smaller one",
                             text.size(), kFileBytesMax));
    return std::nullopt;
  }
  if (!is_text(text, mistakes)) return std::nullopt;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder;
    while (parser.HandleNextDocument(builder)) {
    }
    if (!builder.root) return TreeNode{};
    Variables(read_variable, mistakes).expand(*builder.root);
    return std::move(builder.root);
  } catch (const Refused& refused) {
    mistakes.add(refused.place, kWhere, refused.what);
  } catch (const YAML::Exception& error) {
    std::string why = reason(error);
    if (text.find(kVariable) != text.npos) why += "; quote '${NAME}' between braces";
    mistakes.add(place_of(error.mark), kWhere, why);
  }
  return std::nullopt;
}

}  // namespace weir::config
