// A fleet of servers with leases around a Redis that is only simulated: every message takes
// some time, servers crash, stop and wake, data is lost.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weir/engine/rule_set.h"
#include "weir/store/redis/shared/leases.h"

namespace weir::store::redis {

constexpr Instant kFleetStart{1'800'000'000'000'000'000};

inline engine::LimitSpec leased(engine::MeterSpec meter, std::int64_t most,
                                Duration length = std::chrono::milliseconds{100}) {
  return {.name = "calls",
          .meter = std::move(meter),
          .shared = engine::SharedSpec{engine::Outage::kDeny, engine::LeaseSpec{most, length}}};
}

constexpr engine::BucketSpec kBucket{
    .amount = 1000, .period = std::chrono::seconds{1}, .burst = 60};

// One limit with one key. Requires a bucket whose units take whole microseconds.
class SimulatedRedis {
 public:
  explicit SimulatedRedis(engine::MeterShape shape)
      : shape_(shape), words_(engine::initial_words(shape, kFleetStart)) {}

  // A lease that ended without a word of its server, and what came back of it.
  struct Lapse {
    Instant at;
    std::int64_t units = 0;
  };

  Drawn draw(const void* server, const LeaseDraw& asked, const std::vector<std::int64_t>& amounts,
             Instant now) {
    end_leases(now);
    Drawn drawn;
    drawn.now = now;
    drawn.is_refused = true;
    drawn.epoch = epoch();
    std::int64_t charged_ns = now.ns;
    for (const std::int64_t amount : amounts) {
      if (!engine::check(shape_, words_, blocks_, now, amount).allowed()) continue;
      drawn.is_refused = false;
      drawn.units = amount;
      if (amount > 0 && engine::reserve(shape_, words_, blocks_, now)) {
        charged_ns = engine::charge(shape_, words_, blocks_, now, amount).ns;
      }
      break;
    }
    if (const auto* window = std::get_if<meter::WindowShape>(&shape_)) {
      charged_ns = meter::advance(*window, std::bit_cast<meter::WindowState>(words_), now).since.ns;
    }
    drawn.stamp_us = charged_ns / kNsPerUs;
    drawn.state = state(now, asked.cost);
    Held& held = leases_[server];
    if (asked.word > held.word) {
      held.word = asked.word;
      held.parts = asked.kept;
      if (now >= asked.until || asked.epoch != epoch()) held.parts.clear();
      if (drawn.units > asked.awaited) {
        held.parts.push_back({drawn.units - asked.awaited, drawn.stamp_us});
      }
    }
    if (held.ends == Instant{} && held.parts.empty()) {
      leases_.erase(server);
    } else if (!held.parts.empty()) {
      held.ends = now + record_length(*asked.rule->shared->lease);
    }
    return drawn;
  }

  void give_back(const void* server, const LeaseReturn& back, Instant now) {
    end_leases(now);
    if (back.epoch != epoch() || now >= back.until) return;
    for (const LeaseUnits& part : back.units) give_back(part, now);
    const auto found = leases_.find(server);
    if (found == leases_.end() && back.kept.empty()) return;
    Held& held = leases_[server];
    if (back.word < held.word) return;
    held.word = back.word;
    held.parts = back.kept;
    held.ends = std::max(held.ends, back.until);
  }

  const std::vector<Lapse>& lapses() const { return lapses_; }

  // Everything is forgotten and counts as used.
  void lose(Instant now) {
    ++losses_;
    leases_.clear();
    engine::release(shape_, words_, blocks_);
    words_ = engine::initial_words(shape_, now);
    if (engine::reserve(shape_, words_, blocks_, now)) {
      engine::charge(shape_, words_, blocks_, now, engine::capacity(shape_));
    }
  }

 private:
  struct Held {
    Instant ends;
    std::uint64_t word = 0;  // the last message that said so
    std::vector<LeaseUnits> parts;
  };

