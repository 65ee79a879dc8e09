// Keys: the settings of a map as rows of a table, and readers of single values.
//
// A row names a key, reads its value into a target and says in a line what it is
// for. read_map() goes through the rows, so everything about unknown, repeated
// and missing keys is settled here. The reference page is made of the rows, too.
//
//   constexpr Key<StateSettings> kStateKeys[] = {
//       {"dir", text_at<&StateSettings::dir>, "path", "Folder of the state.", kRequired}, ...};

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/time.h"
#include "weir/config/config.h"
#include "weir/config/document.h"
#include "weir/config/mistakes.h"
#include "weir/engine/rules.h"

namespace weir::config {

// Where in the file a reader is.
struct Context {
  Mistakes& mistakes;
  std::string where;                                    // first words of its mistakes
  engine::UnitScale scale = engine::UnitScale::kWhole;  // of the amounts read here

  void mistake(Place place, std::string_view what) { mistakes.add(place, where, what); }
};

constexpr bool kRequired = true;

// Rows are read in the order of the table, not of the file, so that a row may
// rely on those before it.
template <typename Target>
struct Key {
  std::string_view name;
  void (*read)(const Entry& entry, Context& context, Target& target);
  std::string_view form;
  std::string_view help;
  bool is_required = false;
};

// --- single values; each reports what is wrong and then leaves `out` alone

void read_text(const Entry& entry, Context& context, std::string& out);
void read_flag(const Entry& entry, Context& context, bool& out);
void read_duration(const Entry& entry, Context& context, Duration& out);
void read_span(const Entry& entry, Context& context, Duration& out);  // the same from 0 on
void read_amount(const Entry& entry, Context& context, std::int64_t& out);
void read_count(const Entry& entry, Context& context, std::int64_t least, std::int64_t most,
                std::int64_t& out);

// A text, or a list of at least one.
void read_texts(const Entry& entry, Context& context, std::vector<std::string>& out);

// The place in `words` of the text, or -1.
std::ptrdiff_t read_choice(const Entry& entry, Context& context,
                           std::span<const std::string_view> words);

// The first line of the file that is named, without blanks around it: a secret, which no
// message shows.
void read_secret_file(const Entry& entry, Context& context, const ReadFile& read_file,
                      std::size_t bytes_max, std::string& out);

// Reports anything but a text without control characters.
bool check_text(const TreeNode& node, std::string_view what, Context& context);

// Reports a value that is not of `kind`; `form` is what to write.
bool check_kind(const Entry& entry, TreeNode::Kind kind, std::string_view form, Context& context);

// Reports repeated keys of a map whose keys are free, and keys that are not names.
bool check_names(const TreeNode& map, Context& context);

// --- readers for rows, made from the member they fill

template <auto Member, typename Target>
void text_at(const Entry& entry, Context& context, Target& target) {
  read_text(entry, context, target.*Member);
}
template <auto Member, typename Target>
void texts_at(const Entry& entry, Context& context, Target& target) {
  read_texts(entry, context, target.*Member);
}
template <auto Member, typename Target>
void flag_at(const Entry& entry, Context& context, Target& target) {
  read_flag(entry, context, target.*Member);
}
template <auto Member, typename Target>
void duration_at(const Entry& entry, Context& context, Target& target) {
  read_duration(entry, context, target.*Member);
}
template <auto Member, typename Target>
void zero_or_span_at(const Entry& entry, Context& context, Target& target) {
  read_span(entry, context, target.*Member);
}
template <auto Member, typename Target>
void amount_at(const Entry& entry, Context& context, Target& target) {
  read_amount(entry, context, target.*Member);
}
template <auto Member, std::int64_t kLeast, std::int64_t kMost, typename Target>
void count_at(const Entry& entry, Context& context, Target& target) {
  auto count = static_cast<std::int64_t>(target.*Member);
  read_count(entry, context, kLeast, kMost, count);
  target.*Member = static_cast<std::remove_reference_t<decltype(target.*Member)>>(count);
}
// `words` in the order of the enumerators.
template <auto Member, const auto& kWords, typename Target>
void choice_at(const Entry& entry, Context& context, Target& target) {
  const std::ptrdiff_t place = read_choice(entry, context, kWords);
  using Choice = std::remove_reference_t<decltype(target.*Member)>;
  if (place >= 0) target.*Member = static_cast<Choice>(place);
}

// Of limits and pools that are shared, in the order of engine::Outage and OutagePolicy.
constexpr std::string_view kOutages[] = {"deny", "allow", "local"};

// --- maps

// Where a mistake lies: `limit 'calls'`, or `limit 3` as long as it has no name.
std::string named_item(std::string_view what, const TreeNode& item, std::size_t number);

// Reports keys that are unknown, with the one that was meant, or repeated.
void check_keys(const TreeNode& map, std::span<const std::string_view> known, Context& context);

template <typename Target>
void read_map(const TreeNode& map, std::span<const Key<Target>> keys, Context& context,
              Target& target) {
  std::vector<std::string_view> names;
  for (const Key<Target>& key : keys) names.push_back(key.name);
  check_keys(map, names, context);
  for (const Key<Target>& key : keys) {
    if (const Entry* entry = map.find(key.name)) {
      key.read(*entry, context, target);
    } else if (key.is_required) {
      context.mistake(map.place, std::string(key.name) + " is missing, but it is needed; write '" +
                                     std::string(key.name) + ": " + std::string(key.form) + "'");
    }
  }
}

template <typename Target>
void list_keys(std::string_view map, std::span<const Key<Target>> keys, std::vector<KeyHelp>& out) {
  for (const Key<Target>& key : keys) {
    out.push_back({map, key.name, key.form, key.help, key.is_required});
  }
}

}  // namespace weir::config
