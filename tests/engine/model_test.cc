// The engine against the naive one, decision by decision.
//
// A stream is a random rule set and a few dozen random calls, made of one seed.
// Time moves by nothing, a nanosecond, to promised instants and one before them,
// or by far. Every answer must be the one naive.h gives. Now and then the engine is
// replaced by a fresh one that gets its state. A stream that differs is
// made shorter, limit by limit and call by call, before it is shown.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/engine/drawn_rules.h"
#include "tests/engine/kept_state.h"
#include "tests/engine/naive.h"
#include "tests/engine/stream.h"
#include "tests/support/on_stack.h"
#include "tests/support/seed.h"
#include "weir/engine/engine.h"
#include "weir/engine/rule_set.h"
#include "weir/engine/state.h"

namespace weir::engine {
namespace model_test {

using namespace std::chrono_literals;
using naive::Answer;
using naive::check;
using naive::Cuts;
using naive::describe;
using naive::Drawer;
using naive::Failed;
using naive::kAttributeNames;
using naive::Key;
using naive::kNames;
using naive::kUnits;
using naive::kValues;
using naive::Random;

constexpr std::uint64_t kStreams = 4000;

// A request that owns what its view points to.
struct Question {
  std::vector<Attribute> attributes{};
  std::vector<Cost> costs{};
  Wants options{};

  Request request() const { return {attributes, costs}; }
  bool plain() const {
    return options.hold == 0ns && options.up_to.empty() && options.book_within == 0ns;
  }
};

class Stream {
 public:
  static constexpr std::uint64_t kSteps = 60;
  static std::vector<std::string> limits() {
    std::vector<std::string> names;
    for (int name = 0; name < kNames; ++name) names.push_back(fmt::format("L{}", name));
    return names;
  }

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
        if (step_ % 8 == 0) inspect_everything();
      }
      step_ = kSteps;
      inspect_everything();
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
  struct PreparedAsk {
    Question ask;
    Prepared prepared;
  };

  void start() {
    scale_ = random_.pick({10ns, Duration{1us}, Duration{1ms}, Duration{1s}, Duration{1min},
                           Duration{1h}, Duration{1h}});
    constexpr std::int64_t kNewYear2028Ns = 1'830'297'600'000'000'000;
    now_ = Instant{random_.pick({std::int64_t{0}, std::int64_t{1}, 1'800'000'000'000'000'000,
                                 kNewYear2028Ns - 10, kNewYear2028Ns - scale_.count(),
                                 random_.between(0, kInstantNsMax / 2),
                                 kInstantNsMax - 1000 * scale_.count()})};
    drawn_rules_ = Drawer{random_, scale_, now_}.rules();
    const RuleSetSpec rules = without_cut_limits(drawn_rules_);
    model_ = std::make_unique<naive::Model>(rules);
    trace_("{} rules:\n{}", describe(now_), describe(rules));
    engine_ = fresh_engine(rules);
  }

  std::unique_ptr<Engine> fresh_engine(const RuleSetSpec& rules) {
    EngineOptions options{
        .keys_max = 1 << 14, .log_runs_max = 1 << 22, .owner = seed_, .durable = true};
    std::mt19937_64 secret{seed_};  // the same shards every time
    options.secret = Secret{secret(), secret(), secret(), secret()};
    auto engine = Engine::create(compiled(rules), options);
    check(engine.ok(), "the engine was not created");
    return std::move(*engine);
  }

  RuleSetSpec without_cut_limits(RuleSetSpec rules) const {
    std::erase_if(rules.limits,
                  [&](const LimitSpec& limit) { return cuts_.limits.contains(limit.name); });
    for (LimitSpec& limit : rules.limits) {
      if (cuts_.limits.contains(limit.parent)) limit.parent.clear();
    }
    return rules;
  }

  std::shared_ptr<const RuleSet> compiled(const RuleSetSpec& rules) {
    auto result = compile(rules);
    if (!result) throw Failed{"rules refused: " + result.error().message};
    return *result;
  }

