// What shared limits read from a Redis, in any order and form: decisions, draws of leases,
// records of holds, epochs.
//
// The first byte chooses. Any bytes are read as the record of a hold; or a Redis is played to the
// parts of one server: the input is a list of operations, each a byte and what it needs. Whatever
// it answers, each question is answered once, by a decision for each limit or an error with a
// message, and no lease holds more than it may.

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/input.h"
#include "weir/engine/rules.h"
#include "weir/store/redis/shared/decisions.h"
#include "weir/store/redis/shared/holds.h"
#include "weir/store/redis/shared/leases.h"
#include "weir/store/redis/shared/levels.h"
#include "weir/store/redis/shared/redis_leases.h"
#include "weir/store/redis/shared/scripts.h"
#include "weir/testing/manual_clock.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::HoldState;
using engine::SharedItem;
using fuzz::check;
using fuzz::Input;

constexpr Instant kStart{1'770'000'000'000'000'000};
constexpr std::size_t kStepsMax = 200;

// One that matters, as a script would send it, or as none would.
std::int64_t integer(Input& input) {
  constexpr std::int64_t kNowUs = kStart.ns / kNsPerUs;
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  constexpr std::array<std::int64_t, 16> kIntegers = {0,
                                                      1,
                                                      2,
                                                      4,
                                                      1'000,
                                                      kNowUs,
                                                      kNowUs + 333'333,
                                                      kNowUs + 60'000'000,
                                                      kExact,
                                                      kExact + 1,
                                                      kTermMax,
                                                      std::numeric_limits<std::int64_t>::max(),
                                                      std::numeric_limits<std::int64_t>::min(),
                                                      -1,
                                                      -kExact,
                                                      kInstantNsMax / kNsPerUs};
  const std::uint8_t which = input.byte();
  if (which < 240) return kIntegers[which % kIntegers.size()];
  return static_cast<std::int64_t>(input.integer(8));
}

void append_number(std::string& out, Input& input) {
  const std::uint8_t which = input.byte();
  const double number = which == 255   ? std::numeric_limits<double>::quiet_NaN()
                        : which == 254 ? std::numeric_limits<double>::infinity()
                                       : static_cast<double>(integer(input));
  append_bytes(out, std::bit_cast<std::uint64_t>(number), 8);
}

void append_text(std::string& out, std::string_view text) {
  append_bytes(out, text.size(), 2);
  out += text;
}

// As decide.lua and hold_record() write it.
std::string record_text(const HoldRecord& record) {
  std::string out = "a";
  append_bytes(out, 0, 8);
  append_bytes(out, record.parts.size(), 1);
  for (const HoldPart& part : record.parts) {
    append_bytes(out, std::bit_cast<std::uint64_t>(static_cast<double>(part.charged_at_us)), 8);
  }
  for (const HoldPart& part : record.parts) {
    append_text(out, part.limit);
    append_text(out, part.unit);
    append_text(out, part.key);
    append_bytes(out, static_cast<std::uint64_t>(part.amount), 8);
    append_bytes(out, static_cast<std::uint64_t>(part.weight), 8);
  }
  return out;
}

void read_any_record(std::string_view text) {
  const auto record = read_record(text);
  if (!record) return;
  check(record->state != HoldState::kGone);
  check(record->state == HoldState::kActive || record->parts.empty());
  for (const HoldPart& part : record->parts) {
    check(part.amount >= 0 && part.amount <= kTermMax && part.weight >= 0);
  }
  if (record->state != HoldState::kActive) return;
  // An instant beyond what a double has exactly is read as that double.
  const auto again = read_record(record_text(*record));
  check(again && again->state == record->state && again->parts.size() == record->parts.size());
  check(record_text(*again) == record_text(*record));
}

