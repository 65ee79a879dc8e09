#include "weir/wire/http/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "weir/base/hold_text.h"
#include "weir/engine/quantity.h"
#include "weir/engine/rule_set.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

bool read_attributes(Reader& in, AskBody& ask) {
  return in.map("attributes", [&](std::string_view name) {
    if (ask.attributes.size() == engine::kAttributesMax) {
      return in.fail(fmt::format("attributes has more than {} members; write those that limits use",
                                 engine::kAttributesMax));
    }
    std::string_view value;
    // The engine refuses a name that is given twice, or that no limit uses.
    if (!in.text({"attributes", name}, value)) return false;
    ask.attributes.push_back({name, value});
    return true;
  });
}

bool read_costs(Reader& in, const Scales& scales, Costs& costs) {
  return in.map("costs", [&](std::string_view unit) {
    const auto is_same = [&](const engine::Cost& cost) { return cost.unit == unit; };
    if (std::any_of(costs.begin(), costs.end(), is_same)) return in.repeated("costs", unit);
    if (costs.size() == engine::kUnitsMax) {
      return in.fail(fmt::format("costs has more than {} members; write those that limits count",
                                 engine::kUnitsMax));
    }
    std::int64_t amount = 0;
    if (!read_amount(in, {"costs", unit}, scales.of_unit(unit), amount)) return false;
    costs.push_back({unit, amount});
    return true;
  });
}

bool read_hold_id(Reader& in, HoldId& hold) {
  return read_id(in, "hold", "a hold", "a decision", hold);
}

// The first two are all that a peek knows.
constexpr Member<AskBody> kAskMembers[] = {
    {"attributes", read_attributes},
    {"costs", [](Reader& in, AskBody& ask) { return read_costs(in, ask.scales, ask.costs); }},
    {"hold", [](Reader& in, AskBody& ask) { return in.duration("hold", ask.hold); }},
    {"wait", [](Reader& in, AskBody& ask) { return in.duration("wait", ask.wait); }},
    {"up_to", [](Reader& in, AskBody& ask) { return in.text("up_to", ask.up_to); }},
    {"book_within",
     [](Reader& in, AskBody& ask) { return in.duration("book_within", ask.book_within); }},
};
constexpr std::size_t kPeekMembers = 2;

struct BatchBody {
  Batch batch{};
  std::size_t asks_max = 0;
  Scales scales{};
  bool has_requests = false;
};

bool read_requests(Reader& in, BatchBody& into) {
  into.has_requests = true;
  return in.list("requests", [&] {
    if (into.batch.asks.size() == into.asks_max) {
      into.batch.is_too_long = true;
      return false;
    }
    AskBody& ask = into.batch.asks.emplace_back();
    ask.scales = into.scales;
    return in.object<AskBody>("a request", kAskMembers, ask);
  });
}

constexpr Member<BatchBody> kBatchMembers[] = {{"requests", read_requests}};

constexpr Member<Settlement> kSettlementMembers[] = {
    {"hold", [](Reader& in, Settlement& into) { return read_hold_id(in, into.hold); }},
    {"costs", [](Reader& in, Settlement& into) { return read_costs(in, into.scales, into.costs); }},
};

constexpr Member<HoldId> kCancellationMembers[] = {{"hold", read_hold_id}};

constexpr Member<Renewal> kRenewalMembers[] = {
    {"hold", [](Reader& in, Renewal& into) { return read_hold_id(in, into.hold); }},
    {"ttl", [](Reader& in, Renewal& into) { return in.duration("ttl", into.ttl); }},
};

bool read_key(Reader& in, KeyName& into) {
  return in.list("key", [&] {
    if (into.key.size() == engine::kKeyAttributesMax) {
      return in.fail(
          fmt::format("key has more than {} values; write one for each attribute in the "
                      "limit's 'per'",
                      engine::kKeyAttributesMax));
    }
    return in.text("a value of the key", into.key.emplace_back());
  });
}

constexpr Member<KeyName> kKeyNameMembers[] = {
    {"limit", [](Reader& in, KeyName& into) { return in.text("limit", into.limit); }},
    {"key", read_key},
    {"holds", [](Reader& in, KeyName& into) { return in.flag("holds", into.and_holds); }},
};

Error missing(std::string_view member, std::string_view example) {
  return bad_argument(fmt::format("body: the member '{}' is missing; write {}", member, example));
}

Error missing_hold() { return missing("hold", "\"hold\":\"00000000000004d2-17\""); }

}  // namespace

Status check_body(std::string_view body) {
  if (body.empty())
    return bad_argument("body: it is empty, but it must be a JSON object; write {}");
  if (body.size() > kBodyBytesMax) {
    return bad_argument(
        fmt::format("body: it is {} bytes long, but at most {} are read; write less", body.size(),
                    kBodyBytesMax));
  }
  return check_utf8("body", body);
}