  void take_step() {
    move_time();
    const std::int64_t choice = random_.between(1, 100);
    if (choice <= 30) return decide(drawn_ask());
    if (choice <= 48) return acquire();
    if (choice <= 54) return peek();
    if (choice <= 60) return batch();
    if (choice <= 66) return prepared();
    if (choice <= 76) return end_hold();
    if (choice <= 79) return renew();
    if (choice <= 85) return override_key();
    if (choice <= 90) return swap();
    if (choice <= 92) return reset();
    if (choice <= 95) return inspect(drawn_key());
    if (choice <= 96) return ask_badly();
    if (choice <= 98) return restart();
    hammer();
  }

  // --- time ---

  void move_time() {
    switch (random_.between(0, 9)) {
      case 0:
      case 1:
      case 2:
        return;
      case 3:
        return move_to(now_ + 1ns);
      case 4:
        return move_to(now_ + Duration{random_.between(0, scale_.count())});
      case 5:
        return move_to(now_ + Duration{random_.between(0, 10 * scale_.count())});
      case 6:
        return move_to(now_ + random_.pick({Duration{1h}, Duration{24h}, Duration{1s}}));
      case 7:
        return move_to(model_->next_expiry() - Duration{random_.between(0, 1)});
      default:
        if (!promises_.empty()) move_to(random_.pick(promises_) - Duration{random_.between(0, 1)});
    }
  }

  // Never backwards, never beyond the last instant.
  void move_to(Instant to) {
    if (to <= now_ || to.ns > kInstantNsMax) return;
    now_ = to;
    trace_("{} now", describe(now_));
    check(engine_->next_instant() <= model_->next_expiry(),
          "a hold expires and the engine does not want to be called");
    model_->advance(now_);
    // Whether or not anybody calls the engine, expired is expired.
    if (random_.chance(40)) return;
    engine_->advance(now_);
    check(engine_->usage().holds == model_->active_holds(),
          fmt::format("{} active holds, expected {}", engine_->usage().holds,
                      model_->active_holds()));
  }

  // --- asking ---

  Question drawn_ask() {
    Question ask;
    for (std::size_t i = 0; i < kAttributeNames.size(); ++i) {
      if (random_.chance(88)) {
        ask.attributes.push_back({kAttributeNames[i], random_.pick(kValues[i])});
      }
    }
    if (random_.chance(30)) ask.costs.push_back({kUnits[0], random_.between(0, 4)});
    if (random_.chance(70)) ask.costs.push_back({kUnits[1], drawn_cost()});
    if (random_.chance(50)) ask.costs.push_back({kUnits[2], drawn_cost()});
    // Or more than anything holds; its weight must not bring it above 2^62, which is an error.
    if (!ask.costs.empty() && random_.chance(2)) {
      ask.costs.back().amount = kTermMax / 10 - random_.between(0, 3);
    }
    return ask;
  }

  std::int64_t drawn_cost() {
    return random_.chance(85) ? random_.between(0, 6) : random_.between(0, 150);
  }

  Result<Decision> ask_engine(const Question& ask) {
    return ask.plain() ? engine_->decide(ask.request(), now_)
                       : engine::acquire(*engine_, ask.request(), ask.options, now_);
  }

  // Asks both, compares, and remembers what was promised and what is held.
  Answer ask_both(const Question& ask) {
    if (ask.options.book_within > 0ns) {
      const std::string limit = model_->unbookable(ask.request(), now_);
      if (!limit.empty()) return refuse_booking(ask, limit);
    }
    const Answer expected = model_->acquire(ask.request(), ask.options, now_);
    const Result<Decision> actual = ask_engine(ask);
    trace_("{} ask {} hold {} up_to '{}' book {}: {}", describe(now_), describe(ask.request()),
           ask.options.hold.count(), ask.options.up_to, ask.options.book_within.count(),
           short_text(expected));
    compare(expected, actual);
    return expected;
  }

