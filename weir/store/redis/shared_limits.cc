#include "weir/store/redis/shared_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <random>
#include <utility>

#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"
#include "weir/store/redis/shared_keys.h"
#include "weir/store/redis/shared_meter.h"
#include "weir/store/redis/shared_scripts.h"

namespace weir::store::redis {
namespace {

using engine::HoldState;
using engine::SharedAnswer;
using engine::SharedAsk;
using engine::SharedItem;

constexpr Duration kBeatEvery = std::chrono::seconds{1};
constexpr std::size_t kEpochIdBytes = 16;
constexpr std::int64_t kAliveUs = 5'000'000;  // after its last beat a server is gone

// KEYS the servers; ARGV id, how long it counts as alive. Returns how many are.
constexpr std::string_view kBeat = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return redis.call('ZCARD', KEYS[1])
)lua";

std::string random_id() {
  std::random_device random;
  const auto draw = [&] { return static_cast<std::uint64_t>(random()) & 0xffff'ffff; };
  return fmt::format("{:08x}{:08x}", draw(), draw());
}

// Whether Redis could not be asked. Otherwise it answered, and something is wrong with us or
// with what lies under our keys: that is no outage, and nothing is admitted.
bool is_outage(FailureKind kind) {
  return kind != FailureKind::kScript && kind != FailureKind::kTooMany;
}

// The word after `mark` in what a script has said.
std::optional<std::string_view> word_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + mark.size());
  return rest.substr(0, rest.find(' '));
}

Error named(const Failure& failure) {
  if (const auto key = word_after(failure.message, "FOREIGN ")) {
    return {ErrorCode::kUnavailable,
            fmt::format("Redis: key {} holds a value that weir did not write, so nothing is "
                        "admitted; delete it, or write another 'redis: {{ name: ... }}'",
                        in_quotes(*key))};
  }
  if (const auto now = word_after(failure.message, "CLOCK ")) {
    return {ErrorCode::kUnavailable,
            fmt::format("Redis: its clock says {} us since 1970, more than a whole calendar window "
                        "from the clock here; set the clocks",
                        *now)};
  }
  return to_error(failure);
}

Error odd_reply(std::string_view what) {
  return {ErrorCode::kUnavailable,
          fmt::format("Redis: the answer to {} is not what the script of this version gives; run "
                      "the same version of weir everywhere",
                      what)};
}

HoldState state_of(std::string_view letter) {
  if (letter == "a") return HoldState::kActive;
  if (letter == "s") return HoldState::kSettled;
  return letter == "c" ? HoldState::kCancelled : HoldState::kGone;
}

}  // namespace

// A decision on its way.
struct SharedLimits::Asked {
  std::shared_ptr<const engine::RuleSet> rules;
  boost::container::small_vector<SharedItem, 4> items;
  boost::container::small_vector<std::string, 4> keys;
  HoldId hold{};
  bool is_peek = false;
  bool is_started = true;  // false: it was refused because Redis did not answer in time
  Instant now{};
  engine::SharedCallback callback;
};

struct SharedLimits::Timers {
  std::list<Timer> running;
  bool is_over = false;
};

SharedLimits::SharedLimits(Loop& loop, SharedOptions options, Clock& clock)
    : loop_(loop),
      options_(std::move(options)),
      clock_(clock),
      prefix_(key_prefix(options_.name)),
      epoch_key_(prefix_ + "epoch"),
      servers_key_(prefix_ + "servers"),
      id_(random_id()),
      decide_("decide", decide_script()),
      end_("end", end_script()),
      renew_("renew", renew_script()),
      beat_("beat", kBeat),
      breaker_(options_.breaker),
      epoch_{{}, random_id()},
      timers_(std::make_shared<Timers>()) {
  ClientOptions client;
  client.address = options_.address;
  client.timeout = options_.timeout;
  client.scripts = {&decide_, &end_, &renew_, &beat_};
  for (unsigned i = 0; i < std::clamp(options_.connections, 1u, kConnectionsMax); ++i) {
    clients_.push_back(make_client(loop_, client));
  }
  loop_.run([this] {
    heart_ = std::make_unique<Timer>(loop_);
    beat();
  });
}

