// Waiting, against what first come first served promises.
//
// A stream is a random set of overlapping limits, and waiters that come, give up,
// run out of time and are admitted while holds end and rules change. Time is a
// manual line, driven by next_instant() and advance(). The queue itself is not
// modelled: naive.h keeps the meters, and every answer is held against the promises:
//
//   - it comes once, not after the deadline, and the naive meters can afford it;
//   - nobody passes a gate at which somebody older is known to have a place, so
//     those who want exactly the same are served in the order of their tickets;
//   - whoever shares no gate with anybody older and fits, has been answered, and
//     before anybody younger who wants some of the same;
//   - who is sent away at once could not have been served in time;
//   - everybody with a far deadline is admitted in the end.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/engine/naive.h"
#include "tests/engine/stream.h"
#include "tests/support/on_stack.h"
#include "tests/support/seed.h"
#include "weir/engine/ask.h"
#include "weir/engine/engine.h"
#include "weir/engine/rule_set.h"

namespace weir::engine {
namespace waiting_model_test {

using namespace std::chrono_literals;
using naive::Answer;
using naive::check;
using naive::Cuts;
using naive::describe;
using naive::Failed;
using naive::Key;
using naive::Random;

constexpr std::uint64_t kStreams = 2000;
constexpr int kDrainMax = 5000;  // calls of advance() after which everybody has been served
constexpr std::size_t kGates = 4;
constexpr std::array<std::string_view, kGates> kGateAttributes{"g0", "g1", "g2", "g3"};
const std::vector<std::string_view> kClients{"a", "b"};

enum class Phase { kWaiting, kAnswered, kCancelled };

// Somebody who asks: which gates, for whom, how much.
struct Asker {
  std::vector<Attribute> attributes{};
  std::vector<Cost> costs{};
  Patience options{};
  std::set<Key> keys{};        // of the enforced limits it meets
  std::optional<Key> place{};  // the gate that bound it first
  std::uint64_t ticket = 0;
  Phase phase = Phase::kWaiting;

  Request request() const { return {attributes, costs}; }
  bool shares_a_gate_with(const Asker& other) const {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const Key& key) { return other.keys.contains(key); });
  }
};

// Keeps what the engine records of a request that begins to wait: which limit binds it.
struct LastQueued final : DecisionSink {
  void record(const Ask&, Instant, const Decision& decision) noexcept override {
    if (decision.verdict == Verdict::kQueued) last = decision;
  }
  void record_ad_hoc(const AdHocAsk&, Instant, bool) noexcept override {}

  Decision last;
};

class Stream {
 public:
  static constexpr std::uint64_t kSteps = 80;
  static std::vector<std::string> limits() { return {}; }  // every gate stays

  Stream(std::uint64_t seed, Cuts cuts, bool tracing)
      : seed_(seed), cuts_(std::move(cuts)), trace_(tracing), random_(seed, 0) {}

  // What went wrong, or nothing.
  std::optional<std::string> run() {
    try {
      start();
      for (step_ = 1; step_ <= kSteps; ++step_) {
        if (cuts_.steps.contains(step_)) continue;
        random_ = Random{seed_, step_};
        take_step();
      }
      drain();
    } catch (const Failed& failed) {
      return fmt::format("{}at step {}, {}:\n    {}", trace_.text(), step_, describe(now_),
                         failed.message);
    }
    return std::nullopt;
  }

 private:
  struct Kept {
    HoldId id;
    std::uint64_t number;  // in the model
  };

  // --- rules ---

  Duration drawn_span() {
    return scale_ * random_.between(1, 10) / random_.pick({1, 1, 3}) +
           Duration{random_.between(0, 3)};
  }

  MeterSpec drawn_meter(naive::Kind kind) {
    const std::int64_t limit = random_.between(random_.chance(10) ? 1 : 3, 7);
    switch (kind) {
      case naive::Kind::kBucket:
        return BucketSpec{random_.between(1, 5), drawn_span(), limit};
      case naive::Kind::kTicker:
        return TickerSpec{1, drawn_span(), limit};
      case naive::Kind::kWindow:
        return WindowSpec{limit, drawn_span()};
      case naive::Kind::kLog:
        return LogSpec{limit, drawn_span()};
      case naive::Kind::kSlots:
        return SlotsSpec{limit, small_queues_ ? 2 : 1000, drawn_span()};
    }
    return {};
  }

