// Engine, inside: its owners, in the order in which they are made.
//
// Each owner has the state that its name says, and its header says by number what holds
// there. An owner may refer to one that is made after it, but uses none before all are
// made. Engine's functions are thin: they check `now` and ask an owner.
//
//   ground          options, table, rows, what threads keep
//   counting        how often each limit decided what
//   rules           which limits are in force
//   wakeup          when the engine wants to be called
//   ending          holds, and what comes back when they end
//   resolver        one decision, by the long way
//   elsewhere       limits that are kept in a store
//   waiting         requests that wait in memory
//   decider         asks, and the short way of a decision
//   collecting      what a store is given

#include "weir/engine/engine.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "weir/engine/ad_hoc.h"
#include "weir/engine/ask.h"
#include "weir/engine/internal/collecting.h"
#include "weir/engine/internal/counting.h"
#include "weir/engine/internal/decider.h"
#include "weir/engine/internal/elsewhere.h"
#include "weir/engine/internal/ending.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/resolver.h"
#include "weir/engine/internal/rules_in_force.h"
#include "weir/engine/internal/waiting.h"
#include "weir/engine/state.h"

namespace weir::engine {
namespace {

constexpr std::size_t kSweepShards = 4;    // of one advance()
constexpr std::size_t kSweepSlots = 4096;  // of one shard in one advance()

// Callbacks may be left out.
template <typename Answer>
void tell(const std::function<void(const Answer&)>& callback, const Answer& answer) {
  if (callback) callback(answer);
}
template <typename Answer>
std::function<void(const Answer&)> given(std::function<void(const Answer&)>& callback) {
  if (!callback) callback = [](const Answer&) {};
  return std::move(callback);
}

}  // namespace

struct Engine::Impl {
  explicit Impl(const EngineOptions& given) : ground(given) {}

  Ground ground;
  Counting counting{ground};
  RulesInForce rules{ground, counting};
  Wakeup wakeup{ending, waiting};
  EndingHolds ending{ground, rules, elsewhere, waiting, wakeup};
  Resolver resolver{ground, rules, counting, ending, waiting, wakeup};
  Elsewhere elsewhere{ground, rules, counting, resolver, ending};
  Waiting waiting{ground, rules, counting, resolver, elsewhere, wakeup};
  Decider decider{ground, rules, counting, resolver, waiting, elsewhere};
  Collecting collecting{ground, rules, ending.holds()};
  std::atomic<std::size_t> sweep_shard{0};
};

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const RuleSet> rules,
                                               EngineOptions options) noexcept {
  if (rules == nullptr) return bad_argument("engine: the rule set is missing; compile() one");
  if (options.heavy_sample_every == 0) {
    return bad_argument("engine: heavy_sample_every is 0, but it must be 1 or more; write 64");
  }
  try {
    std::unique_ptr<Engine> engine(new Engine(std::make_unique<Impl>(options)));
    Status status = engine->impl_->rules.activate(std::move(rules), Instant{0});
    if (!status) return std::move(status).error();
    return engine;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kExhausted,
                 fmt::format("engine: no memory for the table; lower {}, or allow more memory",
                             options.names.keys)};
  } catch (const std::exception& failed) {
    // Of the operating system's generator.
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("engine: no secret could be drawn: {}; see to it that the system has a "
                    "source of randomness, or give the secret of a state directory",
                    failed.what())};
  }
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

// --- deciding

void Engine::ask(std::span<const Ask> asks, Instant now, Answers& answers) noexcept {
  impl_->decider.ask(asks, now, answers);
}

bool Engine::give_up(std::uint64_t ticket, Instant now) noexcept {
  if (!is_acceptable(now)) return false;
  return impl_->waiting.give_up(ticket, now) || impl_->elsewhere.give_up(ticket);
}

Result<Decision> Engine::decide(const Request& request, Instant now) noexcept {
  return impl_->decider.decide(request, now);
}

Result<Decision> Engine::decide(const Ask& ask, Instant now) noexcept {
  Result<Decision> answer(std::in_place);
  impl_->decider.decide(ask, now, answer);
  return answer;
}

Result<Decision> Engine::peek(const Request& request, Instant now) noexcept {
  return decide(Ask{.request = request, .is_peek = true}, now);
}

void Engine::decide(std::span<const Request> requests, Instant now,
                    std::span<Result<Decision>> answers) noexcept {
  WEIR_ASSERT(requests.size() == answers.size());
  impl_->decider.decide(requests, now, answers);
}

Result<Decision> Engine::decide(Prepared& prepared, Instant now) noexcept {
  return impl_->decider.decide(*prepared.impl_, now);
}

Result<Prepared> Engine::prepare(const Request& request) noexcept {
  auto ready = std::make_unique<Prepared::Impl>(request);
  ready->active = impl_->rules.current();
  if (auto error = make_plan(*ready->active, ready->request.view(), ready->plan)) {
    return std::move(*error);
  }
  return Prepared(std::move(ready));
}

