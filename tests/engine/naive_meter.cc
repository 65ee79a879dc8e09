#include "tests/engine/naive_meter.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

#include "tests/support/exact.h"

namespace weir::engine::naive {
namespace {

using meter::Check;

Check allowed(Instant now) { return {Verdict::kAllowed, now, 0}; }
Check denied(const Exact& earliest, const Exact& lacking) {
  return {Verdict::kDenied, Instant{nearest(earliest)}, nearest(lacking)};
}
Check never(const Exact& lacking) { return {Verdict::kNever, kForever, nearest(lacking)}; }

// --- bucket -------------------------------------------------------------------

// The level at one instant, times the period, so that it is whole: a nanosecond
// adds `amount` to it and a unit is worth `period` of it.
class Bucket : public Meter {
 public:
  Bucket(const BucketSpec& spec, Instant now) { set(spec), level_ = full(), at_ = now; }

  Check check(Instant now, std::int64_t cost) const override {
    if (cost > burst_) return never(Exact{cost} - level(now));
    const Exact missing = Exact{cost} * period_ - level_at(now);
    if (missing <= 0 || cost == 0) return allowed(now);
    return denied(now.ns + exact_ceil_div(missing, amount_), Exact{cost} - level(now));
  }
  Instant charge(Instant now, std::int64_t cost) override {
    // Nothing taken leaves nothing behind, not even a later instant.
    if (cost == 0) return now;
    // Reading: what would not come back within 2^62 ns is not owed.
    const Exact least = full() - Exact{kTermMax} * amount_;
    level_ = std::max(Exact{level_at(now) - Exact{cost} * period_}, least), at_ = now;
    return now;
  }
  void owe(Instant now, std::int64_t cost, std::int64_t most) override {
    const Exact before = level_at(now);
    const Exact after =
        std::max(Exact{before - Exact{cost} * period_}, Exact{-Exact{most} * period_});
    level_ = std::min(before, after), at_ = now;
  }
  bool has_ebbs() const override { return true; }
  Exact in_use(Instant now) const override { return full() - level_at(now); }
  Exact use_of(std::int64_t units) const override { return Exact{units} * period_; }
  Exact left_of(std::int64_t units, Instant then, Instant now) const override {
    const Exact refilled = Exact{amount_} * std::max<std::int64_t>(0, now.ns - then.ns);
    return std::max(Exact{0}, Exact{use_of(units) - refilled});
  }
  // Reading: rounded down to what the rate in lowest terms can tell apart.
  Exact reshaped_use(const Meter& from, const Exact& use) const override {
    const std::int64_t common = std::gcd(amount_, period_);
    const Exact parts = use * (period_ / common);
    return exact_floor_div(parts, dynamic_cast<const Bucket&>(from).period_) * common;
  }
  void free(Instant now, const Exact& use) override { level_ = level_at(now) + use, at_ = now; }
  std::int64_t level(Instant now) const override {
    return nearest(exact_floor_div(level_at(now), period_));
  }
  std::int64_t capacity() const override { return burst_; }
  bool is_initial(Instant now) const override { return level_at(now) == full(); }
  void reshape(const MeterSpec& to, Instant now) override {
    const Exact parts = full() - level_at(now);
    const Bucket before = *this;
    set(std::get<BucketSpec>(to));
    at_ = now;
    // Reading: rounded up to what the rate in lowest terms can tell apart; at the same rate that
    // is nothing.
    const std::int64_t common = std::gcd(amount_, period_);
    const Exact used = exact_ceil_div(Exact{parts * (period_ / common)}, before.period_) * common;
    const bool is_same_rate = Exact{before.amount_} * period_ == Exact{amount_} * before.period_;
    // No debt is remembered for longer than 2^62 ns, unless it was there.
    level_ = full() - (is_same_rate ? used : std::min(used, Exact{Exact{kTermMax} * amount_}));
  }
  std::unique_ptr<Meter> copy() const override { return std::make_unique<Bucket>(*this); }

 private:
  void set(const BucketSpec& spec) {
    amount_ = spec.amount;
    period_ = spec.period.count();
    burst_ = spec.burst == 0 ? spec.amount : spec.burst;
  }
  Exact full() const { return Exact{burst_} * period_; }
  // Before `at_`, which a booking can put in the future, the line goes on backwards.
  Exact level_at(Instant now) const {
    return std::min(full(), Exact{level_ + Exact{amount_} * (Exact{now.ns} - at_.ns)});
  }