SharedLimits::~SharedLimits() {
  loop_.run([this] {
    heart_.reset();
    timers_->is_over = true;
    timers_->running.clear();
  });
  for (const auto& client : clients_) client->close();
}

// A thread keeps to one connection, so that what it asks at once leaves at once.
Client& SharedLimits::client() {
  static std::atomic<unsigned> threads{0};
  thread_local const unsigned mine = threads.fetch_add(1, std::memory_order_relaxed);
  return *clients_[mine % clients_.size()];
}

std::string SharedLimits::now_argument() const {
  if (options_.redis_clock == nullptr) return {};
  return fmt::format("{}", options_.redis_clock->now().ns / kNsPerUs);
}

SharedLimits::Epoch SharedLimits::epoch() const {
  const std::scoped_lock lock(lock_);
  return epoch_;
}

void SharedLimits::learn_epoch(std::string_view epoch) {
  if (epoch.empty()) return;
  const std::scoped_lock lock(lock_);
  if (!epoch_.seen.empty() && !epoch.starts_with(epoch_.seen.substr(0, kEpochIdBytes))) {
    losses_.fetch_add(1, std::memory_order_relaxed);
  }
  epoch_.seen = epoch;
  if (epoch.starts_with(epoch_.fresh)) epoch_.fresh = random_id();
}

void SharedLimits::decide(const SharedAsk& ask, engine::SharedCallback callback) {
  auto asked = std::make_shared<Asked>();
  asked->rules = ask.rules;
  asked->items.assign(ask.items.begin(), ask.items.end());
  if (!ask.is_peek) asked->hold = ask.hold;
  asked->is_peek = ask.is_peek;
  asked->now = ask.now;
  asked->callback = std::move(callback);
  for (const SharedItem& item : ask.items) asked->keys.push_back(limit_key(prefix_, item));
  if (!breaker_.may_ask(ask.now)) {
    return asked->callback(by_policy(*asked, trouble()));
  }

  boost::container::small_vector<std::string_view, 8> keys = {epoch_key_};
  keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
  std::string hold;
  std::string hold_ttl_us;
  std::string record;
  std::string hold_name;
  if (asked->hold) {
    hold_name = hold_key(prefix_, ask.hold);
    keys.push_back(hold_name);
    HoldId plain = ask.hold;
    plain.is_shared = false;
    hold = hold_text(plain);
    hold_ttl_us = fmt::format(
        "{}", std::min(kSharedTermMax / 2, std::max<std::int64_t>(1, ask.ttl.count() / kNsPerUs)));
    record = hold_record(ask.items, asked->keys, *ask.rules);
  }
  std::string blobs;
  for (const SharedItem& item : ask.items) {
    append_blob(blobs, item.rule->shape, item.cost, item.rule->shadow ? '1' : '0', ask.now);
  }
  const std::string now = now_argument();
  const Epoch known = epoch();
  boost::container::small_vector<std::string_view, 12> arguments = {
      now, asked->is_peek ? "p" : "c", known.seen, known.fresh, hold, hold_ttl_us, record};
  const std::size_t blob_bytes = blobs.size() / ask.items.size();
  for (std::size_t i = 0; i < ask.items.size(); ++i) {
    arguments.push_back(std::string_view(blobs).substr(i * blob_bytes, blob_bytes));
  }
  asked_.fetch_add(1, std::memory_order_relaxed);
  client().call(decide_, keys, arguments,
                [this, asked](const Answer& answer) { on_decided(*asked, answer); },
                {.timeout = std::nullopt, .late = [this, asked](const Answer& answer) {
                   if (answer.ok()) on_late(*asked, answer.reply());
                 }});
}

