#include "weir/store/redis/shared_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <random>
#include <utility>

#include "weir/base/recycled.h"
#include "weir/store/redis/lease_scripts.h"
#include "weir/store/redis/shared_errors.h"
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
constexpr Duration kRetryMost = std::chrono::milliseconds{500};  // between attempts to connect
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

// Drawn for each state of each epoch, so that a number says which one was meant, and whose.
std::uint64_t next_version() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// The connection that this thread has for itself.
struct Attachment {
  const SharedLimits* owner = nullptr;
  Client* client = nullptr;
};
Attachment& attachment() {
  thread_local Attachment mine;
  return mine;
}

// What a script needs to know of each limit.
class Blobs {
 public:
  Blobs(std::span<const SharedItem> items, Instant now) : count_(items.size()) {
    for (const SharedItem& item : items) {
      append_blob(text_, item.rule->shape, item.cost, item.rule->shadow ? '1' : '0', now);
    }
  }

  template <typename Arguments>
  void append_to(Arguments& arguments) const {
    const std::size_t bytes = text_.size() / count_;
    for (std::size_t i = 0; i < count_; ++i) {
      arguments.push_back(std::string_view(text_).substr(i * bytes, bytes));
    }
  }

 private:
  std::size_t count_;  // at least one
  std::string text_;
};

}  // namespace