  Answer refuse_booking(const Question& ask, const std::string& limit) {
    const Result<Decision> actual = ask_engine(ask);
    trace_("{} book {}: refused by {}", describe(now_), describe(ask.request()), limit);
    check(!actual.ok(), "booked at '" + limit + "'");
    const std::string named = "limit '" + limit + "': it cannot be booked ahead";
    check(actual.error().message.starts_with(named), "another error: " + actual.error().message);
    return {.verdict = Verdict::kNever};
  }

  void compare(const Answer& expected, const Result<Decision>& actual) {
    if (!actual.ok()) throw Failed{"error: " + actual.error().message};
    const std::string different = naive::difference(expected, *actual);
    if (!different.empty()) throw Failed{different};
    if (expected.earliest > now_ && expected.earliest < kForever) {
      promises_.push_back(expected.earliest);
    }
    if (expected.hold != 0) holds_.push_back({actual->hold, expected.hold});
  }

  void decide(const Question& ask) {
    const Answer answer = ask_both(ask);
    if (answer.verdict == Verdict::kDenied && random_.chance(40)) chase(ask, answer.earliest);
  }

  // What was promised must hold when nothing else happens: one nanosecond before
  // it the request is denied, and at the instant it is allowed.
  void chase(Question ask, Instant promised) {
    if (promised.ns > kInstantNsMax) return;
    ask.options.book_within = 0ns;
    if (promised - 1ns > now_) {
      move_to(promised - 1ns);
      check(ask_both(ask).verdict == Verdict::kDenied, "allowed before the promised instant");
    }
    move_to(promised);
    check(ask_both(ask).verdict == Verdict::kAllowed, "denied at the promised instant");
  }

  void acquire() {
    Question ask = drawn_ask();
    if (random_.chance(60)) ask.options.hold = Duration{random_.between(1, 20 * scale_.count())};
    if (random_.chance(40)) {
      ask.options.up_to = random_.pick({kUnits[0], kUnits[1], kUnits[2]});
      std::erase_if(ask.costs, [&](const Cost& cost) { return cost.unit == ask.options.up_to; });
      for (const std::string_view unit : kUnits) {
        if (unit == ask.options.up_to) ask.costs.push_back({unit, 1 + drawn_cost()});
      }
    }
    if (random_.chance(20)) {
      ask.options.book_within = Duration{random_.between(1, 20 * scale_.count())};
    }
    decide(ask);
  }

  void peek() {
    const Question ask = drawn_ask();
    const Answer expected = model_->peek(ask.request(), now_);
    trace_("{} peek {}: {}", describe(now_), describe(ask.request()), short_text(expected));
    compare(expected, engine_->peek(ask.request(), now_));
  }

  void batch() {
    std::vector<Question> asks;
    std::vector<Request> requests;
    for (std::int64_t n = random_.between(1, 20); n > 0; --n) asks.push_back(drawn_ask());
    for (const Question& ask : asks) requests.push_back(ask.request());
    std::vector<Result<Decision>> answers(asks.size(), Result<Decision>{Error{}});
    engine_->decide(requests, now_, answers);
    trace_("{} batch of {}", describe(now_), asks.size());
    for (std::size_t i = 0; i < asks.size(); ++i) {
      const Answer expected = model_->decide(requests[i], now_);
      trace_("    {}: {}", describe(requests[i]), short_text(expected));
      compare(expected, answers[i]);
    }
  }

  void prepared() {
    if (prepared_.size() < 3) {
      Question ask = drawn_ask();
      auto made = engine_->prepare(ask.request());
      if (!made) throw Failed{"not prepared: " + made.error().message};
      prepared_.push_back({std::move(ask), std::move(*made)});
    }
    const auto last = static_cast<std::int64_t>(prepared_.size()) - 1;
    PreparedAsk& chosen = prepared_[static_cast<std::size_t>(random_.between(0, last))];
    const Answer expected = model_->decide(chosen.ask.request(), now_);
    trace_("{} prepared {}: {}", describe(now_), describe(chosen.ask.request()),
           short_text(expected));
    compare(expected, engine_->decide(chosen.prepared, now_));
  }