void SharedLimits::on_decided(Asked& asked, const Answer& answer) {
  if (answer.ok()) {
    answered_.fetch_add(1, std::memory_order_relaxed);
    note_success();
    return asked.callback(read_decision(asked, answer.reply()));
  }
  failed_.fetch_add(1, std::memory_order_relaxed);
  const Failure& failure = answer.failure();
  if (!is_outage(failure.kind)) return asked.callback(named(failure));
  note_failure(failure);
  const Result<SharedAnswer> said = by_policy(asked, failure.message);
  asked.is_started = said.ok();
  asked.callback(said);
}

// What was charged stays charged, but a hold of work that never started is given back: its
// slots would be taken until its time.
void SharedLimits::on_late(const Asked& asked, const Reply& reply) {
  if (!asked.hold || asked.is_started || reply.at(0).integer() != 1) return;
  end(asked.hold, HoldState::kCancelled, {}, asked.rules, asked.now,
      [](const Result<HoldState>&) {});
}

Result<SharedAnswer> SharedLimits::read_decision(const Asked& asked, const Reply& reply) {
  const auto allowed = reply.at(0).integer();
  const auto now_us = reply.at(1).integer();
  const auto epoch = reply.at(2).text();
  if (!allowed || !now_us || !epoch || reply.size() != 3 + 2 * asked.items.size()) {
    return odd_reply("a decision");
  }
  learn_epoch(*epoch);
  SharedAnswer said;
  said.now = Instant{*now_us * kNsPerUs};
  bool passes = true;
  for (std::size_t i = 0; i < asked.items.size(); ++i) {
    const auto first = reply.at(3 + 2 * i).integer();
    const auto second = reply.at(4 + 2 * i).integer();
    if (!first || !second) return odd_reply("a decision");
    const engine::Rule& rule = *asked.items[i].rule;
    const SharedCheck judged = judge(rule.shape, {*first, *second}, said.now, asked.items[i].cost);
    said.outcomes.push_back({judged.check, judged.before, judged.after});
    passes = passes && (rule.shadow || judged.check.allowed());
  }
  // The script has compared what is worked out here again.
  if (passes != (*allowed == 1)) return odd_reply("a decision");
  said.is_held = asked.hold && passes;
  return said;
}

Result<SharedAnswer> SharedLimits::by_policy(const Asked& asked, const std::string& why) {
  by_policy_.fetch_add(1, std::memory_order_relaxed);
  std::vector<StandIn::Item> alone;
  for (std::size_t i = 0; i < asked.items.size(); ++i) {
    const engine::Rule& rule = *asked.items[i].rule;
    if (rule.shadow) continue;
    if (rule.shared->outage == engine::Outage::kDeny) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("limit '{}': {}; while that lasts nothing is admitted, unless the "
                               "limit says 'outage: allow' or 'outage: local'",
                               rule.name, why)};
    }
    if (rule.shared->outage == engine::Outage::kLocal) {
      alone.push_back({&rule.shape, asked.keys[i], asked.items[i].cost, false});
    }
  }
  const auto decided =
      stand_in_.take(alone, static_cast<std::int64_t>(servers_.load(std::memory_order_relaxed)),
                     asked.now, asked.is_peek);
  SharedAnswer said;
  said.now = asked.now;
  std::size_t next = 0;
  for (const SharedItem& item : asked.items) {
    if (!item.rule->shadow && item.rule->shared->outage == engine::Outage::kLocal) {
      said.outcomes.push_back(decided[next++]);
    } else {
      // Nobody knows what is left.
      said.outcomes.push_back({{Verdict::kAllowed, asked.now, 0}, 0, 0});
    }
  }
  return said;
}

// --- holds