  void start() {
    scale_ = random_.pick({10ns, Duration{1us}, Duration{1ms}, Duration{1s}});
    small_queues_ = random_.chance(15);
    reentrant_ = random_.chance(20);
    now_ = Instant{random_.pick({std::int64_t{1}, 1'800'000'000'000'000'000})};
    for (const std::string_view attribute : kGateAttributes) {
      LimitSpec limit{.name = "limit-" + std::string{attribute}};
      limit.when = {{std::string{attribute}, {"y"}}};
      if (random_.chance(40)) limit.per = {"client"};
      limit.shadow = !reentrant_ && random_.chance(6);  // it counts by the order of charges
      limit.queue_max = small_queues_ ? random_.between(1, 3) : 1000;
      limit.meter = drawn_meter(random_.pick(
          {naive::Kind::kBucket, naive::Kind::kBucket, naive::Kind::kWindow, naive::Kind::kSlots,
           naive::Kind::kSlots, naive::Kind::kTicker, naive::Kind::kLog}));
      rules_.limits.push_back(std::move(limit));
    }
    rules_.attributes = {"client"};
    trace_("{} rules:\n{}", describe(now_), describe(rules_));
    model_ = std::make_unique<naive::Model>(rules_);
    EngineOptions options{.keys_max = 1 << 14, .log_runs_max = 1 << 22};
    std::mt19937_64 secret{seed_};
    options.secret = Secret{secret(), secret(), secret(), secret()};
    options.sink = &queued_;
    auto engine = Engine::create(compiled(), options);
    check(engine.ok(), "the engine was not created");
    engine_ = std::move(*engine);
  }

  std::shared_ptr<const RuleSet> compiled() {
    auto result = compile(rules_);
    if (!result) throw Failed{"rules refused: " + result.error().message};
    return *result;
  }

  // --- steps ---

  void take_step() {
    move_time();
    const std::int64_t choice = random_.between(1, 100);
    if (choice <= 50) {
      wait();
    } else if (choice <= 60) {
      decide();
    } else if (choice <= 76) {
      end_hold();
    } else if (choice <= 79) {
      renew();
    } else if (choice <= 87) {
      cancel_wait();
    } else if (choice <= 92) {
      override_key();
    } else if (choice <= 95) {
      swap();
    } else if (choice <= 97) {
      reset();
    }
    check_nobody_is_forgotten();
  }

  void move_time() {
    switch (random_.between(0, 7)) {
      case 0:
        return move_to(engine_->next_instant());
      case 1:
        return move_to(engine_->next_instant() - 1ns);
      case 2:
        return move_to(now_ + 1ns);
      case 3:
        return move_to(now_ + Duration{random_.between(0, scale_.count())});
      case 4:
        return move_to(now_ + Duration{random_.between(0, 5 * scale_.count())});
      default:
        return;
    }
  }

  void move_to(Instant to) {
    if (to < now_ || to.ns > kInstantNsMax) return;
    now_ = to;
    trace_("{} now", describe(now_));
    // Called late, it does what it would have done on the way, in that order.
    punctual_ = engine_->next_instant() >= now_;
    model_->advance(now_);
    engine_->advance(now_);
    punctual_ = true;
    check(engine_->next_instant() > now_, "it wants to be called again at once");
    for (const auto& [id, asker] : askers_) {
      check(asker.phase != Phase::kWaiting || asker.options.deadline > now_,
            fmt::format("waiter {} has passed its deadline without an answer", id));
    }
    check_nobody_is_forgotten();
  }

