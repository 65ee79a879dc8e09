// One key of a shared limit: what Redis has of it, and forgetting that.

#include <array>
#include <string>
#include <utility>

#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {

using engine::SharedItem;
using engine::SharedLevel;

// Both are about Redis itself, so no outage policy stands in for it.
std::optional<Error> SharedLimits::why_out_of_reach(Instant now) {
  if (breaker_.may_ask(now)) return std::nullopt;
  return Error{ErrorCode::kUnavailable, why_not_asked()};
}

Error SharedLimits::failed(const Failure& failure) {
  if (is_outage(failure.kind)) note_failure(failure);
  return named(failure);
}

void SharedLimits::inspect(const SharedItem& item,
                           const std::shared_ptr<const engine::RuleSet>& rules, Instant now,
                           engine::LevelCallback callback) {
  if (auto error = why_out_of_reach(now)) return callback(std::move(*error));
  const std::string key = limit_key(prefix_, item);
  std::string blob;
  append_blob(blob, item.rule->shape, 0, '0', now);
  if (item.rule->shared->lease) take_back_lapsed(item, rules, now);
  const Epoch known = epoch();
  const std::string at = now_argument();
  const std::array<std::string_view, 2> keys = {epoch_key_, key};
  // A peek at a cost of nothing.
  const std::array<std::string_view, 8> arguments = {at, "p", known.seen, known.fresh,
                                                     "", "",  "",         blob};
  client().call(shared_scripts().decide, keys, arguments,
                [this, rules, rule = item.rule, print = item.print,
                 callback = std::move(callback)](const Answer& answer) {
                  if (!answer.ok()) return callback(failed(answer.failure()));
                  note_success();
                  const Reply& reply = answer.reply();
                  const auto now_us = reply.at(1).integer();
                  const auto first = reply.at(3).integer();
                  const auto second = reply.at(4).integer();
                  if (!now_us || !first || !second) return callback(odd_reply("an inspection"));
                  SharedLevel level;
                  level.remaining =
                      judge(rule->shape, {*first, *second}, Instant{*now_us * kNsPerUs}, 0).before;
                  if (rule->shared->lease) level.leased = leases_.held(print, clock_.now());
                  callback(level);
                });
}

void SharedLimits::reset(const SharedItem& item,
                         const std::shared_ptr<const engine::RuleSet>& rules, Instant now,
                         engine::StatusCallback callback) {
  if (auto error = why_out_of_reach(now)) return callback(std::move(*error));
  const std::string key = limit_key(prefix_, item);
  std::string blob;
  append_blob(blob, item.rule->shape, 0, '0', now);
  const Epoch known = epoch();
  const std::string at = now_argument();
  const std::string record = lease_key(prefix_, key);
  const std::array<std::string_view, 3> keys = {epoch_key_, key, record};
  const std::array<std::string_view, 5> arguments = {at, "", known.seen, known.fresh, blob};
  // What was drawn before is given to nobody any more, or it would come on top. If Redis does
  // not answer, it is as good as before.
  const LeaseUnits drawn = item.rule->shared->lease ? leases_.withdraw(item.print) : LeaseUnits{};
  client().call(shared_scripts().reset, keys, arguments,
                [this, rules, print = item.print, drawn,
                 callback = std::move(callback)](const Answer& answer) {
                  if (!answer.ok()) {
                    if (drawn.units > 0) leases_.put_back(print, drawn, clock_.now());
                    return callback(failed(answer.failure()));
                  }
                  note_success();
                  const auto epoch = answer.reply().at(1).text();
                  if (!epoch) return callback(odd_reply("a reset"));
                  learn_epoch(*epoch);
                  leases_.start_anew(print, drawn.units);
                  callback(Done{});
                });
}

}  // namespace weir::store::redis
