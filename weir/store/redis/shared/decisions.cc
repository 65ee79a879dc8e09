// Invariants:
// 1. Each request is answered once: by its script, or, if that fails, by the outage policies or an
//    error. A script that decides nothing (another epoch, a foreign value) has charged nothing, and
//    its requests are asked again, one by one, by the script that knows what that means.
// 2. What a thread asks is heard in that order: a request that does not gather sends first what
//    was gathered before it.
// 3. No key is twice in what leaves together, so what a script reads first is what each request
//    meets.
// 4. The verdict worked out here from the states that a script hands back is the script's own, or
//    the answer is an error.
// 5. A request that was refused because Redis was late leaves no hold: the late answer ends it.
//    One that was admitted all the same has a hold here, which is doubtful there: both end
//    together.

#include "weir/store/redis/shared/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "weir/base/recycled.h"
#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

using engine::SharedAnswer;
using engine::SharedAsk;
using engine::SharedItem;

// A script that holds Redis up longer than this many take would be felt by others.
constexpr std::size_t kGatheredKeysMax = 64;

// Two letters and the five numbers that a bucket has. Redis keeps arguments of up to 44 bytes in
// one piece, which takes it less time.
constexpr std::size_t kBucketBlobBytes = 42;

using AnswerNumbers = boost::container::small_vector<std::int64_t, 16>;

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

void append_bucket(std::string& out, const SharedItem& item, Instant now) {
  const std::size_t begin = out.size();
  append_blob(out, item.rule->shape, item.cost, item.rule->shadow ? '1' : '0', now);
  out.resize(begin + kBucketBlobBytes);
}

// What a script needs to know of many buckets: few are different.
class Terms {
 public:
  // The place of the item's terms, from 1.
  char place_of(const SharedItem& item, Instant now) {
    const auto known = std::find_if(told_.begin(), told_.end(), [&](const Told& one) {
      return one.rule == item.rule && one.cost == item.cost;
    });
    if (known != told_.end()) return static_cast<char>(known - told_.begin() + 1);
    told_.push_back({item.rule, item.cost});
    append_bucket(text_, item, now);
    return static_cast<char>(told_.size());
  }

  template <typename Arguments>
  void append_to(Arguments& arguments) const {
    for (std::size_t i = 0; i < told_.size(); ++i) {
      arguments.push_back(std::string_view(text_).substr(i * kBucketBlobBytes, kBucketBlobBytes));
    }
  }

 private:
  struct Told {
    const engine::Rule* rule;
    std::int64_t cost;
  };
  boost::container::small_vector<Told, 8> told_;  // at most one for each key
  std::string text_;
};

}  // namespace

// A request on its way.
struct Decisions::Question {
  std::shared_ptr<const engine::RuleSet> rules;
  boost::container::small_vector<SharedItem, 8> items;
  boost::container::small_vector<std::string, 8> keys;
  HoldId hold{};
  Duration ttl{};
  bool is_peek = false;
  bool is_started = true;  // false: it was refused because Redis did not answer in time
  Instant now{};
  EpochRef lossy{};  // what was known of the data when this was sent; nullptr: no loss
  engine::SharedCallback callback;

  bool is_plain() const {
    return !hold && !is_peek && std::all_of(items.begin(), items.end(), [](const SharedItem& item) {
      return std::holds_alternative<meter::BucketShape>(item.rule->shape);
    });
  }
};

// Requests for buckets that wait for the end of their loop's turn.
struct Gathered {
  std::vector<Decisions::QuestionRef> asked;
  boost::container::small_vector<engine::Print, kGatheredKeysMax> prints;  // of their keys
  bool is_posted = false;  // it will be sent once the thread has done what it does

  bool takes(const Decisions::Question& more) const {
    if (prints.size() + more.items.size() > kGatheredKeysMax) return false;
    return std::none_of(more.items.begin(), more.items.end(), [this](const SharedItem& item) {
      return std::find(prints.begin(), prints.end(), item.print) != prints.end();
    });
  }
  void add(Decisions::QuestionRef more) {
    for (const SharedItem& item : more->items) prints.push_back(item.print);
    asked.push_back(std::move(more));
  }
};

namespace {

// The answer in `numbers`: 1 or 0, now, and two for each limit.
Result<SharedAnswer> answer_of(std::span<const SharedItem> items, bool has_hold,
                               std::span<const std::int64_t> numbers) {
  const std::optional<Instant> now = instant_of(numbers[1]);
  if (!now) return odd_reply("a decision");
  SharedAnswer said;
  said.now = *now;
  bool passes = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const engine::Rule& rule = *items[i].rule;
    const SharedState state{numbers[2 + 2 * i], numbers[3 + 2 * i]};
    const SharedCheck judged = judge(rule.shape, state, said.now, items[i].cost);
    said.outcomes.push_back({judged.check, judged.before, judged.after});
    passes = passes && (rule.shadow || judged.check.allowed());
  }
  if (passes != (numbers[0] == 1)) return odd_reply("a decision");
  said.is_held = has_hold && passes;
  return said;
}

}  // namespace