  Asker drawn_asker() {
    Asker asker;
    asker.attributes.push_back({"client", random_.pick(kClients)});
    for (const std::string_view attribute : kGateAttributes) {
      if (random_.chance(45)) asker.attributes.push_back({attribute, "y"});
    }
    asker.costs.push_back({kRequests, random_.between(1, 3)});
    const Duration patience =
        random_.chance(65) ? 10'000'000 * scale_ : Duration{random_.between(0, 8 * scale_.count())};
    asker.options.deadline = now_ + patience;
    if (random_.chance(40)) asker.options.hold = Duration{random_.between(1, 10 * scale_.count())};
    for (const naive::Draw& draw : model_->draws(asker.request())) {
      if (!draw.limit->shadow) asker.keys.insert(draw.key);
    }
    return asker;
  }

  void wait() {
    const std::uint64_t id = next_id_++;
    Asker& asker = askers_[id] = drawn_asker();
    const Request request = asker.request();
    trace_("{} wait {} {} until {} hold {}", describe(now_), id, describe(request),
           describe(asker.options.deadline), asker.options.hold.count());
    const bool alone = waiting() == 1;
    const Answer expected = model_->peek(request, now_);
    const Result<Begun> start =
        engine::wait(*engine_, request, asker.options, now_,
                     [this, id](const Result<Decision>& answer) { called_back(id, answer); });
    if (!start.ok()) throw Failed{"wait: " + start.error().message};
    const bool is_queued = start->decision.verdict == Verdict::kQueued;
    const Decision decision = is_queued ? queued_.last : start->decision;
    trace_("    {} binding '{}' earliest {}", to_string(decision.verdict),
           decision.binding() == nullptr ? "" : decision.binding()->limit,
           describe(decision.earliest));
    check((start->ticket != 0) == (decision.verdict == Verdict::kQueued),
          "a ticket is given to those who wait, and only to them");
    if (decision.verdict != Verdict::kQueued) {
      check(asker.phase == Phase::kWaiting, "answered twice");
      settle_answer(id, decision);
      if (decision.verdict == Verdict::kDenied && alone) {
        check(expected.verdict == Verdict::kDenied &&
                  (expected.earliest > asker.options.deadline || now_ >= asker.options.deadline),
              "nobody is ahead and the deadline can be met, but it was denied");
      }
      return;
    }
    check(start->ticket > last_ticket_, "tickets grow");
    last_ticket_ = start->ticket;
    asker.ticket = start->ticket;
    asker.place = key_of(asker, decision.binding()->limit);
    check(expected.verdict == Verdict::kDenied || !alone, "it fits and nobody is ahead");
    check(engine_->next_instant() <= asker.options.deadline, "nobody will say when it is too late");
  }

  Key key_of(const Asker& asker, std::string_view limit) const {
    for (const Key& key : asker.keys) {
      if (key.first == limit) return key;
    }
    throw Failed{fmt::format("bound by '{}', which it does not meet", limit)};
  }

  void decide() {
    const std::uint64_t id = next_id_++;
    Asker& asker = askers_[id] = drawn_asker();
    asker.phase = Phase::kCancelled;  // nobody waits for it
    const bool alone = waiting() == 0;
    trace_("{} decide {} {}", describe(now_), id, describe(asker.request()));
    const Answer expected = model_->peek(asker.request(), now_);
    const Result<Decision> decision =
        engine::acquire(*engine_, asker.request(), {.hold = asker.options.hold}, now_);
    if (!decision.ok()) throw Failed{"decide: " + decision.error().message};
    if (alone) check(expected.verdict == decision->verdict, "nobody waits, and yet it differs");
    if (decision->allowed()) admitted(id, *decision);
  }

  // When the asker fits everywhere if all who may be ahead are served one by one
  // first, as far as time alone tells.
  Instant served_at(std::uint64_t id, const Asker& asker) const {
    Instant latest = now_;
    for (const Key& key : asker.keys) {
      const std::unique_ptr<naive::Meter> meter = model_->view(key, now_);
      Instant at = now_;
      for (auto other = askers_.begin(); other != askers_.upper_bound(id); ++other) {
        const bool ahead =
            other->second.phase == Phase::kWaiting && other->second.keys.contains(key);
        if (!ahead && other->first != id) continue;
        const std::int64_t cost = other->second.costs[0].amount;
        const meter::Check check = meter->check(at, cost);
        if (check.earliest == kForever) continue;  // slots promise nothing
        at = check.earliest;
        meter->charge(at, cost);
      }
      latest = std::max(latest, at);
    }
    return latest;
  }

