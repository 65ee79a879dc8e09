// Asking Redis for decisions, and what is decided if it does not answer.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/base/recycled.h"
#include "weir/store/redis/shared/asked.h"
#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

using engine::HoldState;
using engine::SharedAnswer;
using engine::SharedAsk;
using engine::SharedItem;

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

  asked_.fetch_add(1, std::memory_order_relaxed);
  const bool is_plain =
      !asked->hold && !asked->is_peek &&
      std::all_of(asked->items.begin(), asked->items.end(), [](const SharedItem& item) {
        return std::holds_alternative<meter::BucketShape>(item.rule->shape);
      });
  if (is_plain) {
    ask_buckets(std::move(asked));
  } else {
    send_batch();  // nobody is overtaken
    ask_all(asked, epoch());
  }
}

void SharedLimits::ask_all(const std::shared_ptr<Asked>& asked, const Epoch& known) {
  asked->lossy_version = known.lost_at_us > 0 ? known.version : 0;
  boost::container::small_vector<std::string_view, 8> keys = {epoch_key_};
  keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
  std::string hold;
  std::string hold_ttl_us;
  std::string record;
  std::string holds_key;
  if (asked->hold) {
    holds_key = hold_key(prefix_, asked->hold);
    keys.push_back(holds_key);
    hold = hold_bytes(asked->hold);
    hold_ttl_us = fmt::format("{}", whole_us(asked->ttl));
    record = hold_record(asked->items, asked->keys, *asked->rules);
  }
  const Blobs blobs(asked->items, asked->now);
  const std::string now = now_argument();
  boost::container::small_vector<std::string_view, 12> arguments = {
      now, asked->is_peek ? "p" : "c", known.seen, known.fresh, hold, hold_ttl_us, record};
  blobs.append_to(arguments);
  client().call(shared_scripts().decide, keys, arguments,
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
  for (std::size_t i = 0; said && i < asked.items.size(); ++i) {
    if (refuses(asked.items[i], said->outcomes[i])) asked.is_started = false;
  }
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
  hear_time(numbers[1], asked.lossy_version);
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

}  // namespace weir::store::redis