// No two texts are escaped alike, and a key has no sign of its own in it.
void escape_any(std::string_view text) {
  std::string escaped;
  append_escaped(escaped, text);
  check(escaped.find_first_of(":{} \n") == std::string::npos);
  std::string plain;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '%') {
      plain += escaped[i];
      continue;
    }
    check(i + 2 < escaped.size());
    plain += static_cast<char>(std::stoi(escaped.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  check(plain == text);
}

enum class Form : std::uint8_t { kNumbers, kDoubles, kDraw, kLetter, kReset, kRecord };

// Keeps questions until the input answers them.
struct Asked {
  Form form = Form::kRecord;
  std::size_t count = 0;  // of numbers
  AnswerCallback done;
  AnswerCallback late;
};

class PlayedClient final : public Client {
 public:
  explicit PlayedClient(std::deque<Asked>& asked) : asked_(asked) {}

  void send(Words, AnswerCallback done, RequestOptions options) override {
    asked_.push_back({Form::kRecord, 0, std::move(done), std::move(options.late)});
  }
  void call(const Script& script, Words, Words arguments, AnswerCallback done,
            RequestOptions options) override {
    const SharedScripts& known = shared_scripts();
    Asked asked{Form::kLetter, 0, std::move(done), std::move(options.late)};
    if (&script == &known.decide) {
      asked.form = Form::kNumbers;
      asked.count = 2 * (arguments.size() - 7);
    } else if (&script == &known.one_bucket) {
      asked.form = Form::kDoubles;
      asked.count = 4;
    } else if (&script == &known.buckets) {
      asked.form = Form::kDoubles;
      asked.count = count_of(arguments[2]);
    } else if (&script == &known.draw) {
      asked.form = Form::kDraw;
    } else if (&script == &known.reset) {
      asked.form = Form::kReset;
    }
    asked_.push_back(std::move(asked));
  }
  void flush() override {}
  bool is_up() const override { return true; }
  ClientCounts counts() const override { return {}; }
  void close() override {}

 private:
  // Now, and for each request its verdict and two numbers a bucket.
  static std::size_t count_of(std::string_view plan) {
    std::size_t count = 1;
    while (!plan.empty()) {
      const auto items = static_cast<std::size_t>(plan[0]);
      count += 1 + 2 * items;
      plan.remove_prefix(1 + items);
    }
    return count;
  }

  std::deque<Asked>& asked_;
};

// A reply that hiredis would have made.
class MadeReply {
 public:
  MadeReply& add(std::int64_t number) {
    redisReply& part = parts_.emplace_back();
    part.type = REDIS_REPLY_INTEGER;
    part.integer = number;
    return *this;
  }
  MadeReply& add(std::string_view text) {
    redisReply& part = parts_.emplace_back();
    part.type = REDIS_REPLY_STRING;
    std::string& kept = texts_.emplace_back(text);
    part.str = kept.data();
    part.len = kept.size();
    return *this;
  }
  Reply array() {
    for (redisReply& part : parts_) places_.push_back(&part);
    whole_.type = REDIS_REPLY_ARRAY;
    whole_.elements = places_.size();
    whole_.element = places_.data();
    return Reply(&whole_);
  }
  Reply first() { return Reply(&parts_.front()); }

 private:
  std::deque<redisReply> parts_;
  std::deque<std::string> texts_;
  std::vector<redisReply*> places_;
  redisReply whole_{};
};

std::shared_ptr<const engine::RuleSet> make_rules() {
  engine::RuleSetSpec spec{
      .limits = {{.name = "b", .per = {"client"}, .meter = engine::BucketSpec{3, 10s, 4}},
                 {.name = "shadow",
                  .per = {"client"},
                  .shadow = true,
                  .meter = engine::BucketSpec{1, 1min, 2}},
                 {.name = "t", .per = {"client"}, .meter = engine::TickerSpec{2, 1s, 4}},
                 {.name = "w", .per = {"client"}, .meter = engine::WindowSpec{9, 1min}},
                 {.name = "month",
                  .per = {"client"},
                  .meter = engine::CalendarSpec{9, meter::CalendarUnit::kMonth}},
                 {.name = "l", .per = {"client"}, .meter = engine::LogSpec{9, 1h}},
                 {.name = "s", .per = {"client"}, .meter = engine::SlotsSpec{2, 2, 1s}},
                 {.name = "ahead", .per = {"client"}, .meter = engine::BucketSpec{100, 1s, 200}},
                 {.name = "ahead_w", .per = {"client"}, .meter = engine::WindowSpec{100, 1s}},
                 {.name = "ahead_l", .per = {"client"}, .meter = engine::LogSpec{100, 1s}},
                 {.name = "ahead_t", .per = {"client"}, .meter = engine::TickerSpec{5, 1s, 50}}}};
  for (engine::LimitSpec& limit : spec.limits) {
    limit.shared = engine::SharedSpec{};
    if (limit.name.starts_with("ahead")) limit.shared->lease = engine::LeaseSpec{20, 1s};
  }
  auto rules = engine::compile(spec);
  check(rules.ok());
  return *rules;
}

const std::shared_ptr<const engine::RuleSet>& rules() {
  static const std::shared_ptr<const engine::RuleSet> made = make_rules();
  return made;
}

class Game {
 public:
  explicit Game(Loop& loop)
      : loop_(loop),
        clock_(kStart),
        fleet_("fuzz", clock_, nullptr),
        outages_({}, clock_, {}, {}),
        connections_(
            loop, {}, 1,
            [this](Loop&, ClientOptions) { return std::make_unique<PlayedClient>(asked_); }),
        holds_(fleet_, connections_, epochs_, outages_),
        doubtful_(holds_),
        decisions_(fleet_, connections_, epochs_, outages_, holds_, doubtful_),
        source_(fleet_, connections_, epochs_, outages_, decisions_),
        leases_(source_, fleet_.prefix),
        levels_(fleet_, connections_, epochs_, outages_, source_, leases_) {
    connections_.open({});
    connections_.attach(loop_);
    epochs_.learn("0123456789abcdef:0");
  }

  void play(Input input) {
    for (std::size_t i = 0; i < kStepsMax && !input.is_empty(); ++i) {
      step(input);
      check_leases();
    }
    leases_.end(clock_.now());
    // As a client that is closed does.
    for (;;) {
      decisions_.send_gathered(*connections_.here());
      if (asked_.empty()) break;
      tell(Answer(Failure{FailureKind::kDisconnected, "played", true}), false);
    }
    connections_.detach(loop_, [](Desk&) {});
    connections_.close();
    for (const int answers : answers_) check(answers == 1);
  }

 private:
  void step(Input& input) {
    switch (input.byte() % 14) {
      case 0:
        return decide(input, 0, 2, false);
      case 1:
        return decide(input, 0, 7, input.byte() % 2 == 0);
      case 2:
        return end(input);
      case 3:
        return holds_.renew({1, input.byte() + 1U}, 1s * input.byte(), told_state());
      case 4:
        return inspect(input);
      case 5:
        return levels_.reset(item(input), clock_.now(),
                             [this, at = question()](const Status& said) {
                               ++answers_[at];
                               if (!said) check(!said.error().message.empty());
                             });
      case 6:
        return take(input);
      case 7:
        return leases_.tick(clock_.now());
      case 8:
      case 9:
        return answer(input);
      case 10:
        return answer_bytes(input);
      case 11:
        return fail(input);
      case 12:
        return clock_.advance(10ms * input.byte());
      default:
        return input.byte() % 2 == 0
                   ? decisions_.send_gathered(*connections_.here())
                   : leases_.surrender(item(input).print, clock_.now(),
                                       [this, at = question()] { ++answers_[at]; });
    }
  }

  // A callback that is to be called once.
  std::size_t question() {
    answers_.push_back(0);
    return answers_.size() - 1;
  }
  engine::HoldStateCallback told_state() {
    return [this, at = question()](const Result<HoldState>& state) {
      ++answers_[at];
      if (!state) check(!state.error().message.empty());
    };
  }

  static std::int64_t cost(Input& input) {
    constexpr std::array<std::int64_t, 8> kCosts = {1, 1, 0, 2, 4, 9, 1'000, kTermMax};
    return kCosts[input.byte() % kCosts.size()];
  }
  SharedItem item(std::size_t place, std::int64_t cost) const {
    return {.rule = &rules_->rules()[place],
            .key = {"acme"},
            .cost = cost,
            .weight = 1,
            .print = {std::uint64_t{place} << 32, std::uint64_t{1} << 20}};
  }
  SharedItem item(Input& input) const { return item(input.byte() % rules_->rules().size(), 0); }

  // Some of the limits from `first` on.
  void decide(Input& input, std::size_t first, std::size_t count, bool has_hold) {
    std::vector<SharedItem> items;
    const std::uint8_t which = input.byte();
    for (std::size_t i = 0; i < count; ++i) {
      if ((which >> i & 1) != 0) items.push_back(item(first + i, cost(input)));
    }
    if (items.empty()) items.push_back(item(first, 1));
    engine::SharedAsk ask{.rules = rules_, .items = items, .now = clock_.now()};
    if (has_hold) ask.hold = {1, ++last_hold_};
    ask.ttl = 1s;
    ask.is_peek = input.byte() % 4 == 0;
    decisions_.decide(ask,
                      [this, items, at = question()](const Result<engine::SharedAnswer>& said) {
                        ++answers_[at];
                        if (!said) return check(!said.error().message.empty());
                        check_answer(items, *said);
                      });
  }
  static void check_answer(const std::vector<SharedItem>& items, const engine::SharedAnswer& said) {
    check(said.outcomes.size() == items.size());
    check(said.now.ns >= 0 && said.now.ns <= kInstantNsMax);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const engine::SharedOutcome& outcome = said.outcomes[i];
      if (outcome.check.verdict == Verdict::kDenied && !engine::is_log(items[i].rule->shape)) {
        check(outcome.check.earliest > said.now);
      }
      if (said.is_held) check(items[i].rule->shadow || outcome.check.allowed());
    }
  }

  void end(Input& input) {
    const HoldState as = input.byte() % 2 == 0 ? HoldState::kSettled : HoldState::kCancelled;
    const engine::Cost actual[] = {{"requests", cost(input)}};
    holds_.end({1, input.byte() + 1U}, as, actual, rules_, clock_.now(),
               [told = told_state()](const Result<engine::SharedEnd>& ended) {
                 ended ? told(ended->state) : told(ended.error());
               });
  }
  void inspect(Input& input) {
    levels_.inspect(item(input), rules_, clock_.now(),
                    [this, at = question()](const Result<engine::SharedLevel>& level) {
                      ++answers_[at];
                      if (!level) check(!level.error().message.empty());
                    });
  }
  void take(Input& input) {
    const SharedItem asked = item(7 + input.byte() % 4, cost(input));
    const bool is_used = input.byte() % 2 == 0;
    leases_.take(asked, rules_, clock_.now(),
                 [this, asked, is_used, at = question()](const LeaseSaid& said) {
                   ++answers_[at];
                   if (said.failure) return check(!said.failure->error.message.empty());
                   const engine::SharedOutcome& outcome = said.outcome;
                   if (!outcome.check.allowed()) return;
                   check(outcome.before - outcome.after == asked.cost);
                   if (is_used) return leases_.spend(asked.print, asked.cost);
                   leases_.put_back(asked.print, {asked.cost, said.stamp_us}, clock_.now());
                 });
  }
  void check_leases() {
    for (std::size_t i = 7; i < rules_->rules().size(); ++i) {
      const SharedItem leased = item(i, 0);
      const std::int64_t held = leases_.held(leased.print, clock_.now());
      check(held >= 0 && held <= leased.rule->shared->lease->most);
      const std::int64_t left = leases_.left(leased.print, clock_.now());
      check(left <= engine::capacity(leased.rule->shape));
    }
  }

  static std::string epoch(Input& input) {
    constexpr std::array<std::string_view, 6> kEpochs = {"",
                                                         "0123456789abcdef:0",
                                                         "fedcba9876543210:1770000000000000",
                                                         "fedcba9876543210:",
                                                         "0123456789abcdef:-9223372036854775808",
                                                         "fedcba9876543210:9223372036854775807"};
    const std::uint8_t which = input.byte();
    return std::string(which < 240 ? kEpochs[which % kEpochs.size()] : input.bytes(input.byte()));
  }
  std::string record(Input& input) const {
    constexpr std::array<std::string_view, 4> kStates = {"a", "s", "c", "x"};
    std::string out(kStates[input.byte() % kStates.size()]);
    append_number(out, input);
    if (out[0] != 'a') return out;
    const std::size_t count = input.byte() % 4;
    append_bytes(out, count, 1);
    for (std::size_t i = 0; i < count; ++i) append_number(out, input);
    for (std::size_t i = 0; i < count; ++i) {
      const SharedItem of = item(input);
      append_text(out, of.rule->name);
      append_text(out, "requests");
      append_text(out, limit_key(fleet_.prefix, of));
      append_bytes(out, static_cast<std::uint64_t>(integer(input)), 8);
      append_bytes(out, static_cast<std::uint64_t>(integer(input)), 8);
    }
    return out;
  }

  // A reply of about the right form.
  void answer(Input& input) {
    if (asked_.empty()) return;
    MadeReply made;
    const Asked& asked = asked_.front();
    switch (asked.form) {
      case Form::kNumbers:
        made.add(std::int64_t{input.byte() % 2}).add(integer(input)).add(epoch(input));
        for (std::size_t i = 0; i < asked.count; ++i) made.add(integer(input));
        break;
      case Form::kDoubles: {
        std::string text;
        for (std::size_t i = 0; i < asked.count; ++i) append_number(text, input);
        return tell(Answer(made.add(text).first()), is_late(input));
      }
      case Form::kDraw:
        made.add(std::int64_t{input.byte() % 16}).add(integer(input)).add(epoch(input));
        made.add(integer(input)).add(integer(input)).add(integer(input));
        break;
      case Form::kLetter:
        made.add(std::string_view("ascg").substr(input.byte() % 4, 1));
        break;
      case Form::kReset:
        made.add(integer(input)).add(epoch(input));
        break;
      case Form::kRecord:
        return tell(Answer(made.add(record(input)).first()), is_late(input));
    }
    tell(Answer(made.array()), is_late(input));
  }
  // Whatever hiredis makes of the bytes.
  void answer_bytes(Input& input) {
    const std::string_view bytes = input.bytes(input.byte());
    redisReader* const reader = redisReaderCreate();
    redisReaderFeed(reader, bytes.data(), bytes.size());
    void* made = nullptr;
    if (redisReaderGetReply(reader, &made) == REDIS_OK && made != nullptr) {
      if (!asked_.empty()) tell(Answer(Reply(static_cast<redisReply*>(made))), is_late(input));
      freeReplyObject(made);
    }
    redisReaderFree(reader);
  }
  void fail(Input& input) {
    if (asked_.empty()) return;
    const auto kind = static_cast<FailureKind>(input.byte() % kFailureKinds);
    const Failure failure{kind, input.byte() % 2 == 0 ? "played" : "FOREIGN key", true};
    tell(Answer(failure), false);
  }
  static bool is_late(Input& input) { return input.byte() % 8 == 7; }
  // In time, or after the time-out.
  void tell(const Answer& answer, bool late) {
    const Asked asked = std::move(asked_.front());
    asked_.pop_front();
    if (!late) return asked.done(answer);
    const Failure failure{FailureKind::kTimedOut, "played", true};
    asked.done(Answer(failure));
    if (asked.late) asked.late(answer);
  }

  Loop& loop_;
  testing::ManualClock clock_;
  const Fleet fleet_;
  Epochs epochs_;
  Outages outages_;
  std::deque<Asked> asked_;
  Connections connections_;
  SharedHolds holds_;
  DoubtfulHolds doubtful_;
  Decisions decisions_;
  RedisLeases source_;
  Leases leases_;
  Levels levels_;
  const std::shared_ptr<const engine::RuleSet>& rules_ = rules();
  std::vector<int> answers_;
  std::uint64_t last_hold_ = 0;
};

}  // namespace
}  // namespace weir::store::redis

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::store::redis;
  Input input(data, size);
  if (input.byte() % 4 == 0) {
    const std::string_view text = input.rest();
    read_any_record(text);
    escape_any(text);
    return 0;
  }
  // On this thread: handing over to another one takes longer than what is done there.
  static boost::asio::io_context context(1);
  static Loop loop(context);
  boost::asio::post(context, [&] { Game(loop).play(input); });
  context.poll();
  return 0;
}