  void cancel_wait() {
    if (askers_.empty()) return;
    auto chosen = askers_.begin();
    std::advance(chosen, random_.between(0, static_cast<std::int64_t>(askers_.size()) - 1));
    Asker& asker = chosen->second;
    const bool waits = asker.phase == Phase::kWaiting;
    trace_("{} cancel_wait {} ({})", describe(now_), chosen->first,
           waits ? "waiting" : "not waiting");
    if (waits) asker.phase = Phase::kCancelled;
    const std::uint64_t ticket = asker.ticket == 0 ? last_ticket_ + 1000 : asker.ticket;
    const bool cancelled = engine_->give_up(ticket, now_);
    check(!cancelled || waits, "only who waits can give up");
    if (!waits || cancelled) return;
    check(depth_ > 0, "it waits but cannot give up");
    asker.phase = Phase::kWaiting;  // it has been answered, but not yet been told
  }

  // --- holds, keys, rules: the model first, since answers come during the call ---

  void end_hold() {
    if (holds_.empty()) return;
    const Kept kept = random_.pick(holds_);
    if (!reentrant_ && random_.chance(50)) {
      trace_("{} cancel hold {}", describe(now_), kept.number);
      const HoldState expected = model_->cancel(kept.number, now_);
      check(engine::cancel(*engine_, kept.id, now_) == expected, "the hold stands otherwise");
      return;
    }
    // What comes back depends on the order of charges, so there nothing does.
    const Cost actual[] = {{kRequests, reentrant_ ? 4 : random_.between(0, 4)}};
    trace_("{} settle hold {} with {}", describe(now_), kept.number, actual[0].amount);
    const HoldState expected = model_->settle(kept.number, actual, now_);
    const Result<HoldState> state = engine::settle(*engine_, kept.id, actual, now_);
    check(state.ok() && *state == expected, "the hold stands otherwise");
  }

  void renew() {
    if (holds_.empty()) return;
    const Kept kept = random_.pick(holds_);
    const Duration ttl{random_.between(1, 10 * scale_.count())};
    trace_("{} renew hold {} for {}", describe(now_), kept.number, ttl.count());
    const HoldState expected = model_->renew(kept.number, ttl, now_);
    const Result<HoldState> state = engine::renew(*engine_, kept.id, ttl, now_);
    check(state.ok() && *state == expected, "the hold stands otherwise");
  }

  Key drawn_key() {
    const LimitSpec& limit = random_.pick(rules_.limits);
    Key key{limit.name, {}};
    if (!limit.per.empty()) key.second.emplace_back(random_.pick(kClients));
    return key;
  }

  void override_key() {
    const Key key = drawn_key();
    const std::vector<std::string_view> values{key.second.begin(), key.second.end()};
    if (random_.chance(35)) {
      trace_("{} clear_override {}", describe(now_), describe(key));
      const bool cleared = model_->clear_override(key, now_);
      const Status status = engine_->set_override(key.first, values, std::nullopt, now_);
      return check(status.ok() == cleared, "there is an override, or there is none");
    }
    const MeterSpec spec = drawn_meter(naive::kind_of(model_->find(key.first)->meter));
    trace_("{} set_override {} {}", describe(now_), describe(key), describe(spec));
    model_->set_override(key, spec, now_);
    const Status status = engine_->set_override(key.first, values, spec, now_);
    if (!status.ok()) throw Failed{"override: " + status.error().message};
  }

  void reset() {
    const Key key = drawn_key();
    const std::vector<std::string_view> values{key.second.begin(), key.second.end()};
    trace_("{} reset {}", describe(now_), describe(key));
    model_->reset(key, now_);
    const Status status = engine::reset(*engine_, key.first, values, now_);
    if (!status.ok()) throw Failed{"reset: " + status.error().message};
  }

