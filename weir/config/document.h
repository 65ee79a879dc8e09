// Document: a YAML text as a tree of plain nodes, each with its place.
//
// The tree is built from yaml-cpp's events, so nothing is ever expanded, and
// reading stops where nesting passes kNestingMax. Anchors, aliases and tags are
// refused: a configuration has no use for them, and a few lines of aliases can
// stand for billions of nodes.
//
// `${NAME}` in a value stands for what the environment has under that name. It is put in
// after the text was parsed, so it is text whatever it holds, never another key or line.
// `$${` is a `${` that stays. Messages show the name, not the value.
//
// Thread safety: none needed; a node is plain data.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/config/config.h"
#include "weir/config/mistakes.h"

namespace weir::config {

struct Entry;

struct TreeNode {
  enum class Kind : std::uint8_t { kNull, kText, kList, kMap };

  Kind kind = Kind::kNull;
  Place place{};
  std::string text{};           // of kText
  std::string written{};        // of kText that names variables: as it stands in the file
  std::vector<TreeNode> items;  // of kList
  std::vector<Entry> entries;   // of kMap, in the order of the file

  // Out of line, where Entry is complete.
  TreeNode();
  TreeNode(Kind kind_of, Place at, std::string text_of = {});

  // The first entry with this key, or nullptr.
  const Entry* find(std::string_view key) const noexcept;

  // What it is, for messages: `'text'`, `empty`, `a list`, `a map`.
  std::string shown() const;
};

struct Entry {
  std::string key{};
  Place place{};             // of the key
  bool is_repeated = false;  // the same key stands before it in the same map
  TreeNode value{};
};

// The one document of `text`. Nothing if it is not well formed, not text, or
// beyond a bound of config.h; `mistakes` then has the reason.
std::optional<TreeNode> parse_document(std::string_view text, Mistakes& mistakes,
                                       const ReadVariable& read_variable = {});

}  // namespace weir::config