  void give_back(const LeaseUnits& part, Instant now) {
    engine::give_back(shape_, words_, blocks_, now, Instant{part.stamp_us * kNsPerUs}, part.units);
  }
  void end_leases(Instant now) {
    for (auto at = leases_.begin(); at != leases_.end();) {
      if (now < at->second.ends) {
        ++at;
        continue;
      }
      Lapse lapse{now};
      for (const LeaseUnits& part : at->second.parts) {
        give_back(part, now);
        lapse.units += part.units;
      }
      if (lapse.units > 0) lapses_.push_back(lapse);
      at = leases_.erase(at);
    }
  }
  std::string epoch() const { return std::to_string(losses_); }
  SharedState state(Instant now, std::int64_t cost) const {
    if (std::holds_alternative<meter::BucketShape>(shape_)) {
      return {static_cast<std::int64_t>(words_[0]) / kNsPerUs, 0};
    }
    if (std::holds_alternative<meter::WindowShape>(shape_)) {
      return {static_cast<std::int64_t>(words_[0]) / kNsPerUs,
              static_cast<std::int64_t>(words_[1])};
    }
    const std::int64_t used =
        engine::capacity(shape_) - engine::level(shape_, words_, blocks_, now);
    const meter::Check check = engine::check(shape_, words_, blocks_, now, cost);
    return {used,
            check.allowed() || check.earliest == kForever ? -1 : check.earliest.ns / kNsPerUs};
  }

  engine::MeterShape shape_;
  engine::Words words_;
  engine::LogBlocks blocks_{1 << 16};
  int losses_ = 0;
  std::map<const void*, Held> leases_;
  std::vector<Lapse> lapses_;
};

// An admission: when, by the clock of Redis, and how much.
struct Admission {
  Instant at;
  std::int64_t units;
};

// Whether some messages are answered late, or are lost: not sent, not heard, not answered, or heard
// when their server does not count on it any more.
enum class Network : std::uint8_t { kSomeLost, kSomeLate, kAllInTime };

class SimulatedFleet {
 public:
  SimulatedFleet(const engine::LimitSpec& limit, std::size_t servers, std::uint64_t seed,
                 Network network = Network::kSomeLost)
      : network_(network),
        random_(seed),
        rules_(*engine::compile({.limits = {limit}})),
        redis_(rule().shape) {
    for (std::size_t i = 0; i < servers; ++i) servers_.push_back(make_server());
  }
  // Answers that are still on their way find no server.
  ~SimulatedFleet() { messages_ = {}; }

  const engine::Rule& rule() const { return rules_->rules()[0]; }
  Instant now() const { return now_; }
  std::size_t size() const { return servers_.size(); }
  const std::vector<Admission>& admissions() const { return admissions_; }
  const std::vector<SimulatedRedis::Lapse>& lapses() const { return redis_.lapses(); }
  std::int64_t lost_answers() const { return lost_answers_; }
  // Units of draws that came too late for those who waited for them.
  std::int64_t awaited_in_vain() const { return awaited_in_vain_; }
  std::uint64_t refusals() const { return refusals_; }
  // Units that servers could not give back.
  std::int64_t given_up() const {
    std::uint64_t units = 0;
    for (const auto& server : all_servers_) {
      for (const LeaseCounts& counts : server->leases->counts(now_)) units += counts.expired;
    }
    return static_cast<std::int64_t>(units);
  }

  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  // Lets time pass, with all that happens meanwhile.
  void pass(Duration span) {
    const Instant until = now_ + span;
    while (!messages_.empty() && messages_.top().at <= until) {
      now_ = std::max(now_, messages_.top().at);
      const auto act = messages_.top().act;
      messages_.pop();
      act();
    }
    now_ = until;
  }
  // From now on every server ticks as one that runs does.
  void keep_ticking() {
    messages_.push({now_ + kLeaseTick, number_++, [this] {
                      for (std::size_t i = 0; i < size(); ++i) tick(i);
                      keep_ticking();
                    }});
  }

