// Decider: asks, and the short way of a decision.
//
//   ask ─► plan ─► short way: meters whose keys are known, in one step
//                    └─ new key, gate, slots, options, waiters ─► resolver
//                    └─ kept in a store ────────────────────────► elsewhere
//                    └─ denied, and may wait ───────────────────► waiting
//
//  1. A request is planned once, and again only when newer rules have come into force.
//  2. Every ask is answered once: by now(), or by whom it is handed to.
//  3. The short way is for plans whose limits are all direct, with slots that are neither
//     overridden nor waited for. It checks that, and the generation of the rules, under the locks
//     of all their shards, before it takes anything.
//  4. A denial by one limit may be read without the lock. It writes nothing.
//
// Thread safety: safe from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "weir/engine/ad_hoc.h"
#include "weir/engine/ask.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/elsewhere.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/internal/resolver.h"
#include "weir/engine/internal/rules_in_force.h"
#include "weir/engine/internal/waiting.h"

namespace weir::engine {

struct Prepared::Impl {
  explicit Impl(const Request& asked) : request(asked) {}

  OwnedRequest request;
  std::shared_ptr<const Active> active;
  Plan plan;
};

class Decider {
 public:
  Decider(Ground& ground, RulesInForce& rules, Counting& counting, Resolver& resolver,
          Waiting& waiting, Elsewhere& elsewhere)
      : table_(ground.table),
        rules_(rules),
        counting_(counting),
        resolver_(resolver),
        waiting_(waiting),
        elsewhere_(elsewhere),
        locals_(ground.locals),
        options_(ground.options),
        sink_(ground.options.sink),
        ad_hoc_row_(ground.ad_hoc_row) {}

  // Answers every ask once, on the stack or later, as Engine::ask() says.
  void ask(std::span<const Ask> asks, Instant now, Answers& answers);

  // Answered on the stack. Where an answer would come later, it is an error instead. `answer`
  // holds a decision when these are called, whose rows are written in place: to move one out
  // would cost more than to decide.
  Result<Decision> decide(const Request& request, Instant now);
  void decide(const Ask& ask, Instant now, Result<Decision>& answer);
  Result<Decision> decide(Prepared::Impl& prepared, Instant now);
  void decide(std::span<const Request> requests, Instant now, std::span<Result<Decision>> answers);

  // A bucket without a limit in the rules (ad_hoc.h).
  Result<AdHocStep> take_ad_hoc(Print print, const meter::BucketShape& shape, std::int64_t cost,
                                Instant now);

 private:
  // Plans a request that meets one limit without conditions. True: `item` is its whole plan. False:
  // the request needs a longer plan.
  [[gnu::always_inline]] static inline bool plan_one(Local& mine, const Active& rules,
                                                     const Request& request, PlanItem& item);
  // A batch: requests answered in place, or asks whose answers are told.
  struct Requests;
  struct Asks;
  template <typename Batch>
  void run(Batch& batch, Instant now);

  // One meter, in one step. True: `decision` is final. False: nothing has been done, go the long
  // way.
  [[gnu::always_inline]] inline bool decide_one(const PlanItem& item, std::uint64_t planned_under,
                                                Instant now, Decision& decision);
  // A denial by a meter that is only read. True: `decision` is final. False: the meter does not
  // deny, or cannot be told without the lock.
  bool deny_unlocked(const Shard& shard, const PlanItem& item, std::uint64_t planned_under,
                     Instant now, Decision& decision);
  // A whole plan by the short way. True: `decision` is final. False: nothing has been charged, go
  // the long way.
  bool decide_directly(const Plan& plan, Instant now, Decision& decision);
  bool decide_several(const Plan& plan, Instant now, Decision& decision);

  void decide_planned(Local& mine, const Active& rules, const Request& request, Instant now,
                      Result<Decision>& answer);
  void decide_prepared_at_length(Prepared::Impl& prepared, Instant now, Result<Decision>& answer);
  // The long ways: answered on the stack, or told to `answers`.
  void decide_at_length(const Plan& plan, const Ask& ask, Instant now, Result<Decision>& answer);
  void ask_at_length(const Plan& plan, const Ask& ask, Instant now, std::size_t i,
                     Answers& answers);
  // The answer to a request that meets no limit. False: the rules have changed, plan anew.
  bool decide_unmatched(const Plan& plan, const Ask& ask, Instant now, Result<Decision>& answer);
  // Plans anew. True: `plan` is of the rules in force. False: `answer` says what is wrong with the
  // request.
  bool plan_again(const Request& request, Plan& plan, Result<Decision>& answer);
  std::optional<Error> objection(const Ask& ask, Instant now) const;
  void answer_now(const Ask& ask, Instant now, std::size_t i, const Result<Decision>& answer,
                  Answers& answers);

  Table& table_;
  RulesInForce& rules_;
  Counting& counting_;
  Resolver& resolver_;
  Waiting& waiting_;
  Elsewhere& elsewhere_;
  Locals& locals_;
  const EngineOptions& options_;
  DecisionSink* const sink_;
  const RowId ad_hoc_row_;
};

}  // namespace weir::engine