Status check_utf8(std::string_view what, std::string_view text) {
  const std::size_t bad = find_not_utf8(text);
  if (bad == std::string_view::npos) return Done{};
  return bad_argument(
      fmt::format("{}: byte {} is 0x{:02x}, which is not UTF-8 there; write JSON in UTF-8", what,
                  bad + 1, static_cast<unsigned char>(text[bad])));
}

engine::UnitScale Scales::of_unit(std::string_view unit) const {
  if (engine_ == nullptr || unit == engine::kRequests) return engine::UnitScale::kWhole;
  const std::shared_ptr<const engine::RuleSet> rules = engine_->rules();
  const std::size_t place = rules->units().find(unit);
  return place == rules->units().size() ? engine::UnitScale::kWhole : rules->scale(place);
}

engine::UnitScale Scales::of_limit(std::string_view limit) const {
  if (engine_ == nullptr) return engine::UnitScale::kWhole;
  const std::shared_ptr<const engine::RuleSet> rules = engine_->rules();
  const engine::Rule* const rule = rules->find(limit);
  return rule == nullptr ? engine::UnitScale::kWhole : rules->scale(rule->unit);
}

bool read_between(Reader& in, const What& what, std::int64_t least, std::int64_t most,
                  std::int64_t& value) {
  std::int64_t read = 0;
  if (!in.integer(what, read)) return false;
  if (read < least || read > most) {
    return in.wrong(what, fmt::format("{}", read), fmt::format("from {} to {}", least, most),
                    "a number in that range");
  }
  value = read;
  return true;
}

bool read_natural(Reader& in, const What& what, std::int64_t& value) {
  if (!in.integer(what, value)) return false;
  if (value >= 0) return true;
  return in.wrong(what, fmt::format("{}", value), "0 or more", "such a number");
}

bool read_amount(Reader& in, const What& what, engine::UnitScale scale, std::int64_t& value) {
  if (scale == engine::UnitScale::kWhole) return in.integer(what, value);
  std::string_view text;
  if (!in.number_text(what, text)) return false;
  const Result<std::int64_t> read = engine::parse_amount(what.text(), text, scale);
  if (!read) return in.fail(read.error().message);
  value = *read;
  return true;
}

Result<AskBody> read_ask(std::string_view body, Options options, Texts& texts, Scales scales) {
  Result<AskBody> ask(std::in_place);  // read where it is returned: it is long to move
  ask->scales = scales;
  std::span<const Member<AskBody>> members = kAskMembers;
  if (options == Options::kNone) members = members.first(kPeekMembers);
  if (Status status = read_object(body, members, texts, *ask); !status) {
    ask = std::move(status).error();
  }
  return ask;
}

Result<Batch> read_batch(std::string_view body, std::size_t asks_max, Texts& texts, Scales scales) {
  BatchBody into{.asks_max = asks_max, .scales = scales};
  Status status = read_object<BatchBody>(body, kBatchMembers, texts, into);
  if (into.batch.is_too_long) return std::move(into.batch);
  if (!status) return std::move(status).error();
  if (!into.has_requests) return missing("requests", "a list, \"requests\":[{…},{…}]");
  return std::move(into.batch);
}

Result<Settlement> read_settlement(std::string_view body, Texts& texts, Scales scales) {
  Result<Settlement> into(std::in_place);
  into->scales = scales;
  Status status = read_object<Settlement>(body, kSettlementMembers, texts, *into);
  if (!status) {
    into = std::move(status).error();
  } else if (!into->hold) {
    into = missing_hold();
  }
  return into;
}

bool read_id(Reader& in, std::string_view name, std::string_view of, std::string_view from,
             HoldId& into) {
  std::string_view text;
  if (!in.text(name, text)) return false;
  const std::optional<HoldId> read = read_hold(text);
  if (!read) {
    return in.wrong(name, fmt::format("'{}'", text.substr(0, 64)), fmt::format("the id of {}", of),
                    fmt::format("the '{}' of {}, such as \"00000000000004d2-17\"", name, from));
  }
  into = *read;
  return true;
}

Result<HoldId> read_cancellation(std::string_view body, Texts& texts) {
  HoldId hold;
  Status status = read_object<HoldId>(body, kCancellationMembers, texts, hold);
  if (!status) return std::move(status).error();
  if (!hold) return missing_hold();
  return hold;
}

Result<Renewal> read_renewal(std::string_view body, Texts& texts) {
  Renewal into;
  Status status = read_object<Renewal>(body, kRenewalMembers, texts, into);
  if (!status) return std::move(status).error();
  if (!into.hold) return missing_hold();
  if (into.ttl.count() < 0) return missing("ttl", "how long it shall last, \"ttl\":\"60s\"");
  return into;
}

Result<KeyName> read_key_name(std::string_view body, Texts& texts) {
  KeyName into;
  Status status = read_object<KeyName>(body, kKeyNameMembers, texts, into);
  if (!status) return std::move(status).error();
  if (into.limit.empty()) return missing("limit", "\"limit\":\"per-client\"");
  return into;
}

}  // namespace weir::wire::http
