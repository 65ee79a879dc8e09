// Acquire, peek and batch: questions that end in a decision.

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weir/engine/quantity.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

constexpr std::string_view kWaitAlone =
    "body: 'wait' cannot be combined with 'up_to' or 'book_within'; wait for all of it, or take "
    "what there is, or book a start";
constexpr std::string_view kNoWaitInBatch =
    "body: a request in a batch cannot 'wait'; ask for it by POST /v1/acquire";

// Answers a request with the decision about its only ask, now or later.
class OneDecision final : public engine::Answers {
 public:
  // `deny`: the status of a refusal; 0: the usual one.
  OneDecision(Exchange& exchange, bool up_to, unsigned deny)
      : exchange_(exchange), up_to_(up_to), deny_(deny) {}

  void now(std::size_t, const Result<Decision>& decision) override {
    write(exchange_, decision, up_to_, deny_);
  }

  engine::LateAnswer later(std::size_t, std::uint64_t ticket) override {
    engine::Engine& engine = exchange_.api.engine();
    Exchange::Finish finish = exchange_.answer_later(
        [&engine, ticket](Instant now) { return engine.give_up(ticket, now); });
    return [&engine, up_to = up_to_, deny = deny_,
            finish = std::move(finish)](const Result<Decision>& decision) {
      finish([&](Exchange& late) {
        write(late, decision, up_to, deny);
        if (!decision || !decision->hold) return;
        late.answer.discard = [&engine, hold = decision->hold](Instant now) {
          engine.cancel(hold, now);
        };
      });
    };
  }

 private:
  static void write(Exchange& exchange, const Result<Decision>& decision, bool up_to,
                    unsigned deny) {
    if (!decision) {
      exchange.fail(decision.error());
      return;
    }
    exchange.wait_for(decision->record);
    exchange.api.answer_decision(*decision, up_to, exchange.now, exchange.answer);
    if (!decision->allowed() && deny != 0) exchange.answer.status = deny;
  }

  Exchange& exchange_;
  const bool up_to_;
  const unsigned deny_;
};

void answer_ask(Exchange& exchange, const engine::Ask& ask, unsigned deny = 0) {
  if (!exchange.reaches(ask.request)) return;
  OneDecision answers(exchange, !ask.up_to.empty(), deny);
  exchange.api.engine().ask({&ask, 1}, exchange.now, answers);
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

// The decisions of a batch: written as they come, with gaps for those that come later, until the
// last of them is there.
class BatchAnswers final : public engine::Answers {
 public:
  BatchAnswers(Exchange& exchange, std::span<const engine::Ask> asks)
      : exchange_(exchange), asks_(asks) {}

  void now(std::size_t i, const Result<Decision>& decision) override {
    begin_item();
    if (decision) exchange_.wait_for(decision->record);
    append_decided(exchange_.answer.body, decision, has_grant(i), exchange_.now);
  }

  engine::LateAnswer later(std::size_t i, std::uint64_t ticket) override {
    begin_item();
    if (gaps_ == nullptr) {
      gaps_ = std::make_shared<Gaps>();
      gaps_->finish =
          exchange_.answer_later([gaps = gaps_, &engine = exchange_.api.engine()](Instant now) {
            return gaps->give_up(engine, now);
          });
    }
    const std::scoped_lock lock(gaps_->lock);
    const std::size_t place = gaps_->gaps.size();
    gaps_->gaps.push_back({.offset = exchange_.answer.body.size(), .ticket = ticket});
    gaps_->missing += 1;
    return [gaps = gaps_, place, with_grant = has_grant(i),
            &host = exchange_.api.host()](const Result<Decision>& decision) {
      std::string item;
      append_decided(item, decision, with_grant, host.now());
      gaps->fill(place, std::move(item), decision ? decision->record : 0);
    };
  }

  // Asks for those from `first` up to `end`.
  void ask(std::size_t first, std::size_t end) {
    first_ = first;
    exchange_.api.engine().ask(asks_.subspan(first, end - first), exchange_.now, *this);
  }

  // A decision that is refused before the engine is asked.
  void refuse(const Error& error) {
    begin_item();
    append_decided(exchange_.answer.body, error, false, exchange_.now);
  }

  // All have been told. Answers the request, unless some decisions are missing.
  void end() {
    exchange_.answer.body += "]}";
    if (gaps_ == nullptr) return;
    {
      const std::scoped_lock lock(gaps_->lock);
      gaps_->body = std::move(exchange_.answer.body);
      gaps_->record = std::max(gaps_->record, exchange_.answer.record);
    }
    gaps_->let_go();
  }

 private:
  struct Gap {
    std::size_t offset;
    std::uint64_t ticket;
    std::string item{};
  };
  struct Gaps {
    std::mutex lock;
    std::string body;  // with gaps
    std::vector<Gap> gaps;
    std::uint64_t record = 0;  // the last that any of them waits for
    std::size_t missing = 1;   // the handler itself counts until it is through
    Exchange::Finish finish;

    void fill(std::size_t place, std::string item, std::uint64_t item_record) {
      {
        const std::scoped_lock guard(lock);
        gaps[place].item = std::move(item);
        record = std::max(record, item_record);
      }
      let_go();
    }

    void let_go() {
      {
        const std::scoped_lock guard(lock);
        missing -= 1;
        if (missing > 0) return;
      }
      finish([this](Exchange& late) {
        late.answer.content_type = kJsonType;
        late.answer.body = whole();
        late.wait_for(record);
      });
    }

    std::string whole() const {
      std::string out;
      std::size_t done = 0;
      for (const Gap& gap : gaps) {
        out.append(body, done, gap.offset - done);
        out += gap.item;
        done = gap.offset;
      }
      out.append(body, done);
      return out;
    }

    // True: none of the answers will come.
    bool give_up(engine::Engine& engine, Instant now) {
      std::vector<std::uint64_t> tickets;
      {
        const std::scoped_lock guard(lock);
        for (const Gap& gap : gaps) {
          if (gap.item.empty()) tickets.push_back(gap.ticket);
        }
      }
      std::size_t given_up = 0;
      for (const std::uint64_t ticket : tickets) given_up += engine.give_up(ticket, now) ? 1 : 0;
      const std::scoped_lock guard(lock);
      missing -= given_up;
      return missing == 0;
    }
  };

  static void append_decided(std::string& out, const Result<Decision>& decision, bool up_to,
                             Instant now) {
    if (decision) {
      append_decision(out, *decision, up_to ? Granted::kAsked : Granted::kNotAsked, now);
    } else {
      append_problem(out, problem_of(decision.error().code), decision.error().message);
    }
  }
  void begin_item() {
    if (!std::exchange(is_first_, false)) exchange_.answer.body += ',';
  }
  bool has_grant(std::size_t i) const noexcept { return !asks_[first_ + i].up_to.empty(); }

  Exchange& exchange_;
  std::span<const engine::Ask> asks_;
  std::size_t first_ = 0;  // of those that are asked for
  bool is_first_ = true;
  std::shared_ptr<Gaps> gaps_;  // none: all is decided here
};

}  // namespace

