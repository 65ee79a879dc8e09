// Exchange: one call on its way to an answer, as the handlers see it.
//
// Internal to wire/http.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/base/told.h"
#include "weir/wire/http/api.h"
#include "weir/wire/http/problem.h"
#include "weir/wire/http/query.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kPlainType = "text/plain; charset=utf-8";

struct Exchange {
  Api& api;
  const Call& call;
  Instant now;
  Answer& answer;
  Later& later;
  std::string_view raw_parameter{};  // what stands for `{…}` in the path
  std::string parameter{};           // the same, decoded
  Query query{};
  bool waits = false;                 // `later` has been handed on
  const RouteTable* table = nullptr;  // of the route; none of a late answer

  // What the handlers of a system speak to. Requires that the route is one of a SystemRoutes<Part>.
  template <typename Part>
  Part in_force() const {
    return static_cast<const SystemRoutes<Part>&>(*table).in_force();
  }

  // The request is answered later: what this returns is called once, with what writes the answer.
  // `give_up`: none if it cannot be given up.
  using Write = std::function<void(Exchange& late)>;
  using Finish = std::function<void(const Write&)>;
  Finish answer_later(std::function<bool(Instant)> give_up = {});
  // The same for a call that learns only afterwards whether it is answered later: then it calls
  // answer_later(), and what this returned is called.
  Finish finish_later() const;

  // Answers by `write` what the engine says, now or later. `ask` is given the callback.
  template <typename Said, typename Ask, typename WriteSaid>
  void answer_call(const Ask& ask, WriteSaid write) {
    const auto told = Told<Said>::make();
    ask(told->callback());
    const auto said = told->answer_or([&] {
      return [finish = answer_later(), write](const Said& late) {
        finish([&](Exchange& exchange) { write(exchange, late); });
      };
    });
    if (said) write(*this, *said);
  }

  // Writes a problem; false, so that a check can return it.
  bool fail(Problem problem, std::string_view detail) {
    answer.status = status_of(problem);
    answer.content_type = kProblemType;
    answer.body.clear();
    append_problem(answer.body, problem, detail);
    return false;
  }
  bool fail(const Error& error) { return fail(problem_of(error.code), error.message); }

  // Whether the client's token reaches what is asked: a request, a key, or who asks. False: the
  // problem is written.
  template <typename... Asked>
  bool reaches(const Asked&... asked) {
    if (call.reach == nullptr) return true;
    const Status status = call.reach->covers(asked...);
    return status.ok() || fail(status.error());
  }

  // Reads the one value of a parameter of the query. True: `value` is it, or as it was if there is
  // none. False: the problem is written.
  bool read_query(std::string_view name, std::string_view& value);
  bool read_query(std::string_view name, std::int64_t& value);  // 0 or more

  // The answer is sent when this record is on disk, and those before it.
  void wait_for(std::uint64_t record) { answer.record = std::max(answer.record, record); }

  // A system's gate has more room than a moment ago: a request may wait for it.
  void try_waiters() { api.engine().try_waiters(now); }

  // {"state":"settled"}
  void answer_state(std::string_view state) {
    answer.content_type = kJsonType;
    answer.body = fmt::format(R"({{"state":"{}"}})", state);
  }
};

}  // namespace weir::wire::http
