// The engine's life: rules in force, threads, time, sweeping.

#include "weir/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <unordered_map>

#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

constexpr std::size_t kSweepShards = 4;    // of one advance()
constexpr std::size_t kSweepSlots = 4096;  // of one shard in one advance()

std::uint64_t next_engine_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

thread_local std::unordered_map<std::uint64_t, std::shared_ptr<Local>> my_locals;

}  // namespace

constinit thread_local LastUsed last_used;

Engine::Impl::Impl(const EngineOptions& given)
    : options(given),
      secret(options.secret ? *options.secret : random_secret()),
      id(next_engine_id()),
      table(options.keys_max, options.log_runs_max, options.when_full, rows,
            options.durable ? Durable::kYes : Durable::kNo),
      holds(options.owner ? *options.owner : random_secret()[0], options.holds_max,
            options.durable),
      // No limit has an empty name.
      ad_hoc_seed(seed_for(secret, "")),
      ad_hoc_row(rows.add("", meter::BucketShape{})),
      departed(options.heavy_keys) {}

Engine::Impl::~Impl() {
  // Threads outlive engines and keep their Local; what it refers to need not stay.
  for (const std::shared_ptr<Local>& local : locals) {
    local->active.reset();
    local->heavy = HeavyKeys(0);
    local->is_gone.store(true, std::memory_order_release);
  }
}

Local& Engine::Impl::find_local() {
  if (!my_locals.contains(id)) {
    std::erase_if(my_locals, [](const auto& entry) {
      return entry.second->is_gone.load(std::memory_order_acquire);
    });
  }
  std::shared_ptr<Local>& mine = my_locals[id];
  if (mine == nullptr) {
    mine = std::make_shared<Local>(options.heavy_keys, options.heavy_sample_every, secret[1]);
    const std::scoped_lock lock(locals_lock);
    // Threads that have ended leave what they counted.
    std::erase_if(locals, [&](const std::shared_ptr<Local>& other) {
      if (other.use_count() > 1) return false;
      const std::scoped_lock sketch_lock(other->lock);  // the count orders nothing
      departed.merge(other->heavy);
      other->tallies.add_to(departed_tallies);
      return true;
    });
    locals.push_back(mine);
  }
  last_used = {id, mine.get()};
  return *mine;
}

std::shared_ptr<const Active> Engine::Impl::current_shared() const {
  const std::scoped_lock lock(rules_lock);
  return active;
}

void Engine::Impl::take_sample(Local& mine, const Active& rules, std::span<const PlanItem> items,
                               const Request& request) {
  mine.until_sample = mine.until_next(options.heavy_sample_every);
  if (options.heavy_keys == 0) return;
  const std::scoped_lock lock(mine.lock);
  for (const PlanItem& item : items) {
    if (item.limit->rule->per.empty()) continue;
    const std::int64_t units = saturate(Wide{item.cost} * options.heavy_sample_every);
    std::string* const text = mine.heavy.add(item.limit->name, item.print, units);
    if (text != nullptr) write_key(rules, *item.limit, request, *text);
  }
}