void Decisions::decide(const SharedAsk& ask, engine::SharedCallback callback) {
  auto asked = std::allocate_shared<Question>(Recycled<Question>());
  asked->rules = ask.rules;
  asked->items.assign(ask.items.begin(), ask.items.end());
  if (!ask.is_peek) asked->hold = ask.hold;
  asked->is_peek = ask.is_peek;
  asked->ttl = ask.ttl;
  asked->now = ask.now;
  asked->callback = std::move(callback);
  for (const SharedItem& item : ask.items) asked->keys.push_back(limit_key(fleet_.prefix, item));
  if (!outages_.may_ask(ask.now)) {
    return asked->callback(outages_.decide(*asked->rules, asked->items, asked->keys, asked->now,
                                           asked->is_peek, outages_.why()));
  }
  count_asked();
  Desk* const desk = connections_.here();
  if (asked->is_plain()) {
    if (desk != nullptr) return gather(*desk, std::move(asked));
    return ask_buckets(connections_.client(), {std::move(asked)});
  }
  if (desk != nullptr) send_gathered(*desk);
  ask_all(connections_.client(), asked);
}

// --- buckets, together

void Decisions::gather(Desk& desk, QuestionRef asked) {
  if (desk.gathered == nullptr) desk.gathered = std::make_shared<Gathered>();
  if (!desk.gathered->takes(*asked)) send_gathered(desk);
  desk.gathered->add(std::move(asked));
  if (std::exchange(desk.gathered->is_posted, true)) return;
  desk.loop.post([this, kept = desk.gathered] {
    kept->is_posted = false;
    // Nothing is left of a desk that went; and only then may there be none, nor this.
    if (kept->asked.empty()) return;
    Desk& here = *connections_.here();
    send_gathered(here);
    here.client->flush();
  });
}

void Decisions::send_gathered(Desk& desk) {
  if (desk.gathered == nullptr) return;
  desk.gathered->prints.clear();
  if (desk.gathered->asked.empty()) return;
  ask_buckets(*desk.client, std::exchange(desk.gathered->asked, {}));
}

bool Decisions::have_refilled(std::span<const QuestionRef> all, const EpochRef& known) const {
  const auto since_us = epochs_.us_since_loss(known);
  if (!since_us) return false;
  return std::all_of(all.begin(), all.end(), [&](const QuestionRef& asked) {
    return std::all_of(asked->items.begin(), asked->items.end(), [&](const SharedItem& item) {
      const auto& shape = std::get<meter::BucketShape>(item.rule->shape);
      return *since_us > shape.fill.ns / kNsPerUs + 2;  // each side rounds by less than one
    });
  });
}

void Decisions::ask_buckets(Client& client, std::vector<QuestionRef> all) {
  const EpochRef known = epochs_.known();
  // Where something was lost, the other script knows what that means.
  if (!have_refilled(all, known)) {
    for (const QuestionRef& asked : all) ask_all(client, asked);
    return;
  }
  if (all.size() == 1 && all[0]->items.size() == 1) return ask_one_bucket(client, all[0], *known);
  boost::container::small_vector<std::string_view, kGatheredKeysMax + 1> keys = {fleet_.epoch_key};
  std::string plan;
  Terms terms;
  for (const QuestionRef& asked : all) {
    keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
    plan += static_cast<char>(asked->items.size());
    for (const SharedItem& item : asked->items) plan += terms.place_of(item, asked->now);
  }
  const std::string now = fleet_.now_argument();
  boost::container::small_vector<std::string_view, 12> arguments = {now, known->seen, plan};
  terms.append_to(arguments);
  client.call(shared_scripts().buckets, keys, arguments,
              [this, &client, all = std::move(all)](const Answer& answer) {
                on_buckets(client, all, answer);
              });
}

void Decisions::ask_one_bucket(Client& client, const QuestionRef& asked, const Epoch& known) {
  const std::array<std::string_view, 2> keys = {fleet_.epoch_key, asked->keys[0]};
  std::string terms;
  append_bucket(terms, asked->items[0], asked->now);
  const std::string now = fleet_.now_argument();
  const std::array<std::string_view, 3> arguments = {now, known.seen, terms};
  client.call(shared_scripts().one_bucket, keys, arguments,
              [this, &client, asked](const Answer& answer) {
                if (answer.ok() && !answer.reply().text()) return ask_all(client, asked);
                on_decided(*asked, answer);
              });
}

