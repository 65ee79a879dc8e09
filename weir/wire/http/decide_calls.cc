// Acquire, peek and batch: questions that end in a decision.

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weir/engine/owned_request.h"
#include "weir/engine/quantity.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

// Answers are about a kilobyte each, so a batch is decided so many at a time; the
// engine itself looks ahead sixteen.
constexpr std::size_t kChunk = 64;

void answer_result(Exchange& exchange, const Result<Decision>& decision, bool up_to) {
  if (decision) {
    exchange.api.answer_decision(*decision, up_to, exchange.now, exchange.answer);
  } else {
    exchange.fail(decision.error());
  }
}

void record(const Exchange& exchange, const Ask& ask, const Result<Decision>& answer) {
  engine::DecisionSink* const sink = exchange.api.settings().sink;
  if (sink == nullptr) return;
  const engine::Request request = ask.request();
  sink->record({&request, 1}, {ask.hold, ask.wait, ask.book_within, ask.up_to}, exchange.now,
               {&answer, 1});
}

engine::AcquireOptions options_of(const Ask& ask) {
  return {.hold = ask.hold, .up_to = std::string(ask.up_to), .book_within = ask.book_within};
}

constexpr std::string_view kWaitAlone =
    "body: 'wait' cannot be combined with 'up_to' or 'book_within'; wait for all of it, or take "
    "what there is, or book a start";
constexpr std::string_view kNoWaitInBatch =
    "body: a request in a batch cannot 'wait'; ask for it by POST /v1/acquire";

// Answers a request after its handler has returned. `deny`: the status of a refusal; 0: the
// usual one.
engine::WaitCallback answer_later(Exchange& exchange, bool up_to = false, unsigned deny = 0) {
  return [&api = exchange.api, later = exchange.later, route = exchange.answer.route, up_to,
          deny](const Result<Decision>& decision) {
    Answer answer;
    answer.route = route;
    if (decision) {
      answer.hold = decision->hold;
      api.answer_decision(*decision, up_to, api.host().now(), answer);
      if (!decision->allowed() && deny != 0) answer.status = deny;
    } else {
      const Problem problem = problem_of(decision.error().code);
      answer.status = status_of(problem);
      answer.content_type = kProblemType;
      append_problem(answer.body, problem, decision.error().message);
    }
    later(std::move(answer));
  };
}

bool is_elsewhere(const Result<Decision>& answer) {
  return answer && answer->verdict == Verdict::kElsewhere;
}

// Asks limits that are kept elsewhere, and tells `callback` what they said.
void ask_elsewhere(const Exchange& exchange, const Ask& ask, engine::WaitCallback callback) {
  Api& api = exchange.api;
  const engine::Request request = ask.request();
  if (engine::DecisionSink* const sink = api.settings().sink) {
    callback = [sink, now = exchange.now, hold = ask.hold, wait = ask.wait,
                up_to = std::string(ask.up_to),
                owned = std::make_shared<engine::OwnedRequest>(request),
                callback = std::move(callback)](const Result<Decision>& answer) {
      sink->record({&owned->view(), 1}, {hold, wait, {}, up_to}, now, {&answer, 1});
      callback(answer);
    };
  }
  api.engine().ask(request, options_of(ask), exchange.now, exchange.now + ask.wait,
                   std::move(callback));
}

void wait_for(Exchange& exchange, const Ask& ask) {
  if (!ask.up_to.empty() || ask.book_within.count() > 0) {
    exchange.fail(Problem::kBadArgument, kWaitAlone);
    return;
  }
  Api& api = exchange.api;
  const engine::WaitOptions options{.deadline = exchange.now + ask.wait, .hold = ask.hold};
  Result<engine::WaitStart> start =
      api.engine().wait(ask.request(), options, exchange.now, answer_later(exchange));
  if (start && start->decision.verdict == Verdict::kElsewhere) {
    exchange.waits = true;
    return ask_elsewhere(exchange, ask, answer_later(exchange));
  }
  if (start && api.settings().sink != nullptr) record(exchange, ask, start->decision);
  if (!start) {
    exchange.fail(start.error());
  } else if (start->ticket != 0) {
    exchange.waits = true;
    exchange.answer.ticket = start->ticket;
  } else {
    api.answer_decision(start->decision, false, exchange.now, exchange.answer);
  }
}

constexpr std::string_view kAttributePrefix = "weir-attribute-";
constexpr std::string_view kCostPrefix = "weir-cost-";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return out;
}

