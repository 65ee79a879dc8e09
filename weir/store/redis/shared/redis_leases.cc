#include "weir/store/redis/shared/redis_leases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/leases.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

// What a server holds, as scripts read it.
std::string held_text(const engine::MeterShape& shape, std::span<const LeaseUnits> held) {
  std::string text;
  for (const LeaseUnits& part : held) {
    append_bytes(text, static_cast<std::uint64_t>(part.stamp_us), 7);
    append_amount(text, shape, part.units);
  }
  return text;
}

}  // namespace

void RedisLeases::draw(const LeaseDraw& draw, DrawCallback callback) {
  if (auto error = outages_.refusal(draw.now)) {
    return callback(DrawFailure{true, std::move(*error)});
  }
  decisions_.count_asked();
  const EpochRef known = epochs_.known();
  const std::string now = fleet_.now_argument();
  const engine::MeterShape& shape = draw.rule->shape;
  std::string blob;
  append_blob(blob, shape, draw.cost, '0', draw.now);
  const std::string length = fmt::format("{}", whole_us(record_length(*draw.rule->shared->lease)));
  const std::string kept = held_text(shape, draw.kept);
  const std::string word = fmt::format("{}", draw.word);
  const std::string until = fmt::format("{}", draw.until.ns / kNsPerUs);
  std::string texts;
  for (const std::int64_t amount : draw.amounts) {
    append_amount(texts, shape, amount);
    append_amount(texts, shape, std::max<std::int64_t>(0, amount - draw.awaited));
  }
  const std::string record = lease_key(fleet_.prefix, draw.key);
  const std::string ebbs = ebb_key(fleet_.prefix, draw.key);
  const std::array<std::string_view, 4> keys = {fleet_.epoch_key, draw.key, record, ebbs};
  const std::size_t used = has_ebbs(shape) ? 4 : 3;
  const std::array<std::string_view, 12> arguments = {now,   "",        known->seen, known->fresh,
                                                      blob,  fleet_.id, length,      kept,
                                                      texts, word,      draw.epoch,  until};
  const std::vector<std::int64_t> amounts(draw.amounts.begin(), draw.amounts.end());
  const auto late = [this, told = draw.late, amounts, known](const Answer& answer) {
    if (!answer.ok()) return;
    const Result<Drawn> drawn = read(answer.reply(), amounts, known->seen);
    if (drawn) told(*drawn);
  };
  connections_.client().call(
      shared_scripts().draw, std::span(keys).first(used), arguments,
      [this, amounts, known, callback = std::move(callback)](const Answer& answer) {
        if (!answer.ok()) {
          const Failure& failure = answer.failure();
          outages_.count(failure.kind);
          if (!outages_.note_failure(failure)) {
            return callback(DrawFailure{false, named(failure), failure.may_have_run});
          }
          return callback(
              DrawFailure{true, {ErrorCode::kUnavailable, failure.message}, failure.may_have_run});
        }
        decisions_.count_answered();
        outages_.note_success();
        Result<Drawn> drawn = read(answer.reply(), amounts, known->seen);
        if (!drawn) return callback(DrawFailure{false, std::move(drawn).error(), true});
        callback(std::move(*drawn));
      },
      {.timeout = std::nullopt, .late = late});
}

Result<Drawn> RedisLeases::read(const Reply& reply, std::span<const std::int64_t> amounts,
                                std::string_view seen) {
  const auto chosen = reply.at(0).integer();
  const auto now_us = reply.at(1).integer();
  const std::optional<Instant> now = now_us ? instant_of(*now_us) : std::nullopt;
  const auto epoch = reply.at(2).text();
  const auto first = reply.at(3).integer();
  const auto second = reply.at(4).integer();
  const auto stamp_us = reply.at(5).integer();
  if (!chosen || !now || !epoch || !first || !second || !stamp_us || !instant_of(*stamp_us) ||
      *chosen < 0 || static_cast<std::size_t>(*chosen) > amounts.size()) {
    return odd_reply("a draw");
  }
  epochs_.learn(*epoch);
  Drawn drawn;
  drawn.is_refused = *chosen == 0;
  drawn.units = *chosen == 0 ? 0 : amounts[static_cast<std::size_t>(*chosen) - 1];
  drawn.now = *now;
  drawn.here = fleet_.clock.now();
  drawn.state = {*first, *second};
  drawn.stamp_us = *stamp_us;
  drawn.epoch = (epoch->empty() ? seen : *epoch).substr(0, kEpochIdBytes);
  return drawn;
}

void RedisLeases::give_back(const LeaseReturn& units, Instant now, ReturnCallback callback) {
  if (outages_.is_open()) return callback(Delivery::kUnsent);
  const engine::MeterShape& shape = units.rule->shape;
  const std::string at = fleet_.now_argument();
  std::string blob;
  append_blob(blob, shape, 0, '+', now);
  const std::string back = held_text(shape, units.units);
  const std::string kept = held_text(shape, units.kept);
  const std::string until = fmt::format("{}", units.until.ns / kNsPerUs);
  const std::string word = fmt::format("{}", units.word);
  const std::string record = lease_key(fleet_.prefix, units.key);
  const std::string ebbs = ebb_key(fleet_.prefix, units.key);
  const std::array<std::string_view, 4> keys = {fleet_.epoch_key, units.key, record, ebbs};
  const std::size_t used = has_ebbs(shape) ? 4 : 3;
  const std::array<std::string_view, 8> arguments = {at,        units.epoch, blob,  back,
                                                     fleet_.id, kept,        until, word};
  connections_.client().call(
      shared_scripts().give_back, std::span(keys).first(used), arguments,
      [callback = std::move(callback)](const Answer& answer) {
        if (answer.ok()) return callback(Delivery::kHeard);
        callback(answer.failure().may_have_run ? Delivery::kUnsure : Delivery::kUnsent);
      });
}

void RedisLeases::take_back_lapsed(const engine::SharedItem& item,
                                   const std::shared_ptr<const engine::RuleSet>& rules,
                                   Instant now) {
  // Nothing of our own goes back with it.
  give_back({.rules = rules,
             .rule = item.rule,
             .key = limit_key(fleet_.prefix, item),
             .epoch = epochs_.known()->seen.substr(0, kEpochIdBytes)},
            now, [](Delivery) {});
}

}  // namespace weir::store::redis