Prepared::Prepared(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

// --- holds

void Engine::settle(HoldId hold, std::span<const Cost> actual, Instant now,
                    HoldCallback answered) noexcept {
  if (!is_acceptable(now)) return tell(answered, Result<HoldAnswer>(unacceptable_instant(now)));
  if (auto error = impl_->ending.check_settlement(hold, actual, now)) {
    return tell(answered, Result<HoldAnswer>(std::move(*error)));
  }
  if (hold.is_shared) {
    return impl_->elsewhere.end(hold, HoldState::kSettled, actual, now, given(answered));
  }
  const HoldAnswer settled = impl_->ending.end(hold, HoldState::kSettled, actual, now);
  impl_->elsewhere.ended_here(hold, HoldState::kSettled, actual, now);
  tell(answered, Result<HoldAnswer>(settled));
}

void Engine::cancel(HoldId hold, Instant now, HoldCallback answered) noexcept {
  if (!is_acceptable(now)) return tell(answered, Result<HoldAnswer>(unacceptable_instant(now)));
  if (hold.is_shared) {
    return impl_->elsewhere.end(hold, HoldState::kCancelled, {}, now, given(answered));
  }
  const HoldAnswer cancelled = impl_->ending.end(hold, HoldState::kCancelled, {}, now);
  impl_->elsewhere.ended_here(hold, HoldState::kCancelled, {}, now);
  tell(answered, Result<HoldAnswer>(cancelled));
}

void Engine::renew(HoldId hold, Duration ttl, Instant now, HoldCallback answered) noexcept {
  if (!is_acceptable(now)) return tell(answered, Result<HoldAnswer>(unacceptable_instant(now)));
  if (hold.is_shared) return impl_->elsewhere.renew(hold, ttl, now, given(answered));
  const Result<HoldState> state = impl_->ending.renew(hold, ttl, now);
  tell(answered, state ? Result<HoldAnswer>(HoldAnswer{*state}) : state.error());
}

// --- one key

void Engine::inspect(std::string_view limit, std::span<const std::string_view> key, Instant now,
                     InspectCallback answered) noexcept {
  if (!is_acceptable(now)) return tell(answered, Result<Inspection>(unacceptable_instant(now)));
  impl_->ending.expire(now);
  for (;;) {
    const std::shared_ptr<const Active> rules = impl_->rules.current();
    Result<KeyedLimit> keyed = RulesInForce::find_key(*rules, limit, key);
    if (!keyed) return tell(answered, Result<Inspection>(std::move(keyed).error()));
    if (keyed->limit->is_shared) {
      return impl_->elsewhere.inspect(rules, *keyed, key, now, std::move(answered));
    }
    if (const std::optional<Inspection> found = impl_->resolver.inspect(*rules, *keyed, now)) {
      return tell(answered, Result<Inspection>(*found));
    }
  }
}

void Engine::reset(std::string_view limit, std::span<const std::string_view> key, Instant now,
                   StatusCallback answered) noexcept {
  if (!is_acceptable(now)) return tell(answered, Status(unacceptable_instant(now)));
  const std::shared_ptr<const Active> rules = impl_->rules.current();
  Result<KeyedLimit> keyed = RulesInForce::find_key(*rules, limit, key);
  if (!keyed) return tell(answered, Status(std::move(keyed).error()));
  if (keyed->limit->is_shared) {
    return impl_->elsewhere.reset(rules, *keyed, key, now, given(answered));
  }
  tell(answered, impl_->ending.reset(limit, key, now));
}

void end_holds(Engine& engine, std::string_view limit, std::span<const std::string_view> key,
               Instant now, EndedHoldsCallback answered) noexcept {
  if (!is_acceptable(now)) return tell(answered, Result<EndedHolds>(unacceptable_instant(now)));
  const std::shared_ptr<const Active> rules = engine.impl_->rules.current();
  Result<KeyedLimit> keyed = RulesInForce::find_key(*rules, limit, key);
  if (!keyed) return tell(answered, Result<EndedHolds>(std::move(keyed).error()));
  auto then_reset = [&engine, name = std::string(limit),
                     values = std::vector<std::string>(key.begin(), key.end()), now,
                     callback = given(answered)](const Result<EndedHolds>& ended) {
    if (!ended) return callback(ended);
    const std::vector<std::string_view> views(values.begin(), values.end());
    engine.reset(name, views, now, [ended = *ended, callback](const Status& status) {
      status ? callback(ended) : callback(status.error());
    });
  };
  engine.impl_->ending.end_key(*keyed, key, now, std::move(then_reset));
}

Status Engine::set_override(std::string_view limit, std::span<const std::string_view> key,
                            const std::optional<MeterSpec>& meter, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  Status status = meter ? impl_->rules.override_key(limit, key, *meter, now)
                        : impl_->rules.clear_override(limit, key, now);
  // Not only the oldest: one that can no longer pass at all must not be waited for.
  if (status) impl_->waiting.serve_all(now);
  return status;
}

// --- rules, time

Status Engine::swap(std::shared_ptr<const RuleSet> rules, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (rules == nullptr) return bad_argument("engine: the rule set is missing; compile() one");
  Status status = impl_->rules.activate(std::move(rules), now);
  if (status) impl_->waiting.serve_all(now);
  return status;
}

Status Engine::reserve(const RuleSet& rules, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  return impl_->rules.reserve(rules, now);
}

std::shared_ptr<const RuleSet> Engine::rules() const noexcept {
  return impl_->rules.current()->rules;
}

void Engine::try_waiters(Instant now) noexcept {
  if (is_acceptable(now)) impl_->waiting.serve_all(now);
}

Instant Engine::next_instant() const noexcept { return impl_->wakeup.next(); }

void Engine::advance(Instant now) noexcept {
  if (!is_acceptable(now)) return;
  impl_->ending.expire(now);
  impl_->waiting.serve_due(now);
  Table& table = impl_->ground.table;
  for (std::size_t i = 0; i < kSweepShards; ++i) {
    const std::size_t at = impl_->sweep_shard.fetch_add(1, std::memory_order_relaxed);
    Shard& shard = table.shard(at % table.shard_count());
    const std::scoped_lock lock(shard);
    table.sweep(shard, now, kSweepSlots);
  }
  impl_->wakeup.advanced();
}

void Engine::set_wakeup(std::function<void(Instant)> hook) noexcept {
  impl_->wakeup.set_hook(std::move(hook));
}

// --- numbers

std::vector<HeavyKey> Engine::heaviest(std::string_view limit, std::size_t count) const noexcept {
  return impl_->counting.heaviest(*impl_->rules.current(), limit, count);
}

Counts Engine::counts() const noexcept { return impl_->counting.counts(*impl_->rules.current()); }

Usage Engine::usage() const noexcept {
  return {.keys = impl_->ground.table.size(),
          .table_bytes = impl_->ground.table.bytes(),
          .holds = impl_->ending.active(),
          .waiters = impl_->waiting.size() + impl_->elsewhere.waiters()};
}

// --- ad_hoc.h

AdHocKey AdHoc::key(std::string_view text) const noexcept {
  const Ground& ground = engine_.impl_->ground;
  const Print print = print_for(ground.ad_hoc_seed, with_value(ground.secret, {}, text));
  ground.table.prefetch(print);
  return {text, print};
}

Result<AdHocStep> AdHoc::take(const AdHocKey& key, const meter::BucketShape& shape,
                              std::int64_t cost, Instant now) noexcept {
  WEIR_ASSERT(shape.num == 1);
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (cost < -kTermMax || cost > kTermMax) {
    return bad_argument(fmt::format(
        "the cost is {}, but it must be between -2^62 and 2^62; write a smaller one", cost));
  }
  Engine::Impl& impl = *engine_.impl_;
  Result<AdHocStep> taken = impl.decider.take_ad_hoc(key.print, shape, cost, now);
  if (!taken) return taken;
  const bool allowed = taken->step.allowed();
  impl.counting.count_ad_hoc(allowed ? Verdict::kAllowed : Verdict::kDenied);
  if (DecisionSink* const sink = impl.ground.options.sink) {
    sink->record_ad_hoc({key.text, shape.den, shape.burst, cost}, now, allowed);
  }
  return taken;
}

// --- shared.h

void set_store(Engine& engine, SharedStore* store) noexcept {
  engine.impl_->elsewhere.set_store(store);
}

// --- state.h

std::size_t Collector::shards() const noexcept { return engine_.impl_->ground.table.shard_count(); }
bool Collector::holds(Instant now, HoldChanges& out) noexcept {
  return engine_.impl_->collecting.collect_holds(now, out);
}
void Collector::changed(std::size_t shard, Instant now, MeterChanges& out) noexcept {
  engine_.impl_->collecting.collect(shard, Collect::kChanged, now, out);
}
void Collector::whole(std::size_t shard, Instant now, MeterChanges& out) noexcept {
  engine_.impl_->collecting.collect(shard, Collect::kWhole, now, out);
}
void Collector::ended_holds(HoldChanges& out) noexcept {
  engine_.impl_->collecting.collect_ended_holds(out);
}
void Collector::mark_changed(std::span<const Print> prints) noexcept {
  engine_.impl_->collecting.mark_changed(prints);
}
void Collector::mark_changed(const HoldChanges& holds) noexcept {
  engine_.impl_->collecting.mark_changed(holds);
}
std::vector<EraRecord> Collector::eras() const noexcept { return engine_.impl_->collecting.eras(); }

Result<RestoreReport> Collector::restore(const MeterChanges& meters, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  return engine_.impl_->collecting.restore(meters, now);
}

Result<RestoreReport> Collector::restore(const HoldChanges& holds, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  Result<RestoreReport> report = engine_.impl_->collecting.restore(holds, now);
  engine_.impl_->wakeup.announce();
  return report;
}

}  // namespace weir::engine
