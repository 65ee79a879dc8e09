// Limits with leases: take from what was drawn ahead, then ask Redis for the other limits.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <utility>

#include "weir/base/integer.h"
#include "weir/store/redis/shared/asked.h"
#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

using engine::SharedAnswer;
using engine::SharedAsk;
using engine::SharedItem;
using engine::SharedOutcome;

constexpr Duration kGiveBackMax = std::chrono::seconds{1};  // to return everything at the end

// What a server holds, as scripts read it.
std::string held_text(const engine::MeterShape& shape, std::span<const LeaseUnits> held) {
  std::string text;
  for (const LeaseUnits& part : held) {
    append_bytes(text, static_cast<std::uint64_t>(part.stamp_us), 7);
    append_amount(text, shape, part.units);
  }
  return text;
}

bool is_leased(const SharedItem& item) { return item.rule->shared->lease.has_value(); }

}  // namespace

// A request on its way: first its leases, then the limits without, then the answer.
struct SharedLimits::Mixed {
  SharedAsk ask_strict() const { return {.rules = asked.rules, .items = strict, .now = now()}; }
  Instant now() const { return asked.now; }
  const std::shared_ptr<const engine::RuleSet>& rules() const { return asked.rules; }
  bool is_refused() const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (is_leased(items[i]) && refuses(items[i], said[i].outcome)) return true;
    }
    return false;
  }

  SharedAsk asked;  // of the items
  std::vector<SharedItem> items;
  std::vector<SharedItem> strict;  // those without a lease
  engine::SharedCallback callback;
  std::vector<LeaseSaid> said;  // for each item with a lease
  std::atomic<std::size_t> pending{0};
};

bool SharedLimits::decide_leased(std::span<const engine::LeasedItem> items, Instant now,
                                 std::span<SharedOutcome> outcomes) {
  return leases_.take_now(items, now, outcomes);
}

void SharedLimits::decide_mixed(const SharedAsk& ask, engine::SharedCallback callback) {
  start_ticking();
  if (ask.is_peek) return peek_mixed(ask, std::move(callback));
  auto mixed = std::make_shared<Mixed>();
  mixed->asked = ask;
  mixed->items.assign(ask.items.begin(), ask.items.end());
  mixed->asked.items = mixed->items;
  mixed->callback = std::move(callback);
  if (ask.hold || ask.is_partial) return decide_without_leases(mixed);
  mixed->said.resize(mixed->items.size());
  for (const SharedItem& item : mixed->items) {
    if (!is_leased(item)) mixed->strict.push_back(item);
  }
  mixed->pending = 1 + mixed->items.size() - mixed->strict.size();
  const auto done = [this, mixed] {
    if (mixed->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) finish_leases(mixed);
  };
  for (std::size_t i = 0; i < mixed->items.size(); ++i) {
    if (!is_leased(mixed->items[i])) continue;
    leases_.take(mixed->items[i], mixed->rules(), mixed->now(),
                 [mixed, i, done](const LeaseSaid& said) {
                   mixed->said[i] = said;
                   done();
                 });
  }
  done();
}

// Holds are kept in Redis, for any server to end; and what is left there, leases know only from
// when they last asked. What is held here goes back before.
void SharedLimits::decide_without_leases(const std::shared_ptr<Mixed>& mixed) {
  mixed->pending = 1 + static_cast<std::size_t>(
                           std::count_if(mixed->items.begin(), mixed->items.end(), is_leased));
  const auto done = [this, mixed] {
    if (mixed->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    for (const SharedItem& item : mixed->items) {
      if (is_leased(item)) take_back_lapsed(item, mixed->rules(), mixed->now());
    }
    decide_in_redis(mixed->asked, std::move(mixed->callback));
  };
  for (const SharedItem& item : mixed->items) {
    if (is_leased(item)) leases_.surrender(item.print, mixed->now(), done);
  }
  done();
}

// Of what is held here nothing need be asked.
void SharedLimits::peek_mixed(const SharedAsk& ask, engine::SharedCallback callback) {
  std::vector<SharedItem> items(ask.items.begin(), ask.items.end());
  std::vector<std::int64_t> held(items.size());
  bool is_covered = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (is_leased(items[i])) held[i] = leases_.held(items[i].print, ask.now);
    // More than the limit has is never there, wherever it is.
    if (items[i].cost > engine::capacity(items[i].rule->shape)) held[i] = 0;
    is_covered = is_covered && is_leased(items[i]) && items[i].cost <= held[i];
    items[i].cost -= std::min(items[i].cost, held[i]);
  }
  if (is_covered) {
    SharedAnswer said;
    said.now = ask.now;
    for (const SharedItem& item : ask.items) {
      const std::int64_t left = leases_.left(item.print, ask.now);
      said.outcomes.push_back({{Verdict::kAllowed, ask.now, 0}, left, left - item.cost});
    }
    return callback(std::move(said));
  }
  for (const SharedItem& item : items) {
    if (is_leased(item)) take_back_lapsed(item, ask.rules, ask.now);
  }
  SharedAsk rest = ask;
  rest.items = items;
  decide_in_redis(rest, [items, held = std::move(held),
                         callback = std::move(callback)](Result<SharedAnswer> said) {
    for (std::size_t i = 0; said && i < held.size(); ++i) {
      std::int64_t& before = said->outcomes[i].before;
      if (held[i] == 0) continue;
      before = std::min(engine::capacity(items[i].rule->shape), saturate(Wide{before} + held[i]));
    }
    callback(std::move(said));
  });
}

