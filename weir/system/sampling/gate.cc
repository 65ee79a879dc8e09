// A request becomes a miner and a number of tasks. Everything is asked of the counters under their
// lock, which the engine holds through this gate.

#include "weir/system/sampling/gate.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>

namespace weir::system::sampling {
namespace {

using engine::Request;

// A miner whose id is no number cannot be told from one that is exempt.
struct Asker {
  Who who{};
  bool is_readable = true;
};

Asker asker_of(const Request& request) {
  const auto hotkey = request.attribute("hotkey");
  const auto revision = request.attribute("revision");
  const auto environment = request.attribute("environment");
  const auto uid = request.attribute("uid");
  Asker asker{.who = {.hotkey = hotkey.value_or(""),
                      .revision = revision.value_or(""),
                      .environment = environment.value_or("")}};
  if (uid) {
    std::int64_t id = 0;
    const char* const end = uid->data() + uid->size();
    const auto [last, error] = std::from_chars(uid->data(), end, id);
    asker.is_readable = error == std::errc{} && last == end;
    asker.who.id = id;
  }
  return asker;
}

// Tasks that the request is for; `cost` may be a part of them.
std::int64_t wanted_by(const Request& request, std::int64_t cost) {
  return std::max(request.cost(engine::kRequests).value_or(cost), cost);
}

constexpr meter::Check never_of(std::int64_t cost) { return {Verdict::kNever, kForever, cost}; }

}  // namespace

// One queue for those that share an allowance or a parent's: a miner in an environment. The
// id is in it because some miners are exempt.
std::optional<std::uint64_t> SamplingGate::queue_of(const Request& request) const {
  const Asker asker = asker_of(request);
  constexpr std::hash<std::string_view> kHash;
  const std::size_t names = kHash(asker.who.hotkey) * 31 + kHash(asker.who.environment);
  return names ^ static_cast<std::uint64_t>(asker.who.id.value_or(0));
}

meter::Check SamplingGate::check(const Request& request, Instant now, std::int64_t cost) {
  const Asker asker = asker_of(request);
  return asker.is_readable ? sampling_->locked().check(asker.who, cost, now) : never_of(cost);
}

Instant SamplingGate::fits_from(const Request& request, Instant from, std::int64_t cost) const {
  const Asker asker = asker_of(request);
  if (!asker.is_readable) return kForever;
  const meter::Check said = sampling_->locked().check(asker.who, cost, from);
  return said.allowed() ? from : said.earliest;
}

std::uint64_t SamplingGate::take(const Request& request, Instant now, std::int64_t cost,
                                 Keep keep) {
  record_ = 0;
  const Asker asker = asker_of(request);
  const std::uint64_t receipt =
      sampling_->locked().take(asker.who, cost, wanted_by(request, cost), now, keep);
  if (cost > 0) record_ = sampling_->locked().last_record();
  return receipt;
}

void SamplingGate::charge(const Request& request, Instant now, std::int64_t cost) {
  take(request, now, cost, Keep::kFinal);
}

std::uint64_t SamplingGate::charge_held(const Request& request, Instant now, std::int64_t cost) {
  return take(request, now, cost, Keep::kReserved);
}

void SamplingGate::refused(const Request& request, Instant now, std::int64_t cost) {
  sampling_->locked().refuse(asker_of(request).who, wanted_by(request, cost), now);
}

void SamplingGate::end(Instant now, const engine::HoldEnd& hold) {
  record_ = 0;
  if (hold.receipt == 0) return;
  std::int64_t created = hold.charged;
  if (hold.how == engine::Ending::kCancelled) created = 0;
  if (hold.how == engine::Ending::kSettled) created -= hold.back;  // an overage is negative
  record_ = sampling_->locked().settle(hold.receipt, created, now);
}

std::int64_t SamplingGate::available(const Request& request, Instant now) {
  const Asker asker = asker_of(request);
  if (!asker.is_readable) return 0;
  // Without a look at the journal: check() decides by that, and may be told otherwise.
  return sampling_->locked().left(asker.who, now);
}

std::int64_t SamplingGate::capacity(const Request& request) const {
  const Asker asker = asker_of(request);
  if (!asker.is_readable) return 0;
  const Result<Grant> said = sampling_->locked().peek(asker.who, 0, Instant{});
  if (!said) return 0;
  const Environment* const of = sampling_->locked().rules().find(asker.who.environment);
  const std::int64_t burst =
      of != nullptr && said->reason == Reason::kLimited ? of->burst.value_or(kWantMax) : kWantMax;
  return std::min({burst, said->limit.value_or(kWantMax), said->parent_limit.value_or(kWantMax)});
}

}  // namespace weir::system::sampling
