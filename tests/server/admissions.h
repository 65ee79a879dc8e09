// Admissions: what clients were told, counted outside the servers, and held against a limit.
//
//   admissions.begin();
//   const auto asked = Admissions::Clock::now();  ... ask ...  if (allowed) admissions.add(asked);
//   admissions.expect_within(burst, rate, [](auto from, auto until) { return 0.0; });

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace weir::server {

class Admissions {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // Forgets what was before.
  void begin() {
    const std::scoped_lock lock(lock_);
    begun_ = Clock::now();
    all_.clear();
  }
  // One that was asked for then, and told now.
  void add(Time asked) {
    const std::scoped_lock lock(lock_);
    all_.push_back({asked, Clock::now()});
  }
  std::size_t size() {
    const std::scoped_lock lock(lock_);
    return all_.size();
  }
  Time begun() const { return begun_; }

  // In no interval since the beginning are there more than burst + rate * time + more(from, until).
  // Whatever was asked for and told in it was decided in it.
  void expect_within(double burst, double rate, const std::function<double(Time, Time)>& more) {
    const std::scoped_lock lock(lock_);
    std::sort(all_.begin(), all_.end(),
              [](const Admission& a, const Admission& b) { return a.told < b.told; });
    for (Time from = begun_; from < Clock::now(); from += std::chrono::milliseconds{50}) {
      double count = 0;
      for (const Admission& admission : all_) {
        if (admission.asked < from) continue;
        ++count;
        const double seconds = std::chrono::duration<double>(admission.told - from).count();
        ASSERT_LE(count, burst + rate * seconds + more(from, admission.told))
            << "in " << seconds << " s, from "
            << std::chrono::duration<double>(from - begun_).count() << " s on";
      }
    }
  }

 private:
  struct Admission {
    Time asked;
    Time told;
  };

  std::mutex lock_;
  Time begun_{};
  std::vector<Admission> all_;
};

}  // namespace weir::server