// What was taken from leases is used, or goes back into them.
void SharedLimits::settle(const Mixed& mixed, bool is_used) {
  for (std::size_t i = 0; i < mixed.items.size(); ++i) {
    const LeaseSaid& said = mixed.said[i];
    if (!is_leased(mixed.items[i]) || said.failure || !said.outcome.check.allowed()) continue;
    if (is_used) {
      leases_.spend(mixed.items[i].print, mixed.items[i].cost);
    } else {
      leases_.put_back(mixed.items[i].print, {mixed.items[i].cost, said.stamp_us}, mixed.now());
    }
  }
}

void SharedLimits::finish_leases(const std::shared_ptr<Mixed>& mixed) {
  // By the outage policies, where nothing could be drawn.
  std::vector<SharedItem> alone;
  std::vector<std::string> keys;
  std::vector<std::size_t> places;
  std::string why;
  for (std::size_t i = 0; i < mixed->items.size(); ++i) {
    const auto& failure = mixed->said[i].failure;
    if (!failure) continue;
    if (!failure->is_outage) {
      settle(*mixed, false);
      return mixed->callback(failure->error);
    }
    alone.push_back(mixed->items[i]);
    keys.push_back(limit_key(prefix_, mixed->items[i]));
    places.push_back(i);
    why = failure->error.message;
  }
  if (!alone.empty()) {
    const Result<SharedAnswer> decided = by_policy(alone, keys, mixed->now(), false, why);
    if (!decided) {
      settle(*mixed, false);
      return mixed->callback(decided.error());
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      mixed->said[places[i]].outcome = decided->outcomes[i];
    }
  }

  const bool is_refused = mixed->is_refused();
  const auto answer = [this, mixed, is_refused](Result<SharedAnswer> strict) {
    bool is_charged = strict.ok() && !is_refused;
    SharedAnswer said;
    said.now = strict ? strict->now : mixed->now();
    std::size_t place = 0;
    for (std::size_t i = 0; strict && i < mixed->items.size(); ++i) {
      if (!is_leased(mixed->items[i])) {
        said.outcomes.push_back(strict->outcomes[place++]);
        is_charged = is_charged && !refuses(mixed->items[i], said.outcomes.back());
        continue;
      }
      SharedOutcome& outcome = said.outcomes.emplace_back(mixed->said[i].outcome);
      // Told in the time of the store, as the others are.
      Instant& earliest = outcome.check.earliest;
      if (earliest != kForever) earliest = said.now + (earliest - mixed->now());
    }
    settle(*mixed, is_charged);
    if (!strict) return mixed->callback(std::move(strict).error());
    mixed->callback(std::move(said));
  };
  if (mixed->strict.empty()) return answer(SharedAnswer{mixed->now(), {}, false});
  SharedAsk ask = mixed->ask_strict();
  ask.is_peek = is_refused;  // only to tell when all of it fits
  decide_in_redis(ask, answer);
}

// --- draws

void SharedLimits::draw(const LeaseDraw& draw, DrawCallback callback) {
  if (!breaker_.may_ask(draw.now)) {
    return callback(DrawFailure{true, {ErrorCode::kUnavailable, why_not_asked()}});
  }
  asked_.fetch_add(1, std::memory_order_relaxed);
  const Epoch known = epoch();
  const std::string now = now_argument();
  const engine::MeterShape& shape = draw.rule->shape;
  std::string blob;
  append_blob(blob, shape, draw.cost, '0', draw.now);
  const std::string length = fmt::format("{}", whole_us(record_length(*draw.rule->shared->lease)));
  const std::string kept = held_text(shape, draw.kept);
  const std::string word = fmt::format("{}", draw.word);
  const std::string until = fmt::format("{}", draw.until.ns / kNsPerUs);
  std::string amounts;
  for (const std::int64_t amount : draw.amounts) {
    append_amount(amounts, shape, amount);
    append_amount(amounts, shape, std::max<std::int64_t>(0, amount - draw.awaited));
  }
  const std::string record = lease_key(prefix_, draw.key);
  const std::array<std::string_view, 3> keys = {epoch_key_, draw.key, record};
  const std::array<std::string_view, 12> arguments = {
      now, "", known.seen, known.fresh, blob, id_, length, kept, amounts, word, draw.epoch, until};
  const auto late = [this, told = draw.late,
                     amounts = std::vector<std::int64_t>(draw.amounts.begin(), draw.amounts.end()),
                     seen = known.seen](const Answer& answer) {
    if (!answer.ok()) return;
    const Result<Drawn> drawn = read_draw(answer.reply(), amounts, seen);
    if (drawn) told(*drawn);
  };
  client().call(
      shared_scripts().draw, keys, arguments,
      [this, amounts = std::vector<std::int64_t>(draw.amounts.begin(), draw.amounts.end()),
       seen = known.seen, callback = std::move(callback)](const Answer& answer) {
        if (!answer.ok()) {
          count_failure(answer.failure().kind);
          const Failure& failure = answer.failure();
          if (!is_outage(failure.kind))
            return callback(DrawFailure{false, named(failure), failure.may_have_run});
          note_failure(failure);
          return callback(
              DrawFailure{true, {ErrorCode::kUnavailable, failure.message}, failure.may_have_run});
        }
        answered_.fetch_add(1, std::memory_order_relaxed);
        note_success();
        Result<Drawn> drawn = read_draw(answer.reply(), amounts, seen);
        if (!drawn) return callback(DrawFailure{false, std::move(drawn).error(), true});
        callback(std::move(*drawn));
      },
      {.timeout = std::nullopt, .late = late});
}

