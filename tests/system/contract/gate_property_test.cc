// What a contract limit promises beside the account's own routes, for any account and any callers.

#include <algorithm>
#include <map>

#include "tests/meter/property.h"
#include "tests/support/on_stack.h"
#include "tests/system/contract/support.h"
#include "weir/engine/engine.h"
#include "weir/system/contract/gate.h"

namespace weir::system::contract {
namespace {

using engine::Engine;
using meter::between;
using meter::for_all;

std::vector<Policy> policies_of_any_account() {
  std::vector<Policy> policies{requests_per(*between(1, 20), 1s * *between(1, 30))};
  if (*between(0, 1) == 0) policies.push_back(units_per(*between(1, 100), 500ms * *between(1, 99)));
  if (*between(0, 2) == 0) policies.push_back(requests_per(*between(1, 40), 100s));
  return policies;
}

// Someone who asked, by whichever door.
struct Caller {
  Costs costs;
  bool is_only_here = true;  // it meets no other limit
  Instant by{};              // what the book offered when it asked
  std::optional<Instant> start{};
  HoldId reservation{};
  std::uint64_t ticket = 0;
  bool is_gone = false;  // released, given up, or denied
};

struct Doors {
  Doors() {
    account = account_of(policies, {.jitter = jitter});
    engine::LimitSpec here{.name = "contract", .meter = std::make_shared<AccountGate>(account)};
    engine::LimitSpec worker{.name = "worker", .per = {"worker"}};
    worker.meter = engine::BucketSpec{*between(1, 5), 1s * *between(1, 20)};
    const engine::RuleSetSpec spec{
        .limits = {here, worker},
        .units = {{std::string(kProcessingUnitsUnit), engine::UnitScale::kMicro}}};
    engine = std::move(*Engine::create(*engine::compile(spec)));
  }

  void move_to(Instant to) {
    while (engine->next_instant() <= to) {
      now = later_of(now, engine->next_instant());
      engine->advance(now);
    }
    now = later_of(now, to);
  }

  // The most requests and units that every policy holds at once.
  Costs any_costs() {
    std::int64_t requests = 3;
    std::int64_t units_micro = 50 * kMicro;
    const bool is_all = *between(0, 4) == 0;
    for (const Policy& policy : policies) {
      std::int64_t& most = policy.resource == Resource::kRequests ? requests : units_micro;
      const bool is_requests = policy.resource == Resource::kRequests;
      most = std::min(most, is_requests ? policy.capacity : policy.capacity_micro());
      if (is_all && is_requests) requests = policy.capacity;
    }
    for (const Policy& policy : policies) {
      if (policy.resource == Resource::kRequests) requests = std::min(requests, policy.capacity);
    }
    return {kMicro * (is_all ? requests : *between(1, requests)),
            is_all ? units_micro : *between(0, units_micro)};
  }

  void ask() {
    Caller& caller = *callers.emplace_back(std::make_unique<Caller>());
    caller.costs = any_costs();
    {
      const std::scoped_lock lock(*account);
      caller.by = account->locked().book.offer(caller.costs, now).start;
    }
    const engine::Cost costs[] = {{engine::kRequests, caller.costs.requests_micro / kMicro},
                                  {kProcessingUnitsUnit, caller.costs.processing_units_micro}};
    const engine::Attribute worker[] = {{"worker", "one"}};
    engine::Request request{.costs = costs};
    // A bucket that can never hold it is another matter.
    if (*between(0, 3) == 0 && caller.costs.requests_micro == kMicro) {
      request.attributes = worker;
      caller.is_only_here = false;
    }
    switch (*between(0, 3)) {
      case 0: {
        caller.is_only_here = true;
        const Reserved reserved = *account->reserve({.costs = caller.costs}, now);
        RC_ASSERT(reserved.verdict == Verdict::kAllowed);
        caller.start = reserved.start;
        caller.reservation = reserved.reservation;
        return;
      }
      case 1: {
        const Decision decision = *engine->decide(request, now);
        if (caller.is_only_here) RC_ASSERT(decision.allowed() == (caller.by <= now));
        caller.is_gone = !decision.allowed();
        if (decision.allowed()) caller.start = now;
        return;
      }
      case 2: {
        const Decision decision = *engine::acquire(*engine, request, {.book_within = 20h}, now);
        // Who waits for the worker's bucket is first there.
        if (caller.is_only_here) RC_ASSERT(decision.allowed());
        caller.is_gone = !decision.allowed();
        caller.start = decision.earliest;
        return;
      }
      default: {
        Caller* const told = &caller;
        const auto begun = engine::wait(*engine, request, {.deadline = kForever}, now,
                                        [this, told](const Result<Decision>& answer) {
                                          RC_ASSERT(answer->allowed());
                                          told->start = now;
                                        });
        RC_ASSERT(begun.ok());
        if (begun->decision.verdict == Verdict::kQueued) {
          caller.ticket = begun->ticket;
        } else {
          RC_ASSERT(begun->decision.allowed());
          caller.start = now;
        }
      }
    }
  }

  void change_its_mind() {
    Caller& caller = *callers[static_cast<std::size_t>(
        *between(0, static_cast<std::int64_t>(callers.size()) - 1))];
    if (caller.is_gone) return;
    if (caller.ticket != 0 && !caller.start) {
      caller.is_gone = engine->give_up(caller.ticket, now);
    } else if (caller.reservation && *caller.start >= now) {
      caller.is_gone = account->release(caller.reservation, now) == HoldState::kCancelled;
      engine->try_waiters(now);
    }
  }

  std::vector<Policy> policies = policies_of_any_account();
  Duration jitter{*between(0, 1'000'000'000)};
  std::shared_ptr<Account> account;
  std::unique_ptr<Engine> engine;
  Instant now = kStart;
  std::vector<std::unique_ptr<Caller>> callers;
};

TEST(AccountGateProperty, AllStartInTheOrderOfArrivalNobodyStarvesAndAServiceRefusesNone) {
  for_all([] {
    Doors doors;
    const std::int64_t arrivals = *between(1, 40);
    for (std::int64_t i = 0; i < arrivals; ++i) {
      doors.move_to(doors.now + Duration{*between(0, 2) * *between(0, 2'000'000'000)});
      doors.ask();
      if (*between(0, 4) == 0) doors.change_its_mind();
    }
    doors.move_to(kStart + 24h * 30);
    Instant last = kStart;
    Instant last_mixed = kStart;
    struct Started {
      Instant at;
      Costs costs;
    };
    std::vector<Started> starts;
    for (const auto& caller : doors.callers) {
      if (caller->is_gone) continue;
      RC_ASSERT(caller->start.has_value());
      starts.push_back(
          {*caller->start + Duration{*between(0, doors.jitter.count())}, caller->costs});
      // Those who wait for both limits start in their order too.
      if (!caller->is_only_here && caller->ticket != 0) {
        RC_ASSERT(*caller->start >= last_mixed);
        last_mixed = *caller->start;
      }
      if (!caller->is_only_here) continue;
      RC_ASSERT(*caller->start <= caller->by);
      RC_ASSERT(*caller->start >= last);
      last = *caller->start;
    }
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Started& a, const Started& b) { return a.at < b.at; });
    Book service(doors.policies, 0s, kStart);
    for (const Started& one : starts) {
      RC_ASSERT(takes(service, one.costs, one.at));
      RC_ASSERT(service.grant(one.costs, one.at, one.at).ok());
      service.expire(one.at);
    }
  });
}

}  // namespace
}  // namespace weir::system::contract
