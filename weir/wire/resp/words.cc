#include "weir/wire/resp/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/engine/rule_set.h"

namespace weir::wire::resp {
namespace {

constexpr std::string_view kWant = "want";

Error bad_word(std::string message) { return bad_argument("BADARG " + std::move(message)); }

}  // namespace

bool is_word(std::string_view word, std::string_view expected) noexcept {
  return word.size() == expected.size() &&
         std::equal(word.begin(), word.end(), expected.begin(), [](char a, char b) {
           const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : int{c}; };
           return upper(a) == upper(b);
         });
}

void AskPool::begin(std::size_t words) {
  attributes_.clear();
  costs_.clear();
  attributes_.reserve(words);
  costs_.reserve(words);
}

Result<engine::Cost> AskPool::read_cost(std::string_view word, const engine::RuleSet& rules) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    return bad_word(fmt::format(
        "cost {} has no amount, but it must be UNIT=AMOUNT; write one such as tokens=1200",
        in_quotes(word)));
  }
  const std::string_view unit = word.substr(0, equals);
  const std::size_t place = rules.units().find(unit);
  if (place == rules.units().size()) {
    return bad_word(fmt::format("unit {} is unknown; known are {}; correct the name",
                                in_quotes(unit), rules.units().joined()));
  }
  Result<std::int64_t> amount = engine::parse_amount(fmt::format("cost in {}", in_quotes(unit)),
                                                     word.substr(equals + 1), rules.scale(place));
  if (!amount) return bad_word(amount.error().message);
  return engine::Cost{unit, *amount};
}

Status AskPool::read_option(Words& words, const engine::RuleSet& rules, Instant now,
                            engine::Ask& ask) {
  const std::string_view name = words[0];
  const auto value = [&]() -> Result<std::string_view> {
    if (words.size() >= 2) return words[1];
    return bad_word(
        fmt::format("{} stands last, but a value must follow it; write one", in_quotes(name)));
  };
  const auto duration = [&](Duration& into) -> Status {
    const Result<std::string_view> text = value();
    if (!text) return text.error();
    const Result<Duration> read = engine::parse_duration(name, *text);
    if (!read) return bad_word(read.error().message);
    into = *read;
    return Done{};
  };
  if (is_word(name, "COST")) {
    const Result<std::string_view> text = value();
    if (!text) return text.error();
    // Attributes are over, so what has an equals sign is one cost more.
    do {
      const Result<engine::Cost> cost = read_cost(words[1], rules);
      if (!cost) return cost.error();
      costs_.push_back(*cost);
      words = words.subspan(1);
    } while (words.size() > 1 && words[1].find('=') != std::string_view::npos);
    words = words.subspan(1);
    return Done{};
  } else if (is_word(name, "HOLD")) {
    if (Status status = duration(ask.hold); !status) return status;
  } else if (is_word(name, "WAIT")) {
    Duration wait{};
    if (Status status = duration(wait); !status) return status;
    ask.wait_until = wait.count() > 0 ? now + wait : Instant{};
  } else if (is_word(name, "BOOK")) {
    if (Status status = duration(ask.book_within); !status) return status;
  } else if (is_word(name, "UPTO")) {
    const Result<std::string_view> text = value();
    if (!text) return text.error();
    if (!ask.up_to.empty()) {
      return bad_word("UPTO is there twice, or with want=; write one of them");
    }
    ask.up_to = *text;
  } else {
    return bad_word(fmt::format(
        "{} is neither NAME=VALUE nor one of COST, HOLD, WAIT, UPTO, BOOK; write attributes "
        "first, then options",
        in_quotes(name)));
  }
  words = words.subspan(2);
  return Done{};
}

// `want=20` is COST requests=20 UPTO requests.
Status AskPool::read_want(std::string_view text, engine::Ask& ask) {
  const Result<std::int64_t> count = engine::parse_count(kWant, text, 1, kTermMax);
  if (!count) return bad_word(count.error().message);
  if (!ask.up_to.empty()) return bad_word("want is there twice; write it once");
  costs_.push_back({engine::kRequests, *count});
  ask.up_to = engine::kRequests;
  return Done{};
}

Result<engine::Ask> AskPool::read(Words words, const engine::RuleSet& rules, Instant now) {
  engine::Ask ask;
  const std::size_t first_attribute = attributes_.size();
  const std::size_t first_cost = costs_.size();
  while (!words.empty()) {
    const std::size_t equals = words[0].find('=');
    if (equals == std::string_view::npos) break;
    const engine::Attribute attribute{words[0].substr(0, equals), words[0].substr(equals + 1)};
    words = words.subspan(1);
    // A rule set may have an attribute of that name.
    if (attribute.name == kWant && rules.attributes().find(kWant) == rules.attributes().size()) {
      if (Status status = read_want(attribute.value, ask); !status) {
        return std::move(status).error();
      }
      continue;
    }
    attributes_.push_back(attribute);
  }
  while (!words.empty()) {
    if (Status status = read_option(words, rules, now, ask); !status) {
      return std::move(status).error();
    }
  }
  ask.request = {std::span(attributes_).subspan(first_attribute),
                 std::span(costs_).subspan(first_cost)};
  return ask;
}

Result<std::vector<std::string_view>> read_key(Words words, const engine::RuleSet& rules) {
  const std::string_view limit = words[0];
  const engine::Rule* const rule = rules.find(limit);
  if (rule == nullptr) {
    return Error{
        ErrorCode::kNotFound,
        fmt::format("limit {}: there is no such limit; correct the name", in_quotes(limit))};
  }
  std::string form;  // what must be written, for the errors
  for (const std::size_t attribute : rule->per) {
    form += fmt::format(" {}=VALUE", rules.attributes()[attribute]);
  }
  std::vector<std::string_view> values(rule->per.size());
  std::vector<bool> given(rule->per.size());
  for (const std::string_view word : words.subspan(1)) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, std::min(equals, word.size()));
    std::size_t place = 0;
    while (place < rule->per.size() && rules.attributes()[rule->per[place]] != name) ++place;
    if (equals == std::string_view::npos || place == rule->per.size() || given[place]) {
      return bad_argument(
          fmt::format("limit {}: {} is not part of its key, or there twice; write {}{}",
                      in_quotes(limit), in_quotes(word), limit, form));
    }
    values[place] = word.substr(equals + 1);
    given[place] = true;
  }
  const auto missing = std::find(given.begin(), given.end(), false);
  if (missing != given.end()) {
    const std::size_t place = rule->per[static_cast<std::size_t>(missing - given.begin())];
    return bad_argument(fmt::format("limit {}: '{}' is missing from the key; write {}{}",
                                    in_quotes(limit), rules.attributes()[place], limit, form));
  }
  return values;
}

}  // namespace weir::wire::resp