  // The same request until it is refused, then to the promised instant.
  void hammer() {
    const Question ask = drawn_ask();
    for (int n = 0; n < 15; ++n) {
      const Answer answer = ask_both(ask);
      if (answer.verdict == Verdict::kDenied) return chase(ask, answer.earliest);
    }
  }

  void ask_badly() {
    Question ask = drawn_ask();
    switch (random_.between(0, 2)) {
      case 0:
        ask.attributes.push_back({"colour", "red"});
        break;
      case 1:
        ask.costs.push_back({"bananas", 1});
        break;
      default:
        ask.costs = {{kUnits[1], -1}};
    }
    trace_("{} bad {}", describe(now_), describe(ask.request()));
    const Result<Decision> answer = engine_->decide(ask.request(), now_);
    check(!answer.ok() && answer.error().code == ErrorCode::kBadArgument,
          "a bad request was answered");
  }

  // --- holds ---

  void end_hold() {
    if (holds_.empty()) return;
    const Kept& kept = random_.pick(holds_);
    const bool twice = random_.chance(25);
    for (int n = twice ? 2 : 1; n > 0; --n) {
      if (random_.chance(30)) {
        cancel(kept);
      } else {
        settle(kept);
      }
    }
  }

  void settle(const Kept& kept) {
    std::vector<Cost> actual;
    for (const std::string_view unit : kUnits) {
      if (random_.chance(50)) actual.push_back({unit, drawn_cost()});
    }
    ended_.insert(kept.number);
    trace_("{} settle hold {} {}", describe(now_), kept.number, describe(Request{{}, actual}));
    const HoldState expected = model_->settle(kept.number, actual, now_);
    const Result<HoldState> state = engine::settle(*engine_, kept.id, actual, now_);
    if (!state) throw Failed{"settle: " + state.error().message};
    compare(expected, *state);
  }

  void cancel(const Kept& kept) {
    ended_.insert(kept.number);
    trace_("{} cancel hold {}", describe(now_), kept.number);
    const HoldState expected = model_->cancel(kept.number, now_);
    compare(expected, engine::cancel(*engine_, kept.id, now_));
  }

  void renew() {
    if (holds_.empty()) return;
    const Kept& kept = random_.pick(holds_);
    const Duration ttl{random_.between(1, 20 * scale_.count())};
    trace_("{} renew hold {} for {}", describe(now_), kept.number, ttl.count());
    const HoldState expected = model_->renew(kept.number, ttl, now_);
    const Result<HoldState> state = engine::renew(*engine_, kept.id, ttl, now_);
    if (!state) throw Failed{"renew: " + state.error().message};
    compare(expected, *state);
  }

  void compare(HoldState expected, HoldState actual) {
    check(expected == actual,
          fmt::format("the hold is {}, expected {}", to_string(actual), to_string(expected)));
  }

  // --- keys and rules ---

  // Nothing if no limit is left.
  std::optional<Key> drawn_key() {
    const std::vector<Key> known = model_->keys();
    if (!known.empty() && random_.chance(75)) return random_.pick(known);
    if (model_->rules().limits.empty()) return std::nullopt;
    const LimitSpec& limit = random_.pick(model_->rules().limits);
    Key key{limit.name, {}};
    for (const std::string& name : limit.per) {
      for (std::size_t i = 0; i < kAttributeNames.size(); ++i) {
        if (kAttributeNames[i] == name) key.second.emplace_back(random_.pick(kValues[i]));
      }
    }
    return key;
  }

  // A limit whose key attributes have changed keeps old keys of another length,
  // which nobody can name any more.
  bool nameable(const Key& key) const {
    return model_->find(key.first)->per.size() == key.second.size();
  }

  static std::vector<std::string_view> values(const Key& key) {
    return {key.second.begin(), key.second.end()};
  }

