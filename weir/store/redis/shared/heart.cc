#include "weir/store/redis/shared/heart.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

constexpr Duration kBeatEvery = std::chrono::seconds{1};
constexpr std::int64_t kAliveUs = 5'000'000;  // after its last beat a server is gone

}  // namespace

Heart::Heart(Loop& loop, const Fleet& fleet, Connections& connections, Epochs& epochs,
             Outages& outages, Duration timeout, Told told)
    : fleet_(fleet),
      connections_(connections),
      epochs_(epochs),
      outages_(outages),
      timeout_(timeout),
      told_(std::move(told)),
      timer_(loop) {}

void Heart::beat() {
  if (is_over_) return;
  timer_.start(kBeatEvery, [this] { beat(); });
  const std::string alive = fmt::format("{}", kAliveUs);
  const EpochRef known = epochs_.known();
  const std::string at = fleet_.now_argument();
  const std::array<std::string_view, 2> keys = {fleet_.epoch_key, fleet_.servers_key};
  const std::array<std::string_view, 5> arguments = {at, fleet_.id, known->seen, known->fresh,
                                                     alive};
  connections_.first().call(
      shared_scripts().beat, keys, arguments,
      [this, sent_at = fleet_.clock.now()](const Answer& answer) { on_beat(answer, sent_at); },
      {.timeout = kBeatEvery, .late = {}});
}

void Heart::on_beat(const Answer& answer, Instant sent_at) {
  if (!answer.ok()) {
    const Failure& failure = answer.failure();
    if (outages_.note_failure(failure)) return;
    if (failure.kind == FailureKind::kTopology) return;  // told by itself
    if (failure.kind == FailureKind::kForeign) outages_.count(failure.kind);
    return tell(failure.message);
  }
  tell({});
  if (fleet_.clock.now() - sent_at < timeout_) {
    outages_.note_success();
  } else {
    outages_.note_sign_of_life();
  }
  const auto count = answer.reply().at(0).integer();
  const auto heard = answer.reply().at(1).text();
  if (heard) epochs_.learn(*heard);
  if (count && *count >= 1) outages_.set_servers(static_cast<std::uint64_t>(*count));
}

void Heart::stop() {
  is_over_ = true;
  timer_.stop();
}

void Heart::tell(std::string_view why) {
  if (std::exchange(has_bad_beats_, !why.empty()) == has_bad_beats_) return;
  if (told_) told_(why);
}

}  // namespace weir::store::redis