  std::int64_t amount_, period_, burst_;
  Exact level_;
  Instant at_;
};

// --- ticker -------------------------------------------------------------------

class Ticker : public Meter {
 public:
  Ticker(const TickerSpec& spec, Instant now) : spec_(spec) {
    const bool full = spec.start == meter::TickerStart::kFull;
    tokens_ = full ? spec.burst : 0;
    last_tick_ns_ = full ? now.ns - now.ns % spec.interval.count() : now.ns;
  }

  Check check(Instant now, std::int64_t cost) const override {
    Ticker then = *this;
    then.tick(now);
    const Exact missing = Exact{cost} - then.tokens_;
    if (cost > spec_.burst) return never(missing);
    if (missing <= 0 || cost == 0) return allowed(now);
    const Exact ticks = exact_ceil_div(missing, spec_.per_tick);
    return denied(then.last_tick_ns_ + ticks * spec_.interval.count(), missing);
  }
  Instant charge(Instant now, std::int64_t cost) override {
    tick(now);
    tokens_ -= cost;
    return now;
  }
  // What it gains until the start, but for the cost, is there at the start: no more may be left
  // before than leaves that.
  Instant book(Instant now, Instant start, std::int64_t cost) override {
    tick(now);
    const Exact gained =
        Exact{(start.ns - last_tick_ns_) / spec_.interval.count()} * spec_.per_tick;
    tokens_ = nearest(std::min(Exact{tokens_}, Exact{spec_.burst - gained}) - cost);
    return start;
  }
  bool has_ebbs() const override { return true; }
  Exact in_use(Instant now) const override {
    return std::max(Exact{0}, Exact{Exact{spec_.burst} - level(now)});
  }
  Exact use_of(std::int64_t units) const override { return units; }
  Exact left_of(std::int64_t units, Instant then, Instant now) const override {
    if (now <= then) return units;
    // Reading: one tick more than there are whole intervals may have come.
    const Exact ticks = (now.ns - then.ns) / spec_.interval.count() + 1;
    return std::max(Exact{0}, Exact{units - ticks * spec_.per_tick});
  }
  // Reading: a smaller burst drops what no longer fits.
  Exact reshaped_use(const Meter& from, const Exact& use) const override {
    const std::int64_t dropped = dynamic_cast<const Ticker&>(from).spec_.burst - spec_.burst;
    return std::max(Exact{0}, Exact{use - std::max<std::int64_t>(0, dropped)});
  }
  void free(Instant now, const Exact& use) override {
    tick(now);
    tokens_ += nearest(use);
  }
  std::int64_t level(Instant now) const override {
    Ticker then = *this;
    then.tick(now);
    return then.tokens_;
  }
  std::int64_t capacity() const override { return spec_.burst; }
  bool is_initial(Instant now) const override {
    return spec_.start == meter::TickerStart::kFull && level(now) == spec_.burst &&
           last_tick_ns_ % spec_.interval.count() == 0;
  }
  void reshape(const MeterSpec& to, Instant now) override {
    tick(now);
    spec_ = std::get<TickerSpec>(to);
    tokens_ = std::min(tokens_, spec_.burst);
  }
  std::unique_ptr<Meter> copy() const override { return std::make_unique<Ticker>(*this); }

 private:
  void tick(Instant now) {
    // A tick at a time would do; hours of nanosecond ticks would take them.
    const std::int64_t ticks = (now.ns - last_tick_ns_) / spec_.interval.count();
    if (ticks <= 0) return;
    last_tick_ns_ += ticks * spec_.interval.count();
    tokens_ = nearest(std::min(Exact{tokens_ + Exact{ticks} * spec_.per_tick}, Exact{spec_.burst}));
  }

  TickerSpec spec_;
  std::int64_t tokens_;
  std::int64_t last_tick_ns_;
};

// --- window -------------------------------------------------------------------

struct Span {
  std::int64_t begin_ns, end_ns;
};

Span calendar_unit(meter::CalendarUnit unit, Instant at) {
  using namespace std::chrono;
  const sys_days today = floor<days>(sys_time<nanoseconds>{nanoseconds{at.ns}});
  const year_month_day date{today};
  const auto ns = [](sys_days day) { return nanoseconds{day.time_since_epoch()}.count(); };
  switch (unit) {
    case meter::CalendarUnit::kDay:
      return {ns(today), ns(today + days{1})};
    case meter::CalendarUnit::kWeek: {
      sys_days monday = today;
      while (weekday{monday} != Monday) monday -= days{1};
      return {ns(monday), ns(monday + days{7})};
    }
    case meter::CalendarUnit::kMonth: {
      const year_month month = date.year() / date.month();
      return {ns(month / 1), ns((month + months{1}) / 1)};
    }
    case meter::CalendarUnit::kYear:
      return {ns(date.year() / 1 / 1), ns((date.year() + years{1}) / 1 / 1)};
  }
  return {0, 0};
}

// Fixed windows of both kinds: a calendar is only another way to find the window.
class Window : public Meter {
 public:
  Window(const MeterSpec& spec, Instant now) : spec_(spec), begin_ns_(span(now).begin_ns) {}

