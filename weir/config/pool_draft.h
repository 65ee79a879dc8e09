// What the readers of `pools:` share. Internal to this folder.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "weir/config/draft.h"

namespace weir::config {

// Ratios and prices are doubles, as in the published rules.
inline void read_number(const Entry& entry, Context& context, double most, std::string_view example,
                        double& out) {
  if (!check_text(entry.value, entry.key, context)) return;
  const std::string& text = entry.value.text;
  double number = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || !std::isfinite(number) ||
      text.starts_with('-') || number > most) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be a number from 0 to {}; write one such as "
                                "{}",
                                entry.key, in_quotes(text), most, example));
    return;
  }
  out = number;
}

template <auto Member, typename Target>
void part_at(const Entry& entry, Context& context, Target& target) {
  read_number(entry, context, 1, "0.25", target.*Member);
}

// A number that may be left out.
inline void read_limit(const Entry& entry, Context& context, std::int64_t least, std::int64_t most,
                       std::optional<std::int64_t>& out) {
  std::int64_t number = 0;
  const std::size_t before = context.mistakes.count();
  read_count(entry, context, least, most, number);
  if (context.mistakes.count() == before) out = number;
}

// A list of maps, each with a name of its own. `shown` names the elements in mistakes.
template <typename Target>
void read_named_list(const Entry& entry, Context& context, std::string_view shown,
                     std::string_view form, std::size_t most, std::span<const Key<Target>> keys,
                     std::vector<Target>& out, std::vector<Place>& places) {
  if (!check_kind(entry, TreeNode::Kind::kList, fmt::format("[{}]", form), context)) return;
  const std::vector<TreeNode>& items = entry.value.items;
  if (items.empty() || items.size() > most) {
    context.mistake(entry.value.place,
                    fmt::format("{} has {} elements, but it must have 1 to {}; write '[{}]'",
                                entry.key, items.size(), most, form));
    return;
  }
  for (const TreeNode& item : items) {
    Context inner{context.mistakes, fmt::format("pools: {}", entry.key)};
    if (item.kind != TreeNode::Kind::kMap) {
      inner.mistake(item.place, fmt::format("a {} is {}, but it must be a map; write '{}'", shown,
                                            item.shown(), form));
      continue;
    }
    if (const Entry* name = item.find("name"); name != nullptr && !name->value.text.empty()) {
      inner.where = fmt::format("pools: {} {}", shown, in_quotes(name->value.text));
    }
    Target target{};
    read_map<Target>(item, keys, inner, target);
    const auto is_same = [&](const Target& other) { return other.name == target.name; };
    if (!target.name.empty() && std::ranges::any_of(out, is_same)) {
      inner.mistake(item.place, "its name is used before; write another one");
    }
    out.push_back(std::move(target));
    places.push_back(item.place);
  }
}

// The keys of a model, and of a job type.
std::span<const Key<system::pool::ModelSpec>> model_keys();
std::span<const Key<system::pool::JobType>> job_type_keys();
void list_pool_model_keys(std::vector<KeyHelp>& out);

// What shows only in the whole. Each part has been read without a mistake.
struct PoolDraft {
  PoolSettings pools{};
  std::vector<Place> model_places{};
  std::vector<Place> type_places{};
  const Entry* models = nullptr;
  const Entry* escalation = nullptr;
  const Entry* types = nullptr;
  const Entry* ratios = nullptr;
  const Entry* memory = nullptr;
  const Entry* hold = nullptr;
};
void check_pools(Place place, Context& context, const PoolDraft& draft);

}  // namespace weir::config