// Decisions of a batch that come later, and the others, until the last of them is there.
struct Gathering {
  std::mutex lock;
  std::string body;                  // with gaps
  std::vector<std::size_t> offsets;  // of the gaps
  std::vector<std::string> items;    // that belong there
  std::size_t missing = 1;           // the handler itself counts until it is through

  std::string whole() const {
    std::string out;
    std::size_t done = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      out.append(body, done, offsets[i] - done);
      out += items[i];
      done = offsets[i];
    }
    out.append(body, done);
    return out;
  }
};
using SharedGathering = std::shared_ptr<Gathering>;

void append_decided(std::string& out, const Result<Decision>& decision, bool up_to, Instant now) {
  if (decision) {
    append_decision(out, *decision, up_to ? Granted::kAsked : Granted::kNotAsked, now);
  } else {
    append_problem(out, problem_of(decision.error().code), decision.error().message);
  }
}

// Leaves a gap for a decision that is made elsewhere.
void gather_later(Exchange& exchange, const Ask& ask, SharedGathering& gathering) {
  if (gathering == nullptr) gathering = std::make_shared<Gathering>();
  std::size_t place = 0;
  {
    const std::scoped_lock lock(gathering->lock);
    place = gathering->items.size();
    gathering->items.emplace_back();
    gathering->offsets.push_back(exchange.answer.body.size());
    gathering->missing += 1;
  }
  ask_elsewhere(exchange, ask,
                [&api = exchange.api, later = exchange.later, route = exchange.answer.route,
                 gathering, place, up_to = !ask.up_to.empty()](const Result<Decision>& decision) {
                  const std::scoped_lock lock(gathering->lock);
                  append_decided(gathering->items[place], decision, up_to, api.host().now());
                  gathering->missing -= 1;
                  if (gathering->missing > 0) return;
                  Answer answer;
                  answer.route = route;
                  answer.content_type = kJsonType;
                  answer.body = gathering->whole();
                  later(std::move(answer));
                });
}

void append_item(Exchange& exchange, const Ask& ask, const Result<Decision>& decision,
                 SharedGathering& gathering) {
  std::string& out = exchange.answer.body;
  if (out.back() != '[' || gathering != nullptr) out += ',';
  if (is_elsewhere(decision)) {
    gather_later(exchange, ask, gathering);
  } else {
    append_decided(out, decision, !ask.up_to.empty(), exchange.now);
  }
}

// As many of the plain requests that lead `asks` as one chunk holds; at least one.
std::size_t decide_plain(Exchange& exchange, std::span<const Ask> asks,
                         std::vector<Result<Decision>>& answers, SharedGathering& gathering) {
  std::vector<engine::Request> requests;
  for (const Ask& ask : asks.first(std::min(kChunk, asks.size()))) {
    if (!ask.is_plain()) break;
    requests.push_back(ask.request());
  }
  while (answers.size() < requests.size()) answers.emplace_back(std::in_place);
  const std::span<Result<Decision>> used = std::span(answers).first(requests.size());
  exchange.api.engine().decide(requests, exchange.now, used);
  if (engine::DecisionSink* const sink = exchange.api.settings().sink) {
    sink->record(requests, {}, exchange.now, used);
  }
  for (std::size_t i = 0; i < used.size(); ++i) append_item(exchange, asks[i], used[i], gathering);
  return requests.size();
}

void decide_one(Exchange& exchange, const Ask& ask, SharedGathering& gathering) {
  if (ask.wait.count() > 0) {
    return append_item(exchange, ask, bad_argument(std::string(kNoWaitInBatch)), gathering);
  }
  const Result<Decision> answer =
      exchange.api.engine().acquire(ask.request(), options_of(ask), exchange.now);
  if (!is_elsewhere(answer)) record(exchange, ask, answer);
  append_item(exchange, ask, answer, gathering);
}

}  // namespace

void acquire(Exchange& exchange) {
  Texts texts;
  const Result<Ask> ask =
      read_ask(exchange.call.body, Options::kAll, texts, Scales(exchange.api.engine()));
  engine::Engine& engine = exchange.api.engine();
  if (!ask) {
    exchange.fail(ask.error());
  } else if (ask->is_plain()) {
    const Result<Decision> answer = engine.decide(ask->request(), exchange.now);
    if (is_elsewhere(answer)) {
      exchange.waits = true;
      return ask_elsewhere(exchange, *ask, answer_later(exchange));
    }
    record(exchange, *ask, answer);
    answer_result(exchange, answer, false);
  } else if (ask->wait.count() > 0) {
    wait_for(exchange, *ask);
  } else {
    const Result<Decision> answer = engine.acquire(ask->request(), options_of(*ask), exchange.now);
    if (is_elsewhere(answer)) {
      exchange.waits = true;
      return ask_elsewhere(exchange, *ask, answer_later(exchange, !ask->up_to.empty()));
    }
    record(exchange, *ask, answer);
    answer_result(exchange, answer, !ask->up_to.empty());
  }
}