  Check check(Instant now, std::int64_t cost) const override {
    const Exact missing = Exact{cost} - level(now);
    if (cost > capacity()) return never(missing);
    if (missing <= 0 || cost == 0) return allowed(now);
    return denied(span(now).end_ns, missing);
  }
  Instant charge(Instant now, std::int64_t cost) override {
    turn(now);
    count_ += cost;
    charges_.push_back({now.ns, cost});
    return now;
  }
  // Of what is in the count. Each charge stands by itself, so that nobody gets what another took.
  void give_back(Instant now, Instant charged_at, std::int64_t amount) override {
    turn(now);
    for (auto& [at_ns, left] : charges_) {
      if (at_ns != charged_at.ns) continue;
      const std::int64_t given = std::min(left, amount);
      left -= given;
      amount -= given;
      count_ -= given;
    }
  }
  std::int64_t level(Instant now) const override {
    Window then = *this;
    then.turn(now);
    return capacity() - then.count_;
  }
  std::int64_t capacity() const override {
    const auto* fixed = std::get_if<WindowSpec>(&spec_);
    return fixed != nullptr ? fixed->limit : std::get<CalendarSpec>(spec_).limit;
  }
  bool is_initial(Instant now) const override { return level(now) == capacity(); }
  void reshape(const MeterSpec& to, Instant now) override {
    turn(now);
    spec_ = to;
    begin_ns_ = span(now).begin_ns;
    // Reading: what was taken before the new window began is counted, and stays so.
    std::erase_if(charges_, [&](const auto& charge) { return charge.first < begin_ns_; });
  }
  std::unique_ptr<Meter> copy() const override { return std::make_unique<Window>(*this); }

 private:
  Span span(Instant at) const {
    if (const auto* calendar = std::get_if<CalendarSpec>(&spec_)) {
      return calendar_unit(calendar->every, at);
    }
    const std::int64_t every_ns = std::get<WindowSpec>(spec_).every.count();
    const std::int64_t number = at.ns / every_ns;
    return {number * every_ns, nearest(Exact{number + 1} * every_ns)};
  }
  void turn(Instant now) {
    if (span(now).begin_ns <= begin_ns_) return;
    begin_ns_ = span(now).begin_ns;
    count_ = 0;
    charges_.clear();
  }

  MeterSpec spec_;
  std::int64_t begin_ns_;
  std::int64_t count_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> charges_;  // instant, and what is left of it
};

// --- log ----------------------------------------------------------------------

// Every unit has a stamp of its own. For limits up to meter::kRunsMax, where the
// promise is exact.
class Log : public Meter {
 public:
  explicit Log(const LogSpec& spec) : spec_(spec) {}

  Check check(Instant now, std::int64_t cost) const override {
    const Exact missing = Exact{cost} - level(now);
    if (cost > spec_.limit) return never(missing);
    if (missing <= 0 || cost == 0) return allowed(now);
    std::vector<std::int64_t> in_the_way = counting(now);
    std::sort(in_the_way.begin(), in_the_way.end());
    // As many as are missing must have left the window.
    const std::int64_t last = in_the_way[missing.convert_to<std::size_t>() - 1];
    return denied(Exact{last} + spec_.window.count(), missing);
  }
  Instant charge(Instant now, std::int64_t cost) override {
    stamps_ns_ = counting(now);
    stamps_ns_.insert(stamps_ns_.end(), static_cast<std::size_t>(cost), now.ns);
    return now;
  }
  Instant book(Instant now, Instant start, std::int64_t cost) override {
    stamps_ns_ = counting(now);
    stamps_ns_.insert(stamps_ns_.end(), static_cast<std::size_t>(cost), start.ns);
    return start;
  }
  void give_back(Instant, Instant charged_at, std::int64_t amount) override {
    for (; amount > 0; --amount) {
      const auto found = std::find(stamps_ns_.begin(), stamps_ns_.end(), charged_at.ns);
      if (found == stamps_ns_.end()) return;
      stamps_ns_.erase(found);
    }
  }
  std::int64_t level(Instant now) const override {
    return spec_.limit - static_cast<std::int64_t>(counting(now).size());
  }
  std::int64_t capacity() const override { return spec_.limit; }
  bool is_initial(Instant now) const override { return counting(now).empty(); }
  void reshape(const MeterSpec& to, Instant now) override {
    // Reading: what no longer counted is not called back by a longer window.
    stamps_ns_ = counting(now);
    spec_ = std::get<LogSpec>(to);
  }
  std::unique_ptr<Meter> copy() const override { return std::make_unique<Log>(*this); }