  void override_key() {
    const std::optional<Key> key = drawn_key();
    if (!key || !nameable(*key)) return;
    if (random_.chance(35)) {
      trace_("{} clear_override {}", describe(now_), describe(*key));
      const bool cleared = model_->clear_override(*key, now_);
      const Status status = engine_->set_override(key->first, values(*key), std::nullopt, now_);
      return check(
          status.ok() == cleared && (cleared || status.error().code == ErrorCode::kNotFound),
          cleared ? "the override was not cleared" : "there was an override to clear");
    }
    const MeterSpec spec = Drawer{random_, scale_, now_}.changed(model_->parameters(*key));
    trace_("{} set_override {} {}", describe(now_), describe(*key), describe(spec));
    model_->set_override(*key, spec, now_);
    succeed(engine_->set_override(key->first, values(*key), spec, now_));
  }

  void reset() {
    const std::optional<Key> key = drawn_key();
    if (!key || !nameable(*key)) return;
    trace_("{} reset {}", describe(now_), describe(*key));
    model_->reset(*key, now_);
    succeed(engine::reset(*engine_, key->first, values(*key), now_));
  }

  void swap() {
    drawn_rules_ = Drawer{random_, scale_, now_}.changed(drawn_rules_);
    const RuleSetSpec rules = without_cut_limits(drawn_rules_);
    trace_("{} swap:\n{}", describe(now_), describe(rules));
    model_->swap(rules);
    succeed(engine_->swap(compiled(rules), now_));
  }

  // A new process: only what was collected is left. It is collected at other times
  // too, so that most of it is older.
  void restart() {
    trace_("{} collect", describe(now_));
    kept_.collect(*engine_, now_);
    if (random_.chance(50)) return;
    trace_("{} restart", describe(now_));
    prepared_.clear();
    engine_ = fresh_engine(without_cut_limits(drawn_rules_));
    model_->restart();
    auto report = kept_.restore(*engine_, now_);
    if (!report) throw Failed{"not restored: " + report.error().message};
    // How a hold has ended is not remembered.
    std::erase_if(holds_, [&](const Kept& kept) { return ended_.contains(kept.number); });
  }

  void inspect(const std::optional<Key>& key) {
    if (!key || !nameable(*key)) return;
    const Inspection expected = model_->inspect(*key, now_);
    const Result<Inspection> actual = engine::inspect(*engine_, key->first, values(*key), now_);
    if (!actual) throw Failed{"inspect: " + actual.error().message};
    const auto text = [](const Inspection& of) {
      return fmt::format("{} of {}{}", of.remaining, of.capacity,
                         of.overridden ? ", overridden" : "");
    };
    check(text(expected) == text(*actual),
          fmt::format("{} has {}, expected {}", describe(*key), text(*actual), text(expected)));
  }

  void inspect_everything() {
    for (const Key& key : model_->keys()) inspect(key);
  }

  void succeed(const Status& status) {
    if (!status.ok()) throw Failed{"error: " + status.error().message};
  }

  static std::string short_text(const Answer& answer) {
    return fmt::format("{} {} {}{}", to_string(answer.verdict), answer.binding,
                       describe(answer.earliest),
                       answer.hold == 0 ? "" : fmt::format(" hold {}", answer.hold));
  }

  const std::uint64_t seed_;
  const Cuts cuts_;
  naive::Trace trace_;
  Random random_;
  std::uint64_t step_ = 0;
  Duration scale_{};
  Instant now_{};
  RuleSetSpec drawn_rules_;  // the limits that are cut included
  std::unique_ptr<naive::Model> model_;
  std::unique_ptr<Engine> engine_;
  std::vector<Instant> promises_;
  std::vector<Kept> holds_;
  std::set<std::uint64_t> ended_;  // of the model's numbers
  KeptState kept_;
  std::vector<PreparedAsk> prepared_;
};

TEST(EngineModel, DecidesAsTheNaiveEngineDoes) {
  const auto failure = naive::first_failure<Stream>(kStreams);
  EXPECT_FALSE(failure) << *failure;
}

}  // namespace model_test
}  // namespace weir::engine