  void swap() {
    for (LimitSpec& limit : rules_.limits) {
      if (random_.chance(40)) limit.meter = drawn_meter(naive::kind_of(limit.meter));
    }
    trace_("{} swap:\n{}", describe(now_), describe(rules_));
    model_->swap(rules_);
    touch_everything([&](const Request& request) { model_->peek(request, now_); });
    const Status status = engine_->swap(compiled(), now_);
    if (!status.ok()) throw Failed{"swap: " + status.error().message};
    touch_everything(
        [&](const Request& request) { check(engine_->peek(request, now_).ok(), "peek failed"); });
  }

  // Meters are converted when they are touched, and waiters touch them unseen.
  template <typename Touch>
  static void touch_everything(Touch&& touch) {
    for (const std::string_view client : kClients) {
      std::vector<Attribute> attributes{{"client", client}};
      for (const std::string_view attribute : kGateAttributes)
        attributes.push_back({attribute, "y"});
      touch(Request{attributes, {}});
    }
  }

  // --- answers ---

  void called_back(std::uint64_t id, const Result<Decision>& answer) {
    // An exception must not pass through the engine.
    try {
      if (!answer.ok()) throw Failed{"answered with an error: " + answer.error().message};
      trace_("    answer to {}: {} earliest {}", id, to_string(answer->verdict),
             describe(answer->earliest));
      check(askers_[id].phase == Phase::kWaiting, fmt::format("waiter {} is answered again", id));
      settle_answer(id, *answer);
      if (reentrant_ && depth_ == 0 && random_.chance(30)) call_the_engine();
    } catch (const Failed& failed) {
      if (!failed_inside_) failed_inside_ = failed;
    }
  }

  // Callbacks run with no lock held, so they may do this. Holds are left alone: what
  // comes back is capped, so it matters who was charged before, and the model learns
  // of others only when they are told.
  void call_the_engine() {
    depth_ += 1;
    trace_("    from the callback:");
    switch (random_.between(0, 2)) {
      case 0:
        cancel_wait();
        break;
      case 1:
        decide();
        break;
      default:
        wait();
    }
    depth_ -= 1;
  }

  void settle_answer(std::uint64_t id, const Decision& decision) {
    Asker& asker = askers_[id];
    asker.phase = Phase::kAnswered;
    switch (decision.verdict) {
      case Verdict::kAllowed:
        check(now_ <= asker.options.deadline, "admitted after its deadline");
        return admitted(id, decision);
      case Verdict::kDenied: {
        check(now_ >= asker.options.deadline || decision.earliest > asker.options.deadline,
              fmt::format("waiter {} is denied, but the deadline can be met", id));
        const bool early = now_ < asker.options.deadline && !reentrant_;
        check(!early || decision.earliest <= served_at(id, asker),
              fmt::format("waiter {} is told {}, but after those ahead it fits at {}", id,
                          describe(decision.earliest), describe(served_at(id, asker))));
        const bool fits = model_->peek(asker.request(), now_).verdict == Verdict::kAllowed;
        check(!fits || now_ > asker.options.deadline || reentrant_ || is_behind(asker, id),
              fmt::format("waiter {} is denied in time, though it fits", id));
        return;
      }
      case Verdict::kNever:
        return check(model_->peek(asker.request(), now_).verdict == Verdict::kNever,
                     fmt::format("waiter {} is told never, but it can be", id));
      case Verdict::kOverloaded:
        return check(small_queues_, "no queue is full");
      case Verdict::kQueued:
        throw Failed{"queued is not an answer"};
    }
  }

  // The naive meters take the same, and must have had it.
  void admitted(std::uint64_t id, const Decision& decision) {
    const Asker& asker = askers_[id];
    check_nobody_older_was_passed(id, asker);
    const Answer expected = model_->acquire(asker.request(), {.hold = asker.options.hold}, now_);
    check(expected.verdict == Verdict::kAllowed,
          fmt::format("{} is admitted beyond a limit: {}", id, describe(expected)));
    if (decision.hold) holds_.push_back({decision.hold, expected.hold});
    if (reentrant_) return;  // charges and answers come in different orders
    const std::string different = naive::difference(expected, decision);
    check(different.empty(), fmt::format("{} is answered otherwise: {}", id, different));
  }