 private:
  std::vector<std::int64_t> counting(Instant now) const {
    std::vector<std::int64_t> inside;
    for (const std::int64_t stamp_ns : stamps_ns_) {
      if (now.ns < stamp_ns + spec_.window.count()) inside.push_back(stamp_ns);
    }
    return inside;
  }

  LogSpec spec_;
  std::vector<std::int64_t> stamps_ns_;
};

// --- slots --------------------------------------------------------------------

class Slots : public Meter {
 public:
  explicit Slots(const SlotsSpec& spec) : spec_(spec) {}

  Check check(Instant now, std::int64_t cost) const override {
    const Exact missing = Exact{in_flight_} + cost - spec_.limit;
    if (cost > spec_.limit) return never(missing);
    if (missing <= 0 || cost == 0) return allowed(now);
    return denied(kForever.ns, missing);
  }
  Instant charge(Instant now, std::int64_t cost) override {
    in_flight_ += cost;
    return now;
  }
  void give_back(Instant, Instant, std::int64_t amount) override {
    in_flight_ = std::max<std::int64_t>(0, in_flight_ - amount);
  }
  std::int64_t level(Instant) const override { return spec_.limit - in_flight_; }
  std::int64_t capacity() const override { return spec_.limit; }
  bool is_initial(Instant) const override { return in_flight_ == 0; }
  void reshape(const MeterSpec& to, Instant) override { spec_ = std::get<SlotsSpec>(to); }
  std::unique_ptr<Meter> copy() const override { return std::make_unique<Slots>(*this); }

 private:
  SlotsSpec spec_;
  std::int64_t in_flight_ = 0;
};

}  // namespace

std::unique_ptr<Meter> make_meter(const MeterSpec& spec, Instant now) {
  if (const auto* bucket = std::get_if<BucketSpec>(&spec)) {
    return std::make_unique<Bucket>(*bucket, now);
  }
  if (const auto* ticker = std::get_if<TickerSpec>(&spec)) {
    return std::make_unique<Ticker>(*ticker, now);
  }
  if (const auto* log = std::get_if<LogSpec>(&spec)) return std::make_unique<Log>(*log);
  if (const auto* slots = std::get_if<SlotsSpec>(&spec)) return std::make_unique<Slots>(*slots);
  return std::make_unique<Window>(spec, now);
}

bool is_slots(const MeterSpec& spec) { return kind_of(spec) == Kind::kSlots; }

Kind kind_of(const MeterSpec& spec) {
  if (std::holds_alternative<BucketSpec>(spec)) return Kind::kBucket;
  if (std::holds_alternative<TickerSpec>(spec)) return Kind::kTicker;
  if (std::holds_alternative<LogSpec>(spec)) return Kind::kLog;
  if (std::holds_alternative<SlotsSpec>(spec)) return Kind::kSlots;
  return Kind::kWindow;
}

bool can_book(const MeterSpec& spec) {
  return kind_of(spec) != Kind::kWindow && kind_of(spec) != Kind::kSlots;
}

bool same_parameters(const MeterSpec& a, const MeterSpec& b) {
  const auto* from = std::get_if<BucketSpec>(&a);
  const auto* to = std::get_if<BucketSpec>(&b);
  if (from == nullptr || to == nullptr) return describe(a) == describe(b);
  const std::int64_t from_burst = from->burst == 0 ? from->amount : from->burst;
  const std::int64_t to_burst = to->burst == 0 ? to->amount : to->burst;
  return from_burst == to_burst &&
         Exact{from->amount} * to->period.count() == Exact{to->amount} * from->period.count();
}

}  // namespace weir::engine::naive
