#include "weir/store/redis/shared/holds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {

using engine::HoldState;
using engine::SharedEnd;

namespace {

HoldState state_of(std::string_view letter) {
  if (letter == "a") return HoldState::kActive;
  if (letter == "s") return HoldState::kSettled;
  return letter == "c" ? HoldState::kCancelled : HoldState::kGone;
}

// Units to return: all of a cancelled hold, the difference of a settled one.
std::int64_t back_of(const HoldPart& part, HoldState as,
                     std::span<const std::pair<std::string, std::int64_t>> actual) {
  if (as == HoldState::kCancelled) return part.amount;
  for (const auto& [unit, amount] : actual) {
    if (unit != part.unit) continue;
    return part.amount - saturate(std::min(Wide{amount} * part.weight, Wide{kTermMax}));
  }
  return 0;
}

}  // namespace

void SharedHolds::read(HoldId hold, std::function<void(Result<HoldRecord>)> next) {
  const std::string key = hold_key(fleet_.prefix, hold);
  const std::array<std::string_view, 2> words = {"GET", key};
  connections_.client().send(words, [this, key, next = std::move(next)](const Answer& answer) {
    if (!answer.ok()) return next(outages_.failed(answer.failure()));
    outages_.note_success();
    if (answer.reply().is_nil()) return next(HoldRecord{});
    const auto text = answer.reply().text();
    std::optional<HoldRecord> record = text ? read_record(*text) : std::nullopt;
    if (!record) return next(foreign_value(key));
    next(std::move(*record));
  });
}

struct SharedHolds::Ending {
  HoldId hold;
  HoldState as;
  std::vector<std::pair<std::string, std::int64_t>> actual;
  std::shared_ptr<const engine::RuleSet> rules;
  Instant now;
  engine::SharedEndCallback callback;
};

void SharedHolds::end(HoldId hold, HoldState as, std::span<const engine::Cost> actual,
                      std::shared_ptr<const engine::RuleSet> rules, Instant now,
                      engine::SharedEndCallback callback) {
  auto ending = std::make_shared<Ending>();
  *ending = {hold, as, {}, std::move(rules), now, std::move(callback)};
  for (const engine::Cost& cost : actual) ending->actual.emplace_back(cost.unit, cost.amount);
  read(hold, [this, ending](Result<HoldRecord> record) {
    if (!record) return ending->callback(std::move(record).error());
    // One that has ended is still asked for: whether its time is over, Redis knows.
    if (record->state == HoldState::kGone) return ending->callback(SharedEnd{record->state, {}});
    give_back(ending, *record);
  });
}

void SharedHolds::give_back(const std::shared_ptr<Ending>& ending, const HoldRecord& record) {
  std::vector<std::string> texts;  // a blob and an instant for each key
  texts.reserve(2 * record.parts.size());
  std::vector<std::string_view> keys;
  std::vector<std::string> ebb_keys;
  std::vector<std::string> names;  // of the limit of each key
  const std::string name = hold_key(fleet_.prefix, ending->hold);
  keys.push_back(name);
  for (const HoldPart& part : record.parts) {
    const engine::Rule* rule = ending->rules->find(part.limit);
    // A limit that is gone, or counts in another way now, gets nothing back.
    if (part.charged_at_us < 0 || rule == nullptr || !rule->shared) continue;
    if (!part.key.starts_with(fmt::format("{}{}:", fleet_.prefix, kind_of(rule->shape)))) continue;
    const bool is_slots = engine::is_slots(rule->shape);
    const std::int64_t back = is_slots ? part.amount : back_of(part, ending->as, ending->actual);
    if (back == 0) continue;
    std::string& blob = texts.emplace_back();
    append_blob(blob, rule->shape, back > 0 ? back : -back, back > 0 ? '+' : '-', ending->now);
    if (back < 0) append_debt(blob, rule->shape, engine::overage_of(*rule, rule->shape));
    names.push_back(part.limit);
    texts.push_back(fmt::format("{}", part.charged_at_us));
    keys.push_back(part.key);
    if (has_ebbs(rule->shape)) ebb_keys.push_back(ebb_key(fleet_.prefix, part.key));
  }
  keys.insert(keys.end(), ebb_keys.begin(), ebb_keys.end());
  const std::string id = hold_bytes(ending->hold);
  const std::string at = fleet_.now_argument();
  const EpochRef known = epochs_.known();
  std::vector<std::string_view> arguments = {at, ending->as == HoldState::kSettled ? "s" : "c",
                                             known->seen, id};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  connections_.client().call(
      shared_scripts().end, keys, arguments,
      [ending, names = std::move(names)](const Answer& answer) {
        if (!answer.ok()) return ending->callback(named(answer.failure()));
        const Reply& reply = answer.reply();
        const auto letter = reply.at(0).text();
        if (!letter) return ending->callback(odd_reply("the end of a hold"));
        SharedEnd end{state_of(*letter), {}};
        for (std::size_t i = 2; i < reply.size(); ++i) {
          const auto place = reply.at(i).integer();
          if (!place || *place < 1 || static_cast<std::size_t>(*place) > names.size()) {
            return ending->callback(odd_reply("the end of a hold"));
          }
          end.clipped.push_back(names[static_cast<std::size_t>(*place) - 1]);
        }
        ending->callback(end);
      });
}

void SharedHolds::renew(HoldId hold, Duration ttl, engine::HoldStateCallback callback) {
  read(hold, [this, hold, ttl, callback = std::move(callback)](Result<HoldRecord> record) {
    if (!record) return callback(std::move(record).error());
    if (record->state == HoldState::kGone) return callback(record->state);
    const std::string name = hold_key(fleet_.prefix, hold);
    const std::string slots = fmt::format("{}s:", fleet_.prefix);
    std::vector<std::string_view> keys = {name};
    const std::string id = hold_bytes(hold);
    const std::string at = fleet_.now_argument();
    const std::string ttl_us = fmt::format("{}", whole_us(ttl));
    const std::array<std::string_view, 3> arguments = {at, ttl_us, id};
    for (const HoldPart& part : record->parts) {
      if (part.charged_at_us < 0 || !part.key.starts_with(slots)) continue;
      keys.push_back(part.key);
    }
    connections_.client().call(shared_scripts().renew, keys, arguments,
                               [callback](const Answer& answer) {
                                 if (!answer.ok()) return callback(named(answer.failure()));
                                 const auto letter = answer.reply().at(0).text();
                                 if (!letter) return callback(odd_reply("the renewal of a hold"));
                                 callback(state_of(*letter));
                               });
  });
}

void SharedHolds::of_slots(const engine::SharedItem& item, std::size_t most,
                           engine::HoldsCallback callback) {
  const std::string key = limit_key(fleet_.prefix, item);
  const std::string at = fleet_.now_argument();
  const std::string count = fmt::format("{}", most);
  const std::array<std::string_view, 1> keys = {key};
  const std::array<std::string_view, 2> arguments = {at, count};
  connections_.client().call(shared_scripts().slot_holds, keys, arguments,
                             [this, callback = std::move(callback)](const Answer& answer) {
                               if (!answer.ok()) return callback(outages_.failed(answer.failure()));
                               outages_.note_success();
                               const auto text = answer.reply().text();
                               std::optional<std::vector<HoldId>> holds;
                               if (text) holds = read_slot_holds(*text);
                               if (!holds) return callback(odd_reply("the holds of a key"));
                               callback(std::move(*holds));
                             });
}

}  // namespace weir::store::redis