  void ask(std::size_t number, std::int64_t cost) {
    Server* const server = servers_[number].get();  // stays for good, dead or alive
    if (now_ < server->wakes_at) return;
    const engine::LeasedItem item{&rule(), kPrint, cost};
    engine::SharedOutcome outcome;
    if (server->leases->take_now({&item, 1}, server->local(now_), {&outcome, 1})) {
      return note(outcome, cost, now_);
    }
    const engine::SharedItem full{&rule(), {}, cost, 1, kPrint};
    const Instant asked_at = now_;
    server->leases->take(full, rules_, server->local(now_), [=, this](const LeaseSaid& said) {
      if (said.failure) return;
      if (said.outcome.check.allowed()) server->leases->spend(kPrint, cost);
      // An answer of Redis is decided when Redis decided it, unless a request came after that.
      note(said.outcome, cost, decided_at_ == Instant{} ? now_ : std::max(asked_at, decided_at_));
    });
  }
  // A request that is refused elsewhere, by a limit that takes a while.
  void ask_in_vain(std::size_t number, std::int64_t cost) {
    Server* const server = servers_[number].get();  // stays for good, dead or alive
    if (now_ < server->wakes_at) return;
    const engine::SharedItem full{&rule(), {}, cost, 1, kPrint};
    server->leases->take(full, rules_, server->local(now_), [=, this](const LeaseSaid& said) {
      if (said.failure || !said.outcome.check.allowed()) return;
      deliver(server->weak, [=, this, taken = LeaseUnits{cost, said.stamp_us}] {
        server->leases->put_back(kPrint, taken, server->local(now_));
      });
    });
  }
  // As a hold does.
  void surrender(std::size_t number) {
    if (now_ < servers_[number]->wakes_at) return;
    servers_[number]->leases->surrender(kPrint, servers_[number]->local(now_), [] {});
  }
  void tick(std::size_t number) {
    if (now_ >= servers_[number]->wakes_at)
      servers_[number]->leases->tick(servers_[number]->local(now_));
  }
  void end_and_start(std::size_t number) {
    servers_[number]->leases->end(servers_[number]->local(now_));
    servers_[number] = make_server();
  }
  void crash(std::size_t number) {
    servers_[number]->is_dead = true;
    servers_[number] = make_server();
  }
  void stop(std::size_t number, Duration span) { servers_[number]->wakes_at = now_ + span; }
  void lose_data() { redis_.lose(now_); }
  // Redis hears everything later that it is sent from now on.
  void stop_redis(Duration span) { redis_wakes_at_ = now_ + span; }
  std::int64_t held(std::size_t number) {
    return servers_[number]->leases->held(kPrint, servers_[number]->local(now_));
  }

 private:
  static constexpr engine::Print kPrint{1, 1 << 16};
  static constexpr Duration kTimeout = std::chrono::milliseconds{20};

  // Of a message.
  enum class Fate : std::uint8_t { kHeard, kUnsent, kUnheard, kUnanswered, kLate };

  struct Server final : LeaseSource {
    explicit Server(SimulatedFleet& of, Duration clock_ahead) : fleet(of), ahead(clock_ahead) {
      leases = std::make_unique<Leases>(*this, "weir:");
    }
    Instant local(Instant at) const { return at + ahead; }

    void draw(const LeaseDraw& draw, DrawCallback callback) override {
      const Fate fate = fleet.next_fate();
      const DrawFailure failure{
          true, {ErrorCode::kUnavailable, "no answer"}, fate != Fate::kUnsent};
      if (fate == Fate::kUnsent) return callback(failure);
      const std::vector<std::int64_t> amounts(draw.amounts.begin(), draw.amounts.end());
      const auto is_over = std::make_shared<bool>(false);
      fleet.send(fate, [=, this, self = weak, asked = draw] {
        // Redis executes what a server asked that has crashed since.
        const Drawn drawn = fleet.redis_.draw(this, asked, amounts, fleet.now_);
        if (fate == Fate::kUnanswered) return;
        fleet.deliver(self, [=, this, heard = drawn]() mutable {
          heard.here = local(fleet.now_);
          if (std::exchange(*is_over, true)) {
            fleet.awaited_in_vain_ += std::min(heard.units, asked.awaited);
            return asked.late(heard);
          }
          fleet.decided_at_ = heard.now;
          callback(heard);
          fleet.decided_at_ = {};
        });
      });
      fleet.time_out(weak, is_over, [=] { callback(failure); });
    }
    void give_back(const LeaseReturn& units, Instant, ReturnCallback callback) override {
      const Fate fate = fleet.next_fate();
      if (fate == Fate::kUnsent) return callback(Delivery::kUnsent);
      const auto is_over = std::make_shared<bool>(false);
      fleet.send(fate, [=, this, self = weak] {
        fleet.redis_.give_back(this, units, fleet.now_);
        if (fate == Fate::kUnanswered) return;
        fleet.deliver(self, [=] {
          if (!std::exchange(*is_over, true)) callback(Delivery::kHeard);
        });
      });
      fleet.time_out(weak, is_over, [=] { callback(Delivery::kUnsure); });
    }