void peek(Exchange& exchange) {
  Texts texts;
  const Result<Ask> ask =
      read_ask(exchange.call.body, Options::kNone, texts, Scales(exchange.api.engine()));
  if (!ask) {
    exchange.fail(ask.error());
    return;
  }
  engine::Engine& engine = exchange.api.engine();
  const Result<Decision> answer = engine.peek(ask->request(), exchange.now);
  if (is_elsewhere(answer)) {
    exchange.waits = true;
    return engine.ask_peek(ask->request(), exchange.now, answer_later(exchange));
  }
  answer_result(exchange, answer, false);
}

// A proxy can send a client's text in a header without having to escape it: nothing
// but the end of the line ends it.
void authorize(Exchange& exchange) {
  Ask ask;
  std::vector<std::string> names(exchange.call.fields.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Field& field = exchange.call.fields[i];
    names[i] = lower(field.name);
    const std::string_view name = names[i];
    if (name.starts_with(kAttributePrefix)) {
      ask.attributes.push_back({name.substr(kAttributePrefix.size()), field.value});
      continue;
    }
    engine::Cost cost{name.substr(std::min(kCostPrefix.size(), name.size())), 0};
    if (!name.starts_with(kCostPrefix)) {
      exchange.fail(Problem::kBadArgument,
                    fmt::format("header: '{}' is unknown; known are Weir-Attribute-… and "
                                "Weir-Cost-…; correct the name, or leave it out",
                                field.name.substr(0, 64)));
      return;
    }
    const Result<std::int64_t> amount =
        engine::parse_amount(fmt::format("header: '{}'", field.name.substr(0, 64)), field.value,
                             Scales(exchange.api.engine()).of_unit(cost.unit));
    if (!amount) {
      exchange.fail(amount.error());
      return;
    }
    cost.amount = *amount;
    ask.costs.push_back(cost);
  }
  unsigned deny = 0;
  if (exchange.query.has("deny")) {
    const Result<std::string_view> status = exchange.query.one("deny");
    if (!status || (*status != "401" && *status != "403")) {
      exchange.fail(Problem::kBadArgument,
                    "query: 'deny' must be 401 or 403, once; leave it out for the usual statuses");
      return;
    }
    deny = *status == "401" ? 401 : 403;
  }
  const Result<Decision> decision = exchange.api.engine().decide(ask.request(), exchange.now);
  if (is_elsewhere(decision)) {
    exchange.waits = true;
    return ask_elsewhere(exchange, ask, answer_later(exchange, false, deny));
  }
  record(exchange, ask, decision);
  answer_result(exchange, decision, false);
  if (decision && !decision->allowed() && deny != 0) exchange.answer.status = deny;
}

void batch(Exchange& exchange) {
  Texts texts;
  const std::size_t most = exchange.api.settings().batch_max;
  const Result<Batch> batch =
      read_batch(exchange.call.body, most, texts, Scales(exchange.api.engine()));
  if (!batch) {
    exchange.fail(batch.error());
    return;
  }
  if (batch->is_too_long) {
    exchange.fail(
        Problem::kTooLarge,
        fmt::format("body: requests has more than {} elements; send several batches", most));
    return;
  }
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = R"({"decisions":[)";
  SharedGathering gathering;  // none: all is decided here
  std::vector<Result<Decision>> answers;
  answers.reserve(std::min(kChunk, batch->asks.size()));
  std::span<const Ask> left = batch->asks;
  while (!left.empty()) {
    if (left[0].is_plain()) {
      left = left.subspan(decide_plain(exchange, left, answers, gathering));
    } else {
      decide_one(exchange, left[0], gathering);
      left = left.subspan(1);
    }
  }
  exchange.answer.body += "]}";
  if (gathering == nullptr) return;
  const std::scoped_lock lock(gathering->lock);
  gathering->body = std::move(exchange.answer.body);
  gathering->missing -= 1;
  exchange.waits = gathering->missing > 0;
  if (!exchange.waits) exchange.answer.body = gathering->whole();
}

}  // namespace weir::wire::http
