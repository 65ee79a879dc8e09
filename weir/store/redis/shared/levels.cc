#include "weir/store/redis/shared/levels.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {

using engine::SharedItem;
using engine::SharedLevel;

void Levels::inspect(const SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
                     Instant now, engine::LevelCallback callback) {
  if (auto error = outages_.refusal(now)) return callback(std::move(*error));
  const std::string key = limit_key(fleet_.prefix, item);
  std::string blob;
  append_blob(blob, item.rule->shape, 0, '0', now);
  if (item.rule->shared->lease) source_.take_back_lapsed(item, rules, now);
  const EpochRef known = epochs_.known();
  const std::string at = fleet_.now_argument();
  const std::array<std::string_view, 2> keys = {fleet_.epoch_key, key};
  // A peek at a cost of nothing.
  const std::array<std::string_view, 8> arguments = {at, "p", known->seen, known->fresh,
                                                     "", "",  "",          blob};
  connections_.client().call(
      shared_scripts().decide, keys, arguments,
      [this, rules, rule = item.rule, print = item.print,
       callback = std::move(callback)](const Answer& answer) {
        if (!answer.ok()) return callback(outages_.failed(answer.failure()));
        outages_.note_success();
        const Reply& reply = answer.reply();
        const auto now_us = reply.at(1).integer();
        const auto first = reply.at(3).integer();
        const auto second = reply.at(4).integer();
        const std::optional<Instant> when = now_us ? instant_of(*now_us) : std::nullopt;
        if (!when || !first || !second) return callback(odd_reply("an inspection"));
        SharedLevel level;
        level.remaining = judge(rule->shape, {*first, *second}, *when, 0).before;
        if (rule->shared->lease) level.leased = leases_.held(print, fleet_.clock.now());
        callback(level);
      });
}

void Levels::reset(const SharedItem& item, Instant now, engine::StatusCallback callback) {
  if (auto error = outages_.refusal(now)) return callback(std::move(*error));
  const std::string key = limit_key(fleet_.prefix, item);
  std::string blob;
  append_blob(blob, item.rule->shape, 0, '0', now);
  const EpochRef known = epochs_.known();
  const std::string at = fleet_.now_argument();
  const std::string record = lease_key(fleet_.prefix, key);
  const std::string ebbs = ebb_key(fleet_.prefix, key);
  const std::array<std::string_view, 4> keys = {fleet_.epoch_key, key, record, ebbs};
  const std::size_t used = has_ebbs(item.rule->shape) ? 4 : 3;
  const std::array<std::string_view, 5> arguments = {at, "", known->seen, known->fresh, blob};
  // What was drawn before is given out no more, or it would come on top. If Redis does not answer,
  // it is as good as before.
  const LeaseUnits drawn = item.rule->shared->lease ? leases_.withdraw(item.print) : LeaseUnits{};
  connections_.client().call(
      shared_scripts().reset, std::span(keys).first(used), arguments,
      [this, print = item.print, drawn, callback = std::move(callback)](const Answer& answer) {
        if (!answer.ok()) {
          if (drawn.units > 0) leases_.put_back(print, drawn, fleet_.clock.now());
          return callback(outages_.failed(answer.failure()));
        }
        outages_.note_success();
        const auto epoch = answer.reply().at(1).text();
        if (!epoch) return callback(odd_reply("a reset"));
        epochs_.learn(*epoch);
        leases_.start_anew(print, drawn.units);
        callback(Done{});
      });
}

}  // namespace weir::store::redis
