// Turnstile: a gate that counts, for tests of what the engine does with gates.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "weir/engine/gate.h"

namespace weir::engine {

// Open only when `open_from` says so.
struct Turnstile final : Gate {
  explicit Turnstile(std::int64_t room_for) : room(room_for) {}

  meter::Check check(const Request&, Instant now, std::int64_t cost) override {
    last_check = later_of(last_check, now);
    if (cost > room) return {Verdict::kNever, kForever, cost - room};
    if (const Instant opens = open_from(now); opens > now) {
      return {Verdict::kDenied, opens, cost};
    }
    if (used + cost > room) return {Verdict::kDenied, kForever, used + cost - room};
    return {Verdict::kAllowed, now, 0};
  }
  Instant fits_from(const Request&, Instant from, std::int64_t cost) const override {
    return used + cost > room ? kForever : open_from(from);
  }
  std::span<const std::string_view> concerned_by() const override { return concerns; }
  std::optional<std::uint64_t> queue_of(const Request& request) const override {
    return queue(request);
  }
  void refused(const Request&, Instant, std::int64_t) override { refusals += 1; }
  void charge(const Request& request, Instant now, std::int64_t cost) override {
    used += cost;
    last_charge = now;
    attributes_seen = request.attributes.size();
  }
  void end(Instant now, const HoldEnd& hold) override {
    const std::int64_t amount = counts_in_flight ? hold.charged : hold.back;
    used -= amount;
    backs.push_back({now, hold.charged_at, amount});
  }
  std::int64_t available(const Request&, Instant now) override {
    return open_from(now) > now ? 0 : room - used;
  }
  std::int64_t capacity(const Request&) const override { return room; }

  struct Back {
    Instant now, charged_at;
    std::int64_t amount;
  };

  std::int64_t room;
  bool counts_in_flight = false;  // all of it comes back when the work ends
  std::int64_t used = 0;
  Instant last_check{};
  Instant last_charge{};
  std::vector<std::string_view> concerns;
  std::size_t attributes_seen = 0;
  std::vector<Back> backs;
  int refusals = 0;
  std::function<std::optional<std::uint64_t>(const Request&)> queue = [](const Request&) {
    return std::optional<std::uint64_t>(0);
  };
  // The first instant from `now` on at which it is open.
  std::function<Instant(Instant)> open_from = [](Instant now) { return now; };
};

}  // namespace weir::engine