// A decision on its way.
struct SharedLimits::Asked {
  std::shared_ptr<const engine::RuleSet> rules;
  boost::container::small_vector<SharedItem, 8> items;
  boost::container::small_vector<std::string, 8> keys;
  HoldId hold{};
  Duration ttl{};
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
      one_bucket_("one bucket", one_bucket_script()),
      buckets_("buckets", buckets_script()),
      end_("end", end_script()),
      renew_("renew", renew_script()),
      beat_("beat", kBeat),
      draw_("draw", draw_script()),
      give_back_("give_back", give_back_script()),
      breaker_(options_.breaker),
      epoch_{{}, random_id()},
      epoch_version_(next_version()),
      leases_(*this, prefix_),
      timers_(std::make_shared<Timers>()) {
  loop_.run([this] {
    heart_ = std::make_unique<Timer>(loop_);
    ClientOptions first = client_options();
    // Whoever waits for Redis to come back is not kept waiting for the next beat.
    first.on_up = [this] { beat(); };
    clients_.push_back(make_client(loop_, std::move(first)));
    while (clients_.size() < std::min(options_.connections, kConnectionsMax)) {
      clients_.push_back(make_client(loop_, client_options()));
    }
    beat();
  });
}

ClientOptions SharedLimits::client_options() const {
  ClientOptions options;
  options.address = options_.address;
  options.timeout = options_.timeout;
  options.retry_most = kRetryMost;
  options.scripts = {&decide_, &one_bucket_, &buckets_, &end_,
                     &renew_,  &beat_,       &draw_,    &give_back_};
  return options;
}

void SharedLimits::attach(Loop& loop) {
  loop.run([&] {
    WEIR_ASSERT(attachment().owner == nullptr);
    std::unique_ptr<Client> client = make_client(loop, client_options());
    attachment() = {this, client.get()};
    const std::scoped_lock lock(lock_);
    attached_.emplace(&loop, std::move(client));
  });
}

void SharedLimits::detach(Loop& loop) {
  loop.run([&] {
    WEIR_ASSERT(attachment().owner == this);
    attachment() = {};
    std::unique_ptr<Client> client;
    {
      const std::scoped_lock lock(lock_);
      client = std::move(attached_.at(&loop));
      attached_.erase(&loop);
    }
  });
}

SharedLimits::~SharedLimits() {
  WEIR_ASSERT(attached_.empty());
  end_leases();
  loop_.run([this] {
    heart_.reset();
    ticker_.reset();
    timers_->is_over = true;
    timers_->running.clear();
  });
  for (const auto& client : clients_) client->close();
}

// A thread keeps to one connection, so that what it asks at once leaves at once.
Client& SharedLimits::client() {
  if (attachment().owner == this) return *attachment().client;
  static std::atomic<unsigned> threads{0};
  thread_local const unsigned mine = threads.fetch_add(1, std::memory_order_relaxed);
  return *clients_[mine % clients_.size()];
}

std::string SharedLimits::now_argument() const {
  if (options_.redis_clock == nullptr) return {};
  return fmt::format("{}", options_.redis_clock->now().ns / kNsPerUs);
}

// Each thread keeps a copy, so that nobody waits for anybody in the usual case.
const SharedLimits::Epoch& SharedLimits::epoch() const {
  struct Copy {
    std::uint64_t version = 0;
    Epoch epoch;
  };
  thread_local Copy mine;
  if (mine.version != epoch_version_.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(lock_);
    mine = {epoch_version_.load(std::memory_order_relaxed), epoch_};
  }
  return mine.epoch;
}

void SharedLimits::learn_epoch(std::string_view epoch) {
  if (epoch.empty()) return;
  const std::scoped_lock lock(lock_);
  if (!epoch_.seen.empty() && !epoch.starts_with(epoch_.seen.substr(0, kEpochIdBytes))) {
    losses_.fetch_add(1, std::memory_order_relaxed);
  }
  epoch_.seen = epoch;
  if (epoch.starts_with(epoch_.fresh)) epoch_.fresh = random_id();
  epoch_version_.store(next_version(), std::memory_order_release);
}

void SharedLimits::decide(const SharedAsk& ask, engine::SharedCallback callback) {
  const bool has_lease =
      std::any_of(ask.items.begin(), ask.items.end(),
                  [](const SharedItem& item) { return item.rule->shared->lease.has_value(); });
  if (has_lease) return decide_mixed(ask, std::move(callback));
  decide_in_redis(ask, std::move(callback));
}

void SharedLimits::decide_in_redis(const SharedAsk& ask, engine::SharedCallback callback) {
  auto asked = std::allocate_shared<Asked>(Recycled<Asked>());
  asked->rules = ask.rules;
  asked->items.assign(ask.items.begin(), ask.items.end());
  if (!ask.is_peek) asked->hold = ask.hold;
  asked->is_peek = ask.is_peek;
  asked->ttl = ask.ttl;
  asked->now = ask.now;
  asked->callback = std::move(callback);
  for (const SharedItem& item : ask.items) asked->keys.push_back(limit_key(prefix_, item));
  if (!breaker_.may_ask(ask.now)) {
    return asked->callback(
        by_policy(asked->items, asked->keys, asked->now, asked->is_peek, why_not_asked()));
  }

  const Epoch& known = epoch();
  // Where nothing was ever lost.
  const bool is_whole = known.seen.size() == kEpochIdBytes + 2 && known.seen.back() == '0';
  const bool is_plain =
      is_whole && !asked->hold && !asked->is_peek &&
      std::all_of(asked->items.begin(), asked->items.end(), [](const SharedItem& item) {
        return std::holds_alternative<meter::BucketShape>(item.rule->shape);
      });
  asked_.fetch_add(1, std::memory_order_relaxed);
  if (is_plain) {
    ask_buckets(std::move(asked), known);
  } else {
    ask_all(std::move(asked), known);
  }
}

void SharedLimits::ask_buckets(std::shared_ptr<Asked> asked, const Epoch& known) {
  boost::container::small_vector<std::string_view, 8> keys = {epoch_key_};
  keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
  const Blobs blobs(asked->items, asked->now);
  const std::string now = now_argument();
  boost::container::small_vector<std::string_view, 8> arguments = {now, known.seen};
  blobs.append_to(arguments);
  const Script& script = asked->items.size() == 1 ? one_bucket_ : buckets_;
  client().call(script, keys, arguments, [this, asked](const Answer& answer) {
    // Another epoch: what that means, the other script knows.
    if (answer.ok() && !answer.reply().text()) return ask_all(asked, epoch());
    on_decided(*asked, answer);
  });
}

void SharedLimits::ask_all(std::shared_ptr<Asked> asked, const Epoch& known) {
  boost::container::small_vector<std::string_view, 8> keys = {epoch_key_};
  keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
  std::string hold;
  std::string hold_ttl_us;
  std::string record;
  std::string holds_key;
  if (asked->hold) {
    holds_key = hold_key(prefix_, asked->hold);
    keys.push_back(holds_key);
    hold = hold_name(asked->hold);
    hold_ttl_us = fmt::format("{}", whole_us(asked->ttl));
    record = hold_record(asked->items, asked->keys, *asked->rules);
  }
  const Blobs blobs(asked->items, asked->now);
  const std::string now = now_argument();
  boost::container::small_vector<std::string_view, 12> arguments = {
      now, asked->is_peek ? "p" : "c", known.seen, known.fresh, hold, hold_ttl_us, record};
  blobs.append_to(arguments);
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
  const Failure& failure = answer.failure();
  count_failure(failure.kind);
  if (!is_outage(failure.kind)) return asked.callback(named(failure));
  note_failure(failure);
  const Result<SharedAnswer> said =
      by_policy(asked.items, asked.keys, asked.now, asked.is_peek, failure.message);
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
  const std::size_t count = 2 + 2 * asked.items.size();
  boost::container::small_vector<std::int64_t, 16> numbers;
  if (const auto text = reply.text()) {
    if (text->size() != 8 * count) return odd_reply("a decision");
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(read_double(text->substr(8 * i)));
    return read_numbers(asked, numbers);
  }
  const auto epoch = reply.at(2).text();
  if (!epoch || reply.size() != 1 + count) return odd_reply("a decision");
  for (std::size_t i = 0; i < reply.size(); ++i) {
    if (i == 2) continue;
    const auto number = reply.at(i).integer();
    if (!number) return odd_reply("a decision");
    numbers.push_back(*number);
  }
  learn_epoch(*epoch);
  return read_numbers(asked, numbers);
}

Result<SharedAnswer> SharedLimits::read_numbers(const Asked& asked,
                                                std::span<const std::int64_t> numbers) {
  SharedAnswer said;
  said.now = Instant{numbers[1] * kNsPerUs};
  bool passes = true;
  for (std::size_t i = 0; i < asked.items.size(); ++i) {
    const engine::Rule& rule = *asked.items[i].rule;
    const SharedState state{numbers[2 + 2 * i], numbers[3 + 2 * i]};
    const SharedCheck judged = judge(rule.shape, state, said.now, asked.items[i].cost);
    said.outcomes.push_back({judged.check, judged.before, judged.after});
    passes = passes && (rule.shadow || judged.check.allowed());
  }
  // The script has compared what is worked out here again.
  if (passes != (numbers[0] == 1)) return odd_reply("a decision");
  said.is_held = asked.hold && passes;
  return said;
}

std::string SharedLimits::why_not_asked() const {
  std::string why = trouble();
  return why.empty() ? "Redis did not answer" : why;  // empty: it has just ended
}

Result<SharedAnswer> SharedLimits::by_policy(std::span<const SharedItem> items,
                                             std::span<const std::string> keys, Instant now,
                                             bool is_peek, const std::string& why) {
  by_policy_.fetch_add(1, std::memory_order_relaxed);
  std::vector<StandIn::Item> alone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const engine::Rule& rule = *items[i].rule;
    if (rule.shadow) continue;
    if (rule.shared->outage == engine::Outage::kDeny) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("limit '{}': {}; while that lasts nothing is admitted, unless the "
                               "limit says 'outage: allow' or 'outage: local'",
                               rule.name, why)};
    }
    if (rule.shared->outage == engine::Outage::kLocal) {
      alone.push_back({&rule.shape, keys[i], items[i].cost, false});
    }
  }
  const auto decided = stand_in_.take(
      alone, static_cast<std::int64_t>(servers_.load(std::memory_order_relaxed)), now, is_peek);
  SharedAnswer said;
  said.now = now;
  std::size_t next = 0;
  for (const SharedItem& item : items) {
    if (!item.rule->shadow && item.rule->shared->outage == engine::Outage::kLocal) {
      said.outcomes.push_back(decided[next++]);
    } else {
      // Nobody knows what is left.
      said.outcomes.push_back({{Verdict::kAllowed, now, 0}, 0, 0});
    }
  }
  return said;
}

// --- outages

void SharedLimits::count_failure(FailureKind kind) {
  failed_by_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
}

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
  if (heart_ == nullptr) return;  // this ends
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
  SharedCounts counts{.asked = asked_.load(),
                      .answered = answered_.load(),
                      .by_policy = by_policy_.load(),
                      .turns = turns_.load(),
                      .losses = losses_.load(),
                      .servers = servers_.load(),
                      .is_out = breaker_.is_open()};
  for (std::size_t i = 0; i < kFailureKinds; ++i) {
    counts.failed_by[i] = failed_by_[i].load();
    counts.failed += counts.failed_by[i];
  }
  return counts;
}

std::string SharedLimits::trouble() const {
  if (!breaker_.is_open()) return {};
  const std::scoped_lock lock(lock_);
  return trouble_;
}

}  // namespace weir::store::redis
