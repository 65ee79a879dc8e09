// Attempts: which addresses present tokens that are not known, and how long each waits.
//
// The first few failures of an address are answered at once, since people mistype; the next
// after kFirstDelay, and each further one after twice as long, up to kDelayMax. A minute
// without a failure forgives all. A known token is never delayed. An IPv6 address counts as
// its network of 64 bits, which one client has to itself.
//
// This slows who guesses over one connection after another; who opens many at once is bounded
// by bounds.connections. What makes guessing hopeless is the length of the tokens.
//
//   const Duration delay = attempts.fail("203.0.113.7", now);
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "weir/base/time.h"

namespace weir::server {

class Attempts {
 public:
  static constexpr std::size_t kAddressesMax =
      4096;  // beyond: the one that failed longest ago goes
  static constexpr unsigned kFreeFailures = 3;
  static constexpr Duration kFirstDelay = std::chrono::milliseconds{250};
  static constexpr Duration kDelayMax = std::chrono::seconds{2};
  static constexpr Duration kForgivenAfter = std::chrono::minutes{1};

  // An address has failed once more. Returns how long its answer waits.
  Duration fail(std::string_view address, Instant now) {
    const std::scoped_lock lock(lock_);
    Failures& failures = failures_of(source_of(address));
    if (now - failures.last > kForgivenAfter) failures.count = 0;
    failures.last = std::max(failures.last, now);
    failures.count = std::min(failures.count + 1, kFreeFailures + 16);
    if (failures.count <= kFreeFailures) return Duration{0};
    return std::min<Duration>(kFirstDelay * (1 << (failures.count - kFreeFailures - 1)), kDelayMax);
  }

  std::size_t addresses() const {
    const std::scoped_lock lock(lock_);
    return by_source_.size();
  }

 private:
  struct Failures {
    std::string source;
    unsigned count = 0;
    Instant last{};
  };

  // The first four groups of an IPv6 address; others whole. `fe80::1%eth0` and `2001:db8::1`
  // are shorter than they are long, which only makes networks larger.
  static std::string_view source_of(std::string_view address) noexcept {
    constexpr std::string_view kMapped = "::ffff:";  // an IPv4 address on a socket of both
    if (address.starts_with(kMapped)) return address.substr(kMapped.size());
    std::size_t end = 0;
    for (int groups = 0; groups < 4; ++groups) {
      end = address.find(':', end);
      if (end == address.npos) return address;
      if (address.substr(end, 2) == "::") return address.substr(0, end);
      end += 1;
    }
    return address.substr(0, end - 1);
  }

  // Moved to the front of the list, of those that failed last.
  Failures& failures_of(std::string_view source) {
    const auto found = by_source_.find(source);
    if (found != by_source_.end()) {
      list_.splice(list_.begin(), list_, found->second);
      return list_.front();
    }
    if (list_.size() == kAddressesMax) {
      by_source_.erase(list_.back().source);
      list_.pop_back();
    }
    list_.push_front({.source = std::string(source)});
    by_source_.emplace(list_.front().source, list_.begin());
    return list_.front();
  }

  mutable std::mutex lock_;
  std::list<Failures> list_;
  std::unordered_map<std::string_view, std::list<Failures>::iterator> by_source_;  // of the list
};

}  // namespace weir::server