void SharedLimits::read_hold(HoldId hold, std::function<void(Result<HoldRecord>)> next) {
  const std::string key = hold_key(prefix_, hold);
  const std::array<std::string_view, 2> words = {"GET", key};
  client().send(words, [this, key, next = std::move(next)](const Answer& answer) {
    if (!answer.ok()) {
      if (is_outage(answer.failure().kind)) note_failure(answer.failure());
      return next(named(answer.failure()));
    }
    note_success();
    if (answer.reply().is_nil()) return next(HoldRecord{});
    const auto text = answer.reply().text();
    std::optional<HoldRecord> record = text ? read_record(*text) : std::nullopt;
    if (!record) {
      Failure failure{FailureKind::kServer, fmt::format("FOREIGN {}", key)};
      return next(named(failure));
    }
    next(std::move(*record));
  });
}

struct SharedLimits::Ending {
  HoldId hold;
  HoldState as;
  std::vector<std::pair<std::string, std::int64_t>> actual;
  std::shared_ptr<const engine::RuleSet> rules;
  Instant now;
  engine::HoldCallback callback;
};

namespace {

// Units to return: all of a cancelled hold, the difference of a settled one.
std::int64_t back_of(const HoldPart& part, HoldState as,
                     std::span<const std::pair<std::string, std::int64_t>> actual) {
  if (as == HoldState::kCancelled) return part.amount;
  for (const auto& [unit, amount] : actual) {
    if (unit != part.unit) continue;
    return part.amount - saturate(std::min(Wide{amount} * part.weight, Wide{kTermMax}));
  }
  return 0;
}

}  // namespace

void SharedLimits::end(HoldId hold, HoldState as, std::span<const engine::Cost> actual,
                       std::shared_ptr<const engine::RuleSet> rules, Instant now,
                       engine::HoldCallback callback) {
  auto ending = std::make_shared<Ending>();
  *ending = {hold, as, {}, std::move(rules), now, std::move(callback)};
  for (const engine::Cost& cost : actual) ending->actual.emplace_back(cost.unit, cost.amount);
  read_hold(hold, [this, ending](Result<HoldRecord> record) {
    if (!record) return ending->callback(std::move(record).error());
    // One that has ended is still asked for: whether its time is over, Redis knows.
    if (record->state == HoldState::kGone) return ending->callback(record->state);
    std::vector<std::string> texts;  // a blob and an instant for each key
    texts.reserve(2 * record->parts.size());
    std::vector<std::string_view> keys;
    const std::string name = hold_key(prefix_, ending->hold);
    keys.push_back(name);
    for (const HoldPart& part : record->parts) {
      const engine::Rule* rule = ending->rules->find(part.limit);
      // A limit that is gone, or counts in another way now, gets nothing back.
      if (part.charged_at_us < 0 || rule == nullptr || !rule->shared) continue;
      if (!part.key.starts_with(fmt::format("{}{}:", prefix_, kind_of(rule->shape)))) continue;
      const bool is_slots = engine::is_slots(rule->shape);
      const std::int64_t back = is_slots ? part.amount : back_of(part, ending->as, ending->actual);
      if (back == 0) continue;
      std::string& blob = texts.emplace_back();
      append_blob(blob, rule->shape, back > 0 ? back : -back, back > 0 ? '+' : '-', ending->now);
      texts.push_back(fmt::format("{}", part.charged_at_us));
      keys.push_back(part.key);
    }
    HoldId plain = ending->hold;
    plain.is_shared = false;
    const std::string id = hold_text(plain);
    const std::string at = now_argument();
    const Epoch known = epoch();
    std::vector<std::string_view> arguments = {at, ending->as == HoldState::kSettled ? "s" : "c",
                                               known.seen, id};
    arguments.insert(arguments.end(), texts.begin(), texts.end());
    client().call(end_, keys, arguments, [ending](const Answer& answer) {
      if (!answer.ok()) return ending->callback(named(answer.failure()));
      const auto letter = answer.reply().at(0).text();
      if (!letter) return ending->callback(odd_reply("the end of a hold"));
      ending->callback(state_of(*letter));
    });
  });
}

