// Invariants:
// 1. What a request takes out of leases is spent or put back, once, when all of it is decided.
// 2. A request is charged everywhere or nowhere: leases that gave their units wait for Redis, and
//    Redis is asked for the rest only to tell when all of it fits, if a lease has refused.
// 3. The units that Redis is asked about are never held here at the same time: a request with a
//    hold is decided after they have gone back, a peek adds them to what Redis has left.
// 4. Instants of an answer are those of the store, as for limits without a lease.

#include "weir/store/redis/shared/leased.h"

#include <algorithm>
#include <array>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/integer.h"
#include "weir/store/redis/shared/keys.h"

namespace weir::store::redis {
namespace {

using engine::SharedAnswer;
using engine::SharedAsk;
using engine::SharedItem;
using engine::SharedOutcome;

constexpr Duration kGiveBackMax = std::chrono::seconds{1};  // to return everything at the end

}  // namespace

// A request on its way: first its leases, then the limits without, then the answer.
struct LeasedDecisions::Mixed {
  Mixed(const SharedAsk& ask, engine::SharedCallback told)
      : asked(ask), items(ask.items.begin(), ask.items.end()), callback(std::move(told)) {
    asked.items = items;
  }

  Instant now() const { return asked.now; }
  // The last of what it waits for has come.
  bool is_through() { return pending.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool is_refused() const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (is_leased(items[i]) && refuses(items[i], said[i].outcome)) return true;
    }
    return false;
  }

  SharedAsk asked;  // of the items
  const std::vector<SharedItem> items;
  const engine::SharedCallback callback;
  std::vector<LeaseSaid> said;  // for each item with a lease
  std::atomic<std::size_t> pending{1};
};

LeasedDecisions::LeasedDecisions(Loop& loop, const Fleet& fleet, Connections& connections,
                                 Outages& outages, Decisions& decisions, RedisLeases& source,
                                 Leases& leases)
    : loop_(loop),
      fleet_(fleet),
      connections_(connections),
      outages_(outages),
      decisions_(decisions),
      source_(source),
      leases_(leases) {}

void LeasedDecisions::decide(const SharedAsk& ask, engine::SharedCallback callback) {
  start_ticking();
  if (ask.is_peek) return peek(ask, std::move(callback));
  const auto mixed = std::make_shared<Mixed>(ask, std::move(callback));
  mixed->pending +=
      static_cast<std::size_t>(std::count_if(mixed->items.begin(), mixed->items.end(), is_leased));
  if (ask.hold || ask.is_partial) return decide_in_redis(mixed);
  take(mixed);
}

void LeasedDecisions::take(const MixedRef& mixed) {
  mixed->said.resize(mixed->items.size());
  for (std::size_t i = 0; i < mixed->items.size(); ++i) {
    if (!is_leased(mixed->items[i])) continue;
    leases_.take(mixed->items[i], mixed->asked.rules, mixed->now(),
                 [this, mixed, i](const LeaseSaid& said) {
                   mixed->said[i] = said;
                   if (mixed->is_through()) on_taken(mixed);
                 });
  }
  if (mixed->is_through()) on_taken(mixed);
}

// Holds are kept in Redis, for any server to end; and what is left there, leases know only from
// when they last asked. What is held here goes back before.
void LeasedDecisions::decide_in_redis(const MixedRef& mixed) {
  const auto done = [this, mixed] {
    if (!mixed->is_through()) return;
    for (const SharedItem& item : mixed->items) {
      if (is_leased(item)) source_.take_back_lapsed(item, mixed->asked.rules, mixed->now());
    }
    decisions_.decide(mixed->asked, mixed->callback);
  };
  for (const SharedItem& item : mixed->items) {
    if (is_leased(item)) leases_.surrender(item.print, mixed->now(), done);
  }
  done();
}

// What is held here covers it, or Redis is asked for the rest.
void LeasedDecisions::peek(const SharedAsk& ask, engine::SharedCallback callback) {
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
    if (is_leased(item)) source_.take_back_lapsed(item, ask.rules, ask.now);
  }
  SharedAsk rest = ask;
  rest.items = items;
  decisions_.decide(rest, [items, held = std::move(held),
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
void LeasedDecisions::settle(const Mixed& mixed, bool is_used) {
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

// By the outage policies, where nothing could be drawn. An error: nothing may be started.
Status LeasedDecisions::decide_outages(Mixed& mixed) {
  std::vector<SharedItem> alone;
  std::vector<std::string> keys;
  std::vector<std::size_t> places;
  std::string why;
  for (std::size_t i = 0; i < mixed.items.size(); ++i) {
    const auto& failure = mixed.said[i].failure;
    if (!failure) continue;
    if (!failure->is_outage) return failure->error;
    alone.push_back(mixed.items[i]);
    keys.push_back(limit_key(fleet_.prefix, mixed.items[i]));
    places.push_back(i);
    why = failure->error.message;
  }
  if (alone.empty()) return Done{};
  const Result<SharedAnswer> decided =
      outages_.decide(*mixed.asked.rules, alone, keys, mixed.now(), false, why);
  if (!decided) return decided.error();
  for (std::size_t i = 0; i < places.size(); ++i) {
    mixed.said[places[i]].outcome = decided->outcomes[i];
  }
  return Done{};
}

void LeasedDecisions::on_taken(const MixedRef& mixed) {
  if (Status status = decide_outages(*mixed); !status) {
    settle(*mixed, false);
    return mixed->callback(std::move(status).error());
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
      Instant& earliest = outcome.check.earliest;
      if (earliest != kForever) earliest = said.now + (earliest - mixed->now());
    }
    settle(*mixed, is_charged);
    if (!strict) return mixed->callback(std::move(strict).error());
    mixed->callback(std::move(said));
  };
  std::vector<SharedItem> strict;
  std::copy_if(mixed->items.begin(), mixed->items.end(), std::back_inserter(strict),
               [](const SharedItem& item) { return !is_leased(item); });
  if (strict.empty()) return answer(SharedAnswer{mixed->now(), {}, false});
  // If a lease has refused, only to tell when all of it fits.
  decisions_.decide(
      {.rules = mixed->asked.rules, .items = strict, .is_peek = is_refused, .now = mixed->now()},
      answer);
}

// --- time

void LeasedDecisions::start_ticking() {
  if (is_ticking_.load(std::memory_order_relaxed) || is_ticking_.exchange(true)) return;
  loop_.post([this] {
    ticker_ = std::make_unique<Timer>(loop_);
    tick();
  });
}

void LeasedDecisions::tick() {
  ticker_->start(kLeaseTick, [this] { tick(); });
  leases_.tick(fleet_.clock.now());
}

void LeasedDecisions::end() {
  if (!is_ticking_) return;
  leases_.end(fleet_.clock.now());
  // Two answers: before the first come those of draws under way, and what they brought goes
  // back before the second.
  const std::array<std::string_view, 1> words = {"PING"};
  for (int round = 0; round < 2; ++round) {
    for (const auto& client : connections_.shared()) {
      const auto is_through = std::make_shared<std::promise<void>>();
      client->send(words, [is_through](const Answer&) { is_through->set_value(); },
                   {.timeout = kGiveBackMax, .late = {}});
      is_through->get_future().wait();
    }
  }
  loop_.run([this] { ticker_.reset(); });
}

}  // namespace weir::store::redis