// The gate's seat, or a new one. A gate that left the rules has its seat for as long as a
// hold, a waiter or an old plan refers to it, so that one lock guards it all the time.
std::shared_ptr<GateSeat> Engine::Impl::seat_of(const std::shared_ptr<Gate>& gate) {
  std::erase_if(seats, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<GateSeat>& known = seats[gate.get()];
  if (std::shared_ptr<GateSeat> seat = known.lock()) return seat;
  auto seat = std::make_shared<GateSeat>();
  seat->gate = gate;
  seat->order = next_seat_order++;
  known = seat;
  return seat;
}

Status Engine::Impl::activate(std::shared_ptr<const RuleSet> rule_set, Instant now) {
  const std::scoped_lock lock(rules_lock);
  if (active != nullptr && rows.size() > kRowsMax / 2) compact_rows(*active, now);
  std::size_t missing = 0;
  for (const Rule& rule : rule_set->rules()) {
    if (rule.gate != nullptr || rows.find(rule.name, rule.shape) != 0) continue;
    if (++missing > rows.left()) {
      return Error{ErrorCode::kExhausted,
                   fmt::format("limit '{}': there are too many limits and overrides in different "
                               "shapes; use fewer",
                               rule.name)};
    }
  }

  // From here on nothing can fail.
  auto next = std::make_shared<Active>();
  next->generation = generation.load(std::memory_order_relaxed) + 1;
  next->rules = std::move(rule_set);
  next->secret = secret;
  for (const Rule& rule : next->rules->rules()) {
    ActiveLimit limit;
    limit.rule = &rule;
    limit.attributes = rule.attributes;
    limit.name = rows.intern(rule.name);
    limit.unit = rows.intern(next->rules->units()[rule.unit]);
    limit.unit_place = static_cast<std::uint8_t>(rule.unit);
    limit.shape = rule.shape;
    limit.capacity = capacity(rule.shape);
    limit.seed = seed_for(secret, rule.name);
    limit.is_simple = rule.is_simple;
    limit.shadow = rule.shadow;
    limit.tally = tally_of(rule.name);
    if (rule.gate != nullptr) {
      limit.owned_seat = seat_of(rule.gate);
      limit.seat = limit.owned_seat.get();
      const std::scoped_lock seat_lock(limit.seat->seat_lock);
      limit.seat->print = print_for(limit.seed, Print());  // it has no key
    } else {
      limit.is_slots = is_slots(rule.shape);
      limit.is_log = is_log(rule.shape);
      limit.is_shared = rule.shared.has_value();
      limit.is_leased = limit.is_shared && rule.shared->lease.has_value();
      limit.is_direct = !limit.is_slots && !rule.shadow && !limit.is_shared;
      limit.row = rows.add(rule.name, rule.shape);
    }
    next->limits.push_back(std::move(limit));
  }
  for (const ActiveLimit& old : active ? active->limits : std::vector<ActiveLimit>{}) {
    const Rule* kept = next->rules->find(old.name);
    // A gate has no meter here, whatever its name was before.
    const bool is_gone = kept == nullptr || (kept->gate != nullptr && old.seat == nullptr);
    if (is_gone) rows.retire(old.name);
    // Parameters of their own end with the limit, or with its kind of meter.
    if (is_gone || kept->shape.index() != old.shape.index()) end_overrides(old.name);
  }
  active = std::move(next);
  generation.store(active->generation, std::memory_order_release);
  return Done{};
}

void Engine::Impl::end_overrides(std::string_view limit) {
  std::erase_if(overridden, [&](const auto& entry) {
    if (entry.second != limit) return false;
    const Print print{entry.first.first, entry.first.second};
    Shard& shard = table.shard_of(print);
    const std::scoped_lock shard_lock(shard);
    if (Slot* slot = table.find(shard, print)) {
      slot->set_meta(slot->meta() & ~meta::kOverride);
      shard.mark_changed(*slot);
    }
    return true;
  });
}

// Brings every slot to a row in force, so that the others can be used again.
void Engine::Impl::compact_rows(const Active& rules, Instant now) {
  std::vector<bool> in_use(kRowsMax, false);
  for (const ActiveLimit& limit : rules.limits) in_use[limit.row] = true;
  in_use[ad_hoc_row] = true;
  for (std::size_t i = 0; i < table.shard_count(); ++i) {
    Shard& shard = table.shard(i);
    const std::scoped_lock lock(shard);
    table.sweep(shard, now, shard.capacity.load(std::memory_order_relaxed));
    Table::for_each(shard, [&](Slot& slot) {
      const Row& row = rows.at(slot.row());
      const ActiveLimit* const limit = rules.find(row.limit);
      const bool is_overridden = (slot.meta() & meta::kOverride) != 0;
      if (row.alive && !is_overridden && limit != nullptr && limit->seat == nullptr &&
          limit->row != slot.row() && row.era == rows.at(limit->row).era) {
        const Instant at = shard.at_least(now);
        slot.set_words(reshape(row.shape, limit->shape, slot.words(), table.logs, at));
        shard.latest_ns.store(at.ns, std::memory_order_relaxed);
        slot.set_meta((slot.meta() & meta::kWaiters) | limit->row);
        shard.mark_changed(slot);
      }
      in_use[slot.row()] = true;
    });
  }
  rows.free_unused(in_use);
}

Instant Engine::Impl::next_instant() const noexcept {
  return earlier_of(holds.next_expiry(), room.next_due());
}

void Engine::Impl::announce() {
  if (!has_wakeup.load(std::memory_order_acquire)) return;
  if (next_instant().ns >= announced_ns.load()) return;
  const std::scoped_lock lock(wakeup_lock);
  announce_next();
}

// Looks again, under the lock: of two who call, the later one leaves what is true then.
void Engine::Impl::announce_next() {
  const Instant next = next_instant();
  if (next.ns < announced_ns.exchange(next.ns) && wakeup) wakeup(next);
}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const RuleSet> rules,
                                               EngineOptions options) noexcept {
  if (rules == nullptr) return bad_argument("engine: the rule set is missing; compile() one");
  if (options.heavy_sample_every == 0) {
    return bad_argument("engine: heavy_sample_every is 0, but it must be 1 or more; write 64");
  }
  try {
    std::unique_ptr<Engine> engine(new Engine(std::make_unique<Impl>(options)));
    Status status = engine->impl_->activate(std::move(rules), Instant{0});
    if (!status) return std::move(status).error();
    return engine;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kExhausted,
                 "engine: no memory for the table; lower keys_max, or allow more memory"};
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

Prepared::Prepared(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

Status Engine::swap(std::shared_ptr<const RuleSet> rules, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (rules == nullptr) return bad_argument("engine: the rule set is missing; compile() one");
  Status status = impl_->activate(std::move(rules), now);
  if (status) impl_->serve_everybody(now);
  return status;
}

std::shared_ptr<const RuleSet> Engine::rules() const noexcept {
  return impl_->current_shared()->rules;
}

Instant Engine::next_instant() const noexcept { return impl_->next_instant(); }

void Engine::advance(Instant now) noexcept {
  if (!is_acceptable(now)) return;
  impl_->expire_holds(now);
  impl_->serve_due(now);
  for (std::size_t i = 0; i < kSweepShards; ++i) {
    const std::size_t at = impl_->sweep_shard.fetch_add(1, std::memory_order_relaxed);
    Shard& shard = impl_->table.shard(at % impl_->table.shard_count());
    const std::scoped_lock lock(shard);
    impl_->table.sweep(shard, now, kSweepSlots);
  }
  // What was announced has come, or has gone: whoever brings the next instant forward sees that.
  const std::scoped_lock lock(impl_->wakeup_lock);
  impl_->announce_next();
}

void Engine::set_wakeup(std::function<void(Instant)> hook) noexcept {
  const std::scoped_lock lock(impl_->wakeup_lock);
  impl_->wakeup = std::move(hook);
  impl_->has_wakeup.store(impl_->wakeup != nullptr, std::memory_order_release);
  impl_->announced_ns.store(kForever.ns, std::memory_order_relaxed);
}

std::vector<HeavyKey> Engine::heaviest(std::string_view limit, std::size_t count) noexcept {
  HeavyKeys all(impl_->options.heavy_keys);
  {
    const std::scoped_lock lock(impl_->locals_lock);
    all.merge(impl_->departed);
    for (const std::shared_ptr<Local>& local : impl_->locals) {
      const std::scoped_lock sketch_lock(local->lock);
      all.merge(local->heavy);
    }
  }
  std::vector<HeavyKey> keys;
  for (HeavyKeys::Entry& entry : all.heaviest(limit, count)) {
    keys.push_back({std::move(entry.text), entry.units});
  }
  return keys;
}

std::size_t Engine::keys() const noexcept { return impl_->table.size(); }
std::size_t Engine::table_bytes() const noexcept { return impl_->table.bytes(); }
std::size_t Engine::holds() const noexcept { return impl_->holds.active(); }
std::size_t Engine::waiters() const noexcept {
  return impl_->room.size() + impl_->shared_waiters.load(std::memory_order_relaxed);
}

}  // namespace weir::engine