    SimulatedFleet& fleet;
    Duration ahead;
    std::weak_ptr<Server> weak;
    std::unique_ptr<Leases> leases;
    Instant wakes_at{};
    bool is_dead = false;
  };

  struct Message {
    Instant at;
    std::uint64_t number;
    std::function<void()> act;
    friend bool operator<(const Message& a, const Message& b) {
      return std::pair(b.at, b.number) < std::pair(a.at, a.number);
    }
  };

  std::shared_ptr<Server> make_server() {
    auto server = std::make_shared<Server>(*this, Duration{pick(-3'600, 3'600) * 1'000'000'000});
    server->weak = server;
    all_servers_.push_back(server);
    return server;
  }
  Fate next_fate() {
    if (network_ == Network::kSomeLate) return pick(0, 9) == 0 ? Fate::kLate : Fate::kHeard;
    if (network_ == Network::kAllInTime || pick(0, 19) != 0) return Fate::kHeard;
    return static_cast<Fate>(pick(1, 4));
  }
  void send(Fate fate, std::function<void()> act) {
    if (fate == Fate::kUnheard) return;
    // Late ones still come before a lease lapses for it, lost ones maybe after.
    const std::int64_t late_us = network_ == Network::kSomeLate ? 40'000 : 400'000;
    const Duration delay{fate == Fate::kLate ? pick(0, late_us) * kNsPerUs : 0};
    hear(now_ + delay + Duration{pick(0, 3'000) * kNsPerUs}, std::move(act));
  }
  void hear(Instant at, std::function<void()> act) {
    messages_.push({at, number_++, [this, act = std::move(act)] {
                      if (now_ < redis_wakes_at_) return hear(redis_wakes_at_, act);
                      act();
                    }});
  }
  void time_out(const std::weak_ptr<Server>& to, const std::shared_ptr<bool>& is_over,
                std::function<void()> fail) {
    deliver(
        to,
        [this, is_over, fail = std::move(fail)] {
          if (std::exchange(*is_over, true)) return;
          ++lost_answers_;
          fail();
        },
        kTimeout);
  }
  void deliver(const std::weak_ptr<Server>& to, std::function<void()> act, Duration delay = {}) {
    deliver_at(now_ + delay + Duration{pick(0, 3'000) * kNsPerUs}, to, std::move(act));
  }
  void deliver_at(Instant at, const std::weak_ptr<Server>& to, std::function<void()> act) {
    messages_.push({at, number_++, [this, to, act = std::move(act)] {
                      const auto server = to.lock();
                      if (server == nullptr || server->is_dead) return;
                      if (now_ < server->wakes_at) return deliver_at(server->wakes_at, to, act);
                      act();
                    }});
  }
  void note(const engine::SharedOutcome& outcome, std::int64_t cost, Instant at) {
    if (outcome.check.allowed()) {
      admissions_.push_back({at, cost});
    } else {
      ++refusals_;
    }
  }

  Network network_;
  std::mt19937_64 random_;
  std::shared_ptr<const engine::RuleSet> rules_;
  SimulatedRedis redis_;
  Instant now_ = kFleetStart;
  Instant decided_at_{};  // while an answer of Redis is heard
  std::uint64_t number_ = 0;
  Instant redis_wakes_at_{};
  std::int64_t lost_answers_ = 0;  // or late
  std::int64_t awaited_in_vain_ = 0;
  std::uint64_t refusals_ = 0;
  std::vector<Admission> admissions_;
  std::vector<std::shared_ptr<Server>> all_servers_;  // those that crashed, too
  std::vector<std::shared_ptr<Server>> servers_;
  std::priority_queue<Message> messages_;
};

}  // namespace weir::store::redis