void SharedLimits::renew(HoldId hold, Duration ttl, Instant, engine::HoldCallback callback) {
  read_hold(hold, [this, hold, ttl, callback = std::move(callback)](Result<HoldRecord> record) {
    if (!record) return callback(std::move(record).error());
    if (record->state == HoldState::kGone) return callback(record->state);
    const std::string name = hold_key(prefix_, hold);
    const std::string slots = fmt::format("{}s:", prefix_);
    std::vector<std::string_view> keys = {name};
    std::vector<std::string> units;
    units.reserve(record->parts.size());
    HoldId plain = hold;
    plain.is_shared = false;
    const std::string id = hold_text(plain);
    const std::string at = now_argument();
    const std::string ttl_us = fmt::format(
        "{}", std::min(kSharedTermMax / 2, std::max<std::int64_t>(1, ttl.count() / kNsPerUs)));
    std::vector<std::string_view> arguments = {at, ttl_us, id};
    for (const HoldPart& part : record->parts) {
      if (part.charged_at_us < 0 || !part.key.starts_with(slots)) continue;
      keys.push_back(part.key);
      arguments.push_back(units.emplace_back(fmt::format("{}", part.amount)));
    }
    client().call(renew_, keys, arguments, [callback](const Answer& answer) {
      if (!answer.ok()) return callback(named(answer.failure()));
      const auto letter = answer.reply().at(0).text();
      if (!letter) return callback(odd_reply("the renewal of a hold"));
      callback(state_of(*letter));
    });
  });
}

// --- outages

void SharedLimits::note_failure(const Failure& failure) {
  {
    const std::scoped_lock lock(lock_);
    trouble_ = failure.message;
  }
  if (breaker_.failed(clock_.now())) turns_.fetch_add(1, std::memory_order_relaxed);
}

void SharedLimits::note_success() {
  if (!breaker_.succeeded()) return;
  turns_.fetch_add(1, std::memory_order_relaxed);
  stand_in_.forget();
}

void SharedLimits::beat() {
  heart_->start(kBeatEvery, [this] { beat(); });
  const std::string alive = fmt::format("{}", kAliveUs);
  const std::array<std::string_view, 1> keys = {servers_key_};
  const std::array<std::string_view, 2> arguments = {id_, alive};
  clients_[0]->call(beat_, keys, arguments,
                    [this](const Answer& answer) {
                      if (!answer.ok()) {
                        if (is_outage(answer.failure().kind)) note_failure(answer.failure());
                        return;
                      }
                      note_success();
                      if (const auto count = answer.reply().integer(); count && *count >= 1) {
                        servers_.store(static_cast<std::uint64_t>(*count),
                                       std::memory_order_relaxed);
                      }
                    },
                    {.timeout = kBeatEvery, .late = {}});
}

void SharedLimits::later(Duration span, std::function<void(Instant)> work) {
  loop_.post([this, timers = timers_, span, work = std::move(work)] {
    if (timers->is_over) return;
    timers->running.emplace_front(loop_);
    const auto mine = timers->running.begin();
    mine->start(span, [this, timers, mine, work] {
      // Destroyed after it has run, not while it runs.
      std::list<Timer> done;
      done.splice(done.begin(), timers->running, mine);
      work(clock_.now());
    });
  });
}

SharedCounts SharedLimits::counts() const {
  return {.asked = asked_.load(),
          .answered = answered_.load(),
          .failed = failed_.load(),
          .by_policy = by_policy_.load(),
          .turns = turns_.load(),
          .losses = losses_.load(),
          .servers = servers_.load(),
          .is_out = breaker_.is_open()};
}

std::string SharedLimits::trouble() const {
  if (!breaker_.is_open()) return {};
  const std::scoped_lock lock(lock_);
  return trouble_;
}

}  // namespace weir::store::redis