Result<Drawn> SharedLimits::read_draw(const Reply& reply, std::span<const std::int64_t> amounts,
                                      std::string_view seen) {
  const auto chosen = reply.at(0).integer();
  const auto now_us = reply.at(1).integer();
  const auto epoch = reply.at(2).text();
  const auto first = reply.at(3).integer();
  const auto second = reply.at(4).integer();
  const auto stamp_us = reply.at(5).integer();
  if (!chosen || !now_us || !epoch || !first || !second || !stamp_us || *chosen < 0 ||
      static_cast<std::size_t>(*chosen) > amounts.size()) {
    return odd_reply("a draw");
  }
  learn_epoch(*epoch);
  Drawn drawn;
  drawn.is_refused = *chosen == 0;
  drawn.units = *chosen == 0 ? 0 : amounts[static_cast<std::size_t>(*chosen) - 1];
  drawn.now = Instant{*now_us * kNsPerUs};
  drawn.here = clock_.now();
  drawn.state = {*first, *second};
  drawn.stamp_us = *stamp_us;
  drawn.epoch = (epoch->empty() ? seen : *epoch).substr(0, kEpochIdBytes);
  return drawn;
}

void SharedLimits::give_back(const LeaseReturn& units, Instant now, ReturnCallback callback) {
  if (breaker_.is_open()) return callback(Delivery::kUnsent);
  const engine::MeterShape& shape = units.rule->shape;
  const std::string at = now_argument();
  std::string blob;
  append_blob(blob, shape, 0, '+', now);
  const std::string back = held_text(shape, units.units);
  const std::string kept = held_text(shape, units.kept);
  const std::string until = fmt::format("{}", units.until.ns / kNsPerUs);
  const std::string word = fmt::format("{}", units.word);
  const std::string record = lease_key(prefix_, units.key);
  const std::array<std::string_view, 3> keys = {epoch_key_, units.key, record};
  const std::array<std::string_view, 8> arguments = {at,  units.epoch, blob,  back,
                                                     id_, kept,        until, word};
  client().call(shared_scripts().give_back, keys, arguments,
                [callback = std::move(callback)](const Answer& answer) {
                  if (answer.ok()) return callback(Delivery::kHeard);
                  callback(answer.failure().may_have_run ? Delivery::kUnsure : Delivery::kUnsent);
                });
}

void SharedLimits::take_back_lapsed(const SharedItem& item,
                                    const std::shared_ptr<const engine::RuleSet>& rules,
                                    Instant now) {
  // Nothing of our own goes back with it.
  give_back({.rules = rules,
             .rule = item.rule,
             .key = limit_key(prefix_, item),
             .epoch = epoch().seen.substr(0, kEpochIdBytes)},
            now, [](Delivery) {});
}

// --- time

void SharedLimits::start_ticking() {
  if (is_ticking_.load(std::memory_order_relaxed) || is_ticking_.exchange(true)) return;
  loop_.post([this] {
    ticker_ = std::make_unique<Timer>(loop_);
    tick();
  });
}

void SharedLimits::tick() {
  ticker_->start(kLeaseTick, [this] { tick(); });
  leases_.tick(clock_.now());
}

void SharedLimits::end_leases() {
  if (!is_ticking_) return;
  leases_.end(clock_.now());
  // Two answers: before the first come those of draws under way, and what they brought goes
  // back before the second.
  const std::array<std::string_view, 1> words = {"PING"};
  for (int round = 0; round < 2; ++round) {
    for (const auto& client : clients_) {
      const auto is_through = std::make_shared<std::promise<void>>();
      client->send(words, [is_through](const Answer&) { is_through->set_value(); },
                   {.timeout = kGiveBackMax, .late = {}});
      is_through->get_future().wait();
    }
  }
}

std::vector<LeaseCounts> SharedLimits::lease_counts() { return leases_.counts(clock_.now()); }

}  // namespace weir::store::redis