void acquire(Exchange& exchange) {
  Texts texts;
  const Result<AskBody> ask =
      read_ask(exchange.call.body, Options::kAll, texts, Scales(exchange.api.engine()));
  if (!ask) {
    exchange.fail(ask.error());
  } else if (ask->wait.count() > 0 && (!ask->up_to.empty() || ask->book_within.count() > 0)) {
    exchange.fail(Problem::kBadArgument, kWaitAlone);
  } else {
    answer_ask(exchange, ask->at(exchange.now));
  }
}

void peek(Exchange& exchange) {
  Texts texts;
  const Result<AskBody> read =
      read_ask(exchange.call.body, Options::kNone, texts, Scales(exchange.api.engine()));
  if (!read) {
    exchange.fail(read.error());
    return;
  }
  engine::Ask ask = read->at(exchange.now);
  ask.is_peek = true;
  answer_ask(exchange, ask);
}

// A proxy can send a client's text in a header without having to escape it: nothing
// but the end of the line ends it.
void authorize(Exchange& exchange) {
  AskBody ask;
  std::vector<std::string> names(exchange.call.fields.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Field& field = exchange.call.fields[i];
    names[i] = lower(field.name);
    const std::string_view name = names[i];
    if (is_same_word(name, kRequestField)) continue;
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
  answer_ask(exchange, ask.at(exchange.now), deny);
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
  std::vector<engine::Ask> asks;
  asks.reserve(batch->asks.size());
  for (const AskBody& ask : batch->asks) asks.push_back(ask.at(exchange.now));
  BatchAnswers answers(exchange, asks);
  std::size_t first = 0;
  const auto ask_up_to = [&](std::size_t end) {
    answers.ask(first, end);
    first = end;
  };
  for (std::size_t i = 0; i < asks.size(); ++i) {
    Status may = Done{};
    if (batch->asks[i].wait.count() != 0) {
      may = bad_argument(std::string(kNoWaitInBatch));
    } else if (exchange.call.reach != nullptr) {
      may = exchange.call.reach->covers(asks[i].request);
    }
    if (may) continue;
    ask_up_to(i);
    answers.refuse(may.error());
    first = i + 1;
  }
  ask_up_to(asks.size());
  answers.end();
}

}  // namespace weir::wire::http