void Decisions::on_buckets(Client& client, std::span<const QuestionRef> all, const Answer& answer) {
  if (!answer.ok()) {
    for (const QuestionRef& asked : all) on_decided(*asked, answer);
    return;
  }
  const auto text = answer.reply().text();
  if (!text) {
    for (const QuestionRef& asked : all) ask_all(client, asked);
    return;
  }
  std::size_t count = 1;
  for (const QuestionRef& asked : all) count += 1 + 2 * asked->items.size();
  const bool is_odd = text->size() != 8 * count;
  outages_.note_success();
  std::size_t next = 1;
  for (const QuestionRef& asked : all) {
    count_answered();
    if (is_odd) {
      asked->callback(odd_reply("a decision"));
      continue;
    }
    AnswerNumbers numbers;
    const auto take = [&] { numbers.push_back(read_double(text->substr(8 * next++))); };
    take();
    numbers.push_back(read_double(*text));
    for (std::size_t i = 0; i < 2 * asked->items.size(); ++i) take();
    asked->callback(answer_of(asked->items, false, numbers));
  }
}

// --- anything, alone

void Decisions::ask_all(Client& client, const QuestionRef& asked) {
  const EpochRef known = epochs_.known();
  if (known->lost_at_us > 0) asked->lossy = known;
  boost::container::small_vector<std::string_view, 8> keys = {fleet_.epoch_key};
  keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
  std::string hold;
  std::string hold_ttl_us;
  std::string record;
  std::string holds_key;
  std::vector<std::string> ebb_keys;
  if (asked->hold) {
    holds_key = hold_key(fleet_.prefix, asked->hold);
    keys.push_back(holds_key);
    for (std::size_t i = 0; i < asked->items.size(); ++i) {
      if (!has_ebbs(asked->items[i].rule->shape)) continue;
      ebb_keys.push_back(ebb_key(fleet_.prefix, asked->keys[i]));
    }
    keys.insert(keys.end(), ebb_keys.begin(), ebb_keys.end());
    hold = hold_bytes(asked->hold);
    hold_ttl_us = fmt::format("{}", whole_us(asked->ttl));
    record = hold_record(asked->items, asked->keys, *asked->rules);
  }
  const Blobs blobs(asked->items, asked->now);
  const std::string now = fleet_.now_argument();
  boost::container::small_vector<std::string_view, 12> arguments = {
      now, asked->is_peek ? "p" : "c", known->seen, known->fresh, hold, hold_ttl_us, record};
  blobs.append_to(arguments);
  client.call(shared_scripts().decide, keys, arguments,
              [this, asked](const Answer& answer) { on_decided(*asked, answer); },
              {.timeout = std::nullopt,
               .late = [this, asked](const Answer& answer) { on_late(*asked, answer); }});
}

void Decisions::on_decided(Question& asked, const Answer& answer) {
  if (answer.ok()) {
    count_answered();
    outages_.note_success();
    return asked.callback(read(asked, answer.reply()));
  }
  const Failure& failure = answer.failure();
  outages_.count(failure.kind);
  if (!outages_.note_failure(failure)) return asked.callback(named(failure));
  const Result<SharedAnswer> said = outages_.decide(*asked.rules, asked.items, asked.keys,
                                                    asked.now, asked.is_peek, failure.message);
  asked.is_started = said.ok();
  for (std::size_t i = 0; said && i < asked.items.size(); ++i) {
    if (refuses(asked.items[i], said->outcomes[i])) asked.is_started = false;
  }
  if (asked.hold && asked.is_started && failure.may_have_run) {
    doubtful_.add(asked.hold, asked.rules, failure.kind == FailureKind::kTimedOut, asked.now,
                  asked.now + asked.ttl);
  }
  asked.callback(said);
}

// What was charged stays charged, but a hold of work that never started is given back: its
// slots would be taken until its time.
void Decisions::on_late(const Question& asked, const Answer& answer) {
  if (!asked.hold) return;
  const bool is_made = answer.ok() && answer.reply().at(0).integer() == 1;
  if (asked.is_started) return doubtful_.heard(asked.hold, is_made, fleet_.clock.now());
  if (!is_made) return;
  holds_.end(asked.hold, engine::HoldState::kCancelled, {}, asked.rules, asked.now,
             [](const Result<engine::SharedEnd>&) {});
}

// Either eight bytes a number, from the short scripts, or numbers with the epoch among them.
Result<SharedAnswer> Decisions::read(const Question& asked, const Reply& reply) {
  const std::size_t count = 2 + 2 * asked.items.size();
  const bool has_hold{asked.hold};
  AnswerNumbers numbers;
  if (const auto text = reply.text()) {
    if (text->size() != 8 * count) return odd_reply("a decision");
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(read_double(text->substr(8 * i)));
    return answer_of(asked.items, has_hold, numbers);
  }
  const auto epoch = reply.at(2).text();
  if (!epoch || reply.size() != 1 + count) return odd_reply("a decision");
  for (std::size_t i = 0; i < reply.size(); ++i) {
    if (i == 2) continue;
    const auto number = reply.at(i).integer();
    if (!number) return odd_reply("a decision");
    numbers.push_back(*number);
  }
  if (!instant_of(numbers[1])) return odd_reply("a decision");
  epochs_.learn(*epoch);
  if (asked.lossy != nullptr) epochs_.hear_time(numbers[1], asked.lossy);
  return answer_of(asked.items, has_hold, numbers);
}

}  // namespace weir::store::redis
