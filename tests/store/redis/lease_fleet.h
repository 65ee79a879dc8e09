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

#include "weir/engine/rules.h"
#include "weir/store/redis/leases.h"

namespace weir::store::redis {

constexpr Instant kFleetStart{1'800'000'000'000'000'000};

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
      charged_ns = meter::window_begin(*window, now).ns;
    }
    drawn.stamp_us = charged_ns / kNsPerUs;
    drawn.state = state(now, asked.cost);
    const Duration length = asked.rule->shared->lease->length;
    Held& held = leases_[server];
    if (asked.word > held.word) {
      held.word = asked.word;
      held.parts = asked.kept;
    }
    held.ends = now + length + length / 16;
    if (drawn.units > asked.awaited) {
      held.parts.push_back({drawn.units - asked.awaited, drawn.stamp_us});
    }
    if (held.parts.empty()) leases_.erase(server);
    return drawn;
  }

  void give_back(const void* server, const LeaseReturn& back, Instant now) {
    end_leases(now);
    if (back.epoch != epoch() || now >= back.until) return;
    give_back(back.units, now);
    const auto found = leases_.find(server);
    if (found == leases_.end() || back.word < found->second.word) return;
    found->second.word = back.word;
    found->second.parts = back.kept;
    if (back.kept.empty()) leases_.erase(found);
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
      lapses_.push_back({now});
      for (const LeaseUnits& part : at->second.parts) {
        give_back(part, now);
        lapses_.back().units += part.units;
      }
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

// Whether some answers of Redis are lost on their way.
enum class Answers : bool { kMost, kAll };

class SimulatedFleet {
 public:
  SimulatedFleet(const engine::LimitSpec& limit, std::size_t servers, std::uint64_t seed,
                 Answers answers = Answers::kMost)
      : answers_(answers),
        random_(seed),
        rules_(*engine::compile({.limits = {limit}})),
        redis_(rule().shape) {
    for (std::size_t i = 0; i < servers; ++i) servers_.push_back(make_server());
  }
  // Answers that are still on their way find nobody.
  ~SimulatedFleet() { messages_ = {}; }

  const engine::Rule& rule() const { return rules_->rules()[0]; }
  Instant now() const { return now_; }
  std::size_t size() const { return servers_.size(); }
  const std::vector<Admission>& admissions() const { return admissions_; }
  const std::vector<SimulatedRedis::Lapse>& lapses() const { return redis_.lapses(); }
  std::uint64_t refusals() const { return refusals_; }

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

  void ask(std::size_t number, std::int64_t cost) {
    const std::shared_ptr<Server> server = servers_[number];
    if (now_ < server->wakes_at) return;
    const engine::LeasedItem item{&rule(), kPrint, cost};
    engine::SharedOutcome outcome;
    if (server->leases->take_now({&item, 1}, server->local(now_), {&outcome, 1})) {
      return note(outcome, cost, now_);
    }
    const engine::SharedItem full{&rule(), {}, cost, 1, kPrint};
    server->leases->take(full, rules_, server->local(now_), [this, cost](const LeaseSaid& said) {
      // An answer of Redis is decided when Redis decided it.
      if (!said.failure) note(said.outcome, cost, decided_at_ == Instant{} ? now_ : decided_at_);
    });
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
  std::int64_t held(std::size_t number) {
    return servers_[number]->leases->held(kPrint, servers_[number]->local(now_));
  }

 private:
  static constexpr engine::Print kPrint{1, 1 << 16};

  struct Server final : LeaseSource {
    explicit Server(SimulatedFleet& of, Duration clock_ahead) : fleet(of), ahead(clock_ahead) {
      leases = std::make_unique<Leases>(*this, "weir:");
    }
    Instant local(Instant at) const { return at + ahead; }

    void draw(const LeaseDraw& draw, DrawCallback callback) override {
      const std::vector<std::int64_t> amounts(draw.amounts.begin(), draw.amounts.end());
      fleet.send([this, self = weak, amounts, asked = draw, callback = std::move(callback)] {
        // Redis executes what a server asked that has crashed since.
        Drawn drawn = fleet.redis_.draw(this, asked, amounts, fleet.now_);
        if (fleet.answers_ == Answers::kMost &&
            fleet.pick(0, 49) == 0) {  // the answer is lost: charged for nothing
          fleet.deliver(self, [callback] {
            callback(DrawFailure{true, {ErrorCode::kUnavailable, "no answer"}});
          });
          return;
        }
        fleet.deliver(self, [this, drawn = std::move(drawn), callback]() mutable {
          fleet.decided_at_ = drawn.now;
          drawn.here = local(fleet.now_);
          callback(drawn);
          fleet.decided_at_ = {};
        });
      });
    }
    void give_back(const LeaseReturn& units, Instant) override {
      fleet.send([this, units] { fleet.redis_.give_back(this, units, fleet.now_); });
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
    everybody_.push_back(server);
    return server;
  }
  void send(std::function<void()> act) {
    messages_.push({now_ + Duration{pick(0, 3'000) * kNsPerUs}, number_++, std::move(act)});
  }
  void deliver(const std::weak_ptr<Server>& to, std::function<void()> act) {
    const Instant at = now_ + Duration{pick(0, 3'000) * kNsPerUs};
    messages_.push({at, number_++, [this, to, act = std::move(act)] {
                      const auto server = to.lock();
                      if (server == nullptr || server->is_dead) return;
                      if (now_ < server->wakes_at) {
                        messages_.push({server->wakes_at, number_++, act});
                        return;
                      }
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

  Answers answers_;
  std::mt19937_64 random_;
  std::shared_ptr<const engine::RuleSet> rules_;
  SimulatedRedis redis_;
  Instant now_ = kFleetStart;
  Instant decided_at_{};  // while an answer of Redis is heard
  std::uint64_t number_ = 0;
  std::uint64_t refusals_ = 0;
  std::vector<Admission> admissions_;
  std::vector<std::shared_ptr<Server>> everybody_;  // those that crashed, too
  std::vector<std::shared_ptr<Server>> servers_;
  std::priority_queue<Message> messages_;
};

}  // namespace weir::store::redis
