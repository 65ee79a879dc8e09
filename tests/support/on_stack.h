// On the stack: calls of an engine that answer before they return, as values; and a wait as it
// stands when the call has returned. For tests that would only unpack callbacks.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weir/engine/ask.h"
#include "weir/engine/engine.h"

namespace weir::engine {

namespace on_stack {

// Keeps what a callback is told.
template <typename Answer>
struct Kept {
  auto callback() {
    return [this](const Answer& said) { answer.emplace(said); };
  }
  Answer get() {
    EXPECT_TRUE(answer.has_value()) << "it was to be answered on the stack";
    return *std::move(answer);
  }

  std::optional<Answer> answer{};
};

}  // namespace on_stack

inline Result<HoldState> state_of(const Result<HoldAnswer>& answer) {
  return answer ? Result<HoldState>(answer->state) : answer.error();
}

inline Result<HoldState> settle(Engine& engine, HoldId hold, std::span<const Cost> actual,
                                Instant now) {
  on_stack::Kept<Result<HoldAnswer>> kept;
  engine.settle(hold, actual, now, kept.callback());
  return state_of(kept.get());
}
// kActive: at that instant it could not be cancelled.
inline HoldState cancel(Engine& engine, HoldId hold, Instant now) {
  on_stack::Kept<Result<HoldAnswer>> kept;
  engine.cancel(hold, now, kept.callback());
  const Result<HoldState> state = state_of(kept.get());
  return state ? *state : HoldState::kActive;
}
inline Result<HoldState> renew(Engine& engine, HoldId hold, Duration ttl, Instant now) {
  on_stack::Kept<Result<HoldAnswer>> kept;
  engine.renew(hold, ttl, now, kept.callback());
  return state_of(kept.get());
}
inline Result<Inspection> inspect(Engine& engine, std::string_view limit,
                                  std::span<const std::string_view> key, Instant now) {
  on_stack::Kept<Result<Inspection>> kept;
  engine.inspect(limit, key, now, kept.callback());
  return kept.get();
}
inline Status reset(Engine& engine, std::string_view limit, std::span<const std::string_view> key,
                    Instant now) {
  on_stack::Kept<Status> kept;
  engine.reset(limit, key, now, kept.callback());
  return kept.get();
}

// What an ask may want beside its request, without the wait.
struct Wants {
  Duration hold{};
  std::string up_to{};
  Duration book_within{};
};

inline Result<Decision> acquire(Engine& engine, const Request& request, const Wants& wants,
                                Instant now) {
  return engine.decide(Ask{.request = request,
                           .hold = wants.hold,
                           .up_to = wants.up_to,
                           .book_within = wants.book_within},
                       now);
}

struct Patience {
  Instant deadline{};
  Duration hold{};
};

// A wait that has begun: its ticket, and kQueued as verdict; or its final answer.
struct Begun {
  Decision decision;
  std::uint64_t ticket = 0;
};

// Answers of one ask: kept if they come on the stack, else for `late`.
struct OneAnswer final : Answers {
  explicit OneAnswer(LateAnswer told) : late(std::move(told)) {}

  void now(std::size_t, const Result<Decision>& said) override { answer.emplace(said); }
  LateAnswer later(std::size_t, std::uint64_t number) override {
    ticket = number;
    return [late = std::move(late)](const Result<Decision>& said) {
      if (late) late(said);
    };
  }

  std::optional<Result<Decision>> answer{};
  std::uint64_t ticket = 0;
  LateAnswer late;
};

inline Result<Begun> wait(Engine& engine, const Request& request, const Patience& patience,
                          Instant now, LateAnswer late) {
  OneAnswer one(std::move(late));
  const Ask ask{.request = request, .hold = patience.hold, .wait_until = patience.deadline};
  engine.ask({&ask, 1}, now, one);
  Begun begun;
  if (one.answer && !*one.answer) return one.answer->error();
  if (one.answer) begun.decision = **one.answer;
  if (one.ticket != 0) begun.decision.verdict = Verdict::kQueued;
  begun.ticket = one.ticket;
  return begun;
}

// Tells `answered` once, on the stack or later.
inline void ask(Engine& engine, const Ask& asked, Instant now, LateAnswer answered) {
  OneAnswer one(answered);
  engine.ask({&asked, 1}, now, one);
  if (one.answer) answered(*one.answer);
}

}  // namespace weir::engine