  // --- promises ---

  // Whoever comes later has a higher id.
  void check_nobody_older_was_passed(std::uint64_t id, const Asker& asker) {
    if (reentrant_) return;  // somebody may have been admitted and not yet been told
    for (const auto& [older_id, older] : askers_) {
      if (older_id >= id) break;
      if (older.phase != Phase::kWaiting) continue;
      check(older.keys != asker.keys,
            fmt::format("{} is served before {}, which wants the same", id, older_id));
      check(!older.place || !asker.keys.contains(*older.place),
            fmt::format("{} passes a gate at which {} waits", id, older_id));
      const bool overtaken = punctual_ && older.shares_a_gate_with(asker) &&
                             !is_behind(older, older_id) &&
                             model_->peek(older.request(), now_).verdict == Verdict::kAllowed;
      check(!overtaken, fmt::format("{} is served before {}, which fits too", id, older_id));
    }
  }

  bool is_behind(const Asker& asker, std::uint64_t id) const {
    return std::any_of(askers_.begin(), askers_.lower_bound(id), [&](const auto& entry) {
      return entry.second.phase == Phase::kWaiting && entry.second.shares_a_gate_with(asker);
    });
  }

  // No wake-up was lost: who fits and is behind nobody has been answered.
  void check_nobody_is_forgotten() {
    if (failed_inside_) throw *failed_inside_;
    check(engine_->usage().waiters == waiting(),
          fmt::format("{} wait, expected {}", engine_->usage().waiters, waiting()));
    for (const auto& [id, asker] : askers_) {
      if (asker.phase != Phase::kWaiting || is_behind(asker, id)) continue;
      const Answer fits = model_->peek(asker.request(), now_);
      check(fits.verdict != Verdict::kAllowed,
            fmt::format("waiter {} fits and nobody is ahead, but it waits", id));
      check(
          fits.earliest == kForever || engine_->next_instant() <= fits.earliest,
          fmt::format("nobody will wake waiter {}, which fits at {}", id, describe(fits.earliest)));
    }
  }

  // Nobody comes any more: time and holds that end let everybody in.
  void drain() {
    reentrant_ = false;
    std::set<std::uint64_t> patient;
    for (const auto& [id, asker] : askers_) {
      if (asker.phase == Phase::kWaiting && asker.options.deadline > now_ + 1'000'000 * scale_) {
        patient.insert(id);
      }
    }
    for (int calls = 0; waiting() > 0; ++calls) {
      const Instant next = engine_->next_instant();
      check(next < kForever, "somebody waits and nobody will wake him");
      check(calls < kDrainMax, "somebody starves");
      move_to(next);
    }
    for (const std::uint64_t id : patient) {
      check(now_ < askers_[id].options.deadline, fmt::format("waiter {} starved", id));
    }
  }

  std::size_t waiting() const {
    return static_cast<std::size_t>(
        std::count_if(askers_.begin(), askers_.end(),
                      [](const auto& entry) { return entry.second.phase == Phase::kWaiting; }));
  }

  const std::uint64_t seed_;
  const Cuts cuts_;
  naive::Trace trace_;
  Random random_;
  std::uint64_t step_ = 0;
  Duration scale_{};
  bool small_queues_ = false;
  bool reentrant_ = false;
  bool punctual_ = true;
  int depth_ = 0;
  Instant now_{};
  RuleSetSpec rules_;
  std::unique_ptr<naive::Model> model_;
  LastQueued queued_;
  std::unique_ptr<Engine> engine_;
  std::map<std::uint64_t, Asker> askers_;  // by the order of coming
  std::uint64_t next_id_ = 1;
  std::uint64_t last_ticket_ = 0;
  std::vector<Kept> holds_;
  std::optional<Failed> failed_inside_;
};

TEST(WaitingModel, ServesFirstComeFirstAndForgetsNobody) {
  const auto failure = naive::first_failure<Stream>(kStreams);
  EXPECT_FALSE(failure) << *failure;
}

}  // namespace waiting_model_test
}  // namespace weir::engine
