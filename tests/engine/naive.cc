#include "tests/engine/naive.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <set>
#include <type_traits>
#include <variant>

namespace weir::engine::naive {
namespace {

using meter::Check;

// It throws rather than overflow.
using Exact = boost::multiprecision::checked_int256_t;

Exact floor_of(const Exact& dividend, const Exact& divisor) {
  const Exact quotient = dividend / divisor;
  return quotient * divisor > dividend ? quotient - 1 : quotient;
}

Exact ceil_of(const Exact& dividend, const Exact& divisor) { return -floor_of(-dividend, divisor); }

std::int64_t nearest(const Exact& value) {
  const Exact least = std::numeric_limits<std::int64_t>::min();
  const Exact most = std::numeric_limits<std::int64_t>::max();
  return std::clamp(value, least, most).convert_to<std::int64_t>();
}

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
    return denied(now.ns + ceil_of(missing, amount_), Exact{cost} - level(now));
  }
  Instant charge(Instant now, std::int64_t cost) override {
    // Nothing taken leaves nothing behind, not even a later instant.
    if (cost > 0) level_ = level_at(now) - Exact{cost} * period_, at_ = now;
    return now;
  }
  void give_back(Instant now, Instant, std::int64_t amount) override {
    level_ = std::min(full(), Exact{level_at(now) + Exact{amount} * period_}), at_ = now;
  }
  std::int64_t level(Instant now) const override {
    return nearest(floor_of(level_at(now), period_));
  }
  std::int64_t capacity() const override { return burst_; }
  bool is_initial(Instant now) const override { return level_at(now) == full(); }
  void reshape(const MeterSpec& to, Instant now) override {
    const Exact parts = full() - level_at(now);
    const Exact used = ceil_of(parts, period_);
    const Bucket before = *this;
    set(std::get<BucketSpec>(to));
    at_ = now;
    if (Exact{before.amount_} * period_ == Exact{amount_} * before.period_) {
      // The same rate, so what is used is kept to its last part.
      level_ = full() - parts * period_ / before.period_;
      return;
    }
    // No debt is remembered for longer than 2^62 ns.
    level_ = full() - std::min(Exact{used * period_}, Exact{Exact{kTermMax} * amount_});
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
    const Exact ticks = ceil_of(missing, spec_.per_tick);
    return denied(then.last_tick_ns_ + ticks * spec_.interval.count(), missing);
  }
  Instant charge(Instant now, std::int64_t cost) override {
    tick(now);
    tokens_ -= cost;
    return now;
  }
  void give_back(Instant now, Instant, std::int64_t amount) override {
    tick(now);
    tokens_ = std::max(tokens_, std::min(tokens_ + amount, spec_.burst));
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
    return Instant{begin_ns_};
  }
  void give_back(Instant now, Instant charged_at, std::int64_t amount) override {
    turn(now);
    if (begin_ns_ == charged_at.ns) count_ = std::max<std::int64_t>(0, count_ - amount);
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
    if (span(now).begin_ns > begin_ns_) begin_ns_ = span(now).begin_ns, count_ = 0;
  }

  MeterSpec spec_;
  std::int64_t begin_ns_;
  std::int64_t count_ = 0;
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

// --- planning -----------------------------------------------------------------

bool glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return glob(pattern.substr(1), text) || (!text.empty() && glob(pattern, text.substr(1)));
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return glob(pattern.substr(1), text.substr(1));
}

std::optional<std::string> value_of(const Request& request, std::string_view attribute) {
  for (const Attribute& a : request.attributes) {
    if (a.name == attribute) return std::string{a.value};
  }
  return std::nullopt;
}

bool holds(const Condition& condition, const Request& request) {
  const auto value = value_of(request, condition.attribute);
  if (!value) return false;
  return std::any_of(condition.patterns.begin(), condition.patterns.end(),
                     [&](const std::string& pattern) { return glob(pattern, *value); });
}

bool all_hold(const std::vector<Condition>& conditions, const Request& request) {
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const Condition& condition) { return holds(condition, request); });
}

bool is_exempt(const LimitSpec& limit, const Request& request) {
  return std::any_of(limit.exempt.begin(), limit.exempt.end(),
                     [&](const auto& group) { return all_hold(group, request); });
}

std::int64_t weight_of(const LimitSpec& limit, const Request& request) {
  const auto value = value_of(request, limit.weigh.attribute);
  for (const auto& [text, weight] : limit.weigh.table) {
    if (value == text) return weight;
  }
  return 1;
}

// Nothing if the request names no cost in the unit.
std::optional<std::int64_t> cost_in(const Request& request, std::string_view unit) {
  for (const Cost& cost : request.costs) {
    if (cost.unit == unit) return cost.amount;
  }
  return unit == kRequests ? std::optional<std::int64_t>{1} : std::nullopt;
}

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

bool same_parameters(const MeterSpec& a, const MeterSpec& b) {
  const auto* from = std::get_if<BucketSpec>(&a);
  const auto* to = std::get_if<BucketSpec>(&b);
  if (from == nullptr || to == nullptr) return describe(a) == describe(b);
  const std::int64_t from_burst = from->burst == 0 ? from->amount : from->burst;
  const std::int64_t to_burst = to->burst == 0 ? to->amount : to->burst;
  return from_burst == to_burst &&
         Exact{from->amount} * to->period.count() == Exact{to->amount} * from->period.count();
}

// --- the engine ---------------------------------------------------------------

const LimitSpec* Model::find(std::string_view limit) const {
  for (const LimitSpec& candidate : rules_.limits) {
    if (candidate.name == limit) return &candidate;
  }
  return nullptr;
}

std::vector<Draw> Model::draws(const Request& request) const {
  // Reading: a limit meets a request that names a cost in its unit, be it 0, and
  // carries all of its key attributes.
  const auto meets = [&](const LimitSpec& limit) {
    return cost_in(request, limit.unit) && all_hold(limit.when, request) &&
           !is_exempt(limit, request) &&
           std::all_of(limit.per.begin(), limit.per.end(),
                       [&](const std::string& name) { return value_of(request, name); });
  };
  // Reading: ancestors are drawn on whatever their own `when` says, unless the
  // request is exempt from them, and once however many ways lead there.
  std::set<std::string> met;
  for (const LimitSpec& limit : rules_.limits) {
    if (!meets(limit)) continue;
    for (const LimitSpec* drawn = &limit; drawn != nullptr; drawn = find(drawn->parent)) {
      if (!is_exempt(*drawn, request)) met.insert(drawn->name);
    }
  }
  std::vector<Draw> draws;
  for (const LimitSpec& limit : rules_.limits) {
    if (!met.contains(limit.name)) continue;
    Draw draw{&limit, {limit.name, {}}, weight_of(limit, request), 0};
    for (const std::string& name : limit.per) draw.key.second.push_back(*value_of(request, name));
    draw.cost = draw.weight * *cost_in(request, limit.unit);
    draws.push_back(std::move(draw));
  }
  return draws;
}

std::vector<Model::Item> Model::items(const Request& request, Instant now) const {
  std::vector<Item> items;
  for (Draw& draw : draws(request)) {
    std::unique_ptr<Meter> meter = view(draw.key, now);
    items.push_back({std::move(draw), std::move(meter), {}});
  }
  return items;
}

std::int64_t Model::grant_up_to(std::vector<Item>& items, const std::string& unit,
                                std::int64_t want, Instant now) const {
  std::int64_t least = want;
  for (const Item& item : items) {
    if (item.draw.limit->unit != unit || item.draw.limit->shadow || item.draw.weight == 0) continue;
    least = std::min(least, std::max<std::int64_t>(0, item.meter->level(now)) / item.draw.weight);
  }
  const std::int64_t asked = std::max<std::int64_t>(1, least);
  for (Item& item : items) {
    if (item.draw.limit->unit == unit) item.draw.cost = item.draw.weight * asked;
  }
  return asked;
}

Answer Model::judge(std::vector<Item>& items, Instant now) {
  Answer answer{.earliest = now};
  for (Item& item : items) item.check = item.meter->check(now, item.draw.cost);

  // Never binds before everything, then whatever keeps it waiting longest; of
  // equals the first.
  const Item* binding = nullptr;
  for (const Item& item : items) {
    if (item.draw.limit->shadow || item.check.allowed()) continue;
    const bool worse =
        binding == nullptr ||
        (item.check.verdict == Verdict::kNever && binding->check.verdict != Verdict::kNever) ||
        (item.check.verdict == binding->check.verdict &&
         item.check.earliest > binding->check.earliest);
    if (worse) binding = &item;
  }
  if (binding != nullptr) {
    answer.verdict = binding->check.verdict;
    answer.binding = binding->draw.limit->name;
    answer.shortfall = binding->check.shortfall;
    answer.earliest = binding->check.earliest;
  }
  return answer;
}

std::vector<Row> Model::rows(const std::vector<Item>& items, Instant now) {
  std::vector<Row> rows;
  for (const Item& item : items) {
    rows.push_back({item.draw.limit->name, item.check.verdict, item.draw.limit->shadow,
                    item.draw.cost, std::max<std::int64_t>(0, item.meter->level(now)),
                    item.meter->capacity(), item.check.earliest});
  }
  return rows;
}

std::optional<Instant> Model::booking(const std::vector<Item>& items, Instant now, Instant latest) {
  Instant start = now;
  for (const Item& item : items) {
    if (!std::holds_alternative<BucketSpec>(item.draw.limit->meter) || item.draw.limit->shadow ||
        item.check.verdict == Verdict::kNever) {
      return std::nullopt;
    }
    start = std::max(start, item.check.earliest);
  }
  return start <= latest ? std::optional{start} : std::nullopt;
}

void Model::keep(std::vector<Item>& items) {
  for (Item& item : items) {
    meters_[item.draw.key] = {parameters(item.draw.key), std::move(item.meter)};
  }
}

void Model::hold(const std::vector<Item>& items, const std::vector<Charge>& charges, Duration ttl,
                 Instant start, Answer& answer) {
  std::optional<Duration> lasts;
  if (ttl > Duration{0}) lasts = ttl;
  for (const Item& item : items) {
    const auto* slots = std::get_if<SlotsSpec>(&parameters(item.draw.key));
    if (slots == nullptr || ttl > Duration{0}) continue;
    lasts = std::min(lasts.value_or(slots->hold), slots->hold);
  }
  if (!lasts) return;
  answer.hold = next_hold_++;
  answer.hold_expires = start + *lasts;
  holds_[answer.hold] = {HoldState::kActive, answer.hold_expires, charges};
}

Answer Model::acquire(const Request& request, const AcquireOptions& options, Instant now) {
  std::vector<Item> asked = items(request, now);
  std::int64_t granted = 0;
  if (!options.up_to.empty()) {
    granted = grant_up_to(asked, options.up_to, *cost_in(request, options.up_to), now);
  }
  Answer answer = judge(asked, now);
  Instant start = now;
  if (answer.verdict == Verdict::kDenied && options.book_within > Duration{0}) {
    if (const auto booked = booking(asked, now, now + options.book_within)) {
      start = *booked;
      answer = {.earliest = start};
    }
  }
  if (answer.verdict == Verdict::kAllowed) {
    answer.granted = granted;
    std::vector<Charge> charges;
    for (Item& item : asked) {
      // Reading: a shadow limit counts what it would have admitted, no more. When
      // booked, none is in shadow and each says what it says at `now`.
      if (item.draw.limit->shadow && !item.check.allowed()) continue;
      const Instant charged_at = item.meter->charge(start, item.draw.cost);
      charges.push_back({item.draw.key, birth(item.draw.limit->name), item.draw.limit->unit,
                         item.draw.cost, item.draw.weight, charged_at});
    }
    hold(asked, charges, options.hold, start, answer);
  }
  answer.rows = rows(asked, now);
  keep(asked);
  return answer;
}

Answer Model::peek(const Request& request, Instant now) {
  // Reading: it reports what there is, since nothing has been taken. It touches
  // what there is, but begins nothing.
  std::vector<Item> asked = items(request, now);
  Answer answer = judge(asked, now);
  answer.rows = rows(asked, now);
  std::erase_if(asked, [&](const Item& item) { return !meters_.contains(item.draw.key); });
  keep(asked);
  return answer;
}

HoldState Model::settle(std::uint64_t id, std::span<const Cost> actual, Instant now) {
  const auto found = holds_.find(id);
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  Hold& hold = found->second;
  if (hold.state != HoldState::kActive) return hold.state;
  hold.state = HoldState::kSettled;
  for (const Charge& charge : hold.charges) {
    if (!survives(charge)) continue;
    std::int64_t used = charge.amount;
    for (const Cost& cost : actual) {
      if (cost.unit == charge.unit) used = cost.amount * charge.weight;
    }
    if (naive::is_slots(find(charge.key.first)->meter)) used = 0;
    if (used > charge.amount) touch(charge.key, now).charge(now, used - charge.amount);
    if (used < charge.amount) {
      touch(charge.key, now).give_back(now, charge.charged_at, charge.amount - used);
    }
  }
  return HoldState::kSettled;
}

HoldState Model::cancel(std::uint64_t id, Instant now) {
  const auto found = holds_.find(id);
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  Hold& hold = found->second;
  if (hold.state != HoldState::kActive) return hold.state;
  hold.state = HoldState::kCancelled;
  for (const Charge& charge : hold.charges) {
    if (!survives(charge) || charge.amount == 0) continue;
    touch(charge.key, now).give_back(now, charge.charged_at, charge.amount);
  }
  return HoldState::kCancelled;
}

HoldState Model::renew(std::uint64_t id, Duration ttl, Instant now) {
  const auto found = holds_.find(id);
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  if (found->second.state == HoldState::kActive) found->second.expires = now + ttl;
  return found->second.state;
}

void Model::advance(Instant now) {
  for (auto& [id, hold] : holds_) {
    if (hold.state != HoldState::kActive || hold.expires > now) continue;
    hold.state = HoldState::kGone;
    for (const Charge& charge : hold.charges) {
      if (!survives(charge) || !naive::is_slots(find(charge.key.first)->meter)) continue;
      touch(charge.key, now).give_back(now, charge.charged_at, charge.amount);
    }
  }
}

std::size_t Model::active_holds() const {
  return static_cast<std::size_t>(std::count_if(holds_.begin(), holds_.end(), [](const auto& hold) {
    return hold.second.state == HoldState::kActive;
  }));
}

Instant Model::next_expiry() const {
  Instant next = kForever;
  for (const auto& [id, hold] : holds_) {
    if (hold.state == HoldState::kActive) next = std::min(next, hold.expires);
  }
  return next;
}

void Model::swap(RuleSetSpec rules) {
  const RuleSetSpec old = std::exchange(rules_, std::move(rules));
  for (const LimitSpec& limit : old.limits) {
    // Slots count what is in flight and the others what was spent: between these
    // nothing is kept.
    const LimitSpec* kept = find(limit.name);
    if (kept != nullptr && naive::is_slots(kept->meter) == naive::is_slots(limit.meter)) continue;
    deaths_[limit.name] += 1;
    const auto dropped = [&](const auto& entry) { return entry.first.first == limit.name; };
    std::erase_if(meters_, dropped);
    std::erase_if(overrides_, dropped);
  }
  // Reading: parameters of its own end with the kind of meter they are for.
  std::erase_if(overrides_, [&](const auto& entry) {
    return kind_of(entry.second) != kind_of(find(entry.first.first)->meter);
  });
}

void Model::set_override(const Key& key, const MeterSpec& spec, Instant now) {
  overrides_[key] = spec;
  // Reading: parameters of its own make a key known, so an empty ticker begins here.
  touch(key, now);
}

bool Model::clear_override(const Key& key, Instant now) {
  if (!overrides_.contains(key)) return false;
  overrides_.erase(key);
  touch(key, now);
  return true;
}

Inspection Model::inspect(const Key& key, Instant now) {
  if (meters_.contains(key)) touch(key, now);
  const std::unique_ptr<Meter> meter = view(key, now);
  return {meter->level(now), meter->capacity(), overrides_.contains(key), 0};
}

void Model::reset(const Key& key, Instant now) {
  // What is in flight was not spent: slots come back when the work ends.
  if (std::holds_alternative<SlotsSpec>(parameters(key))) return;
  // Reading: a key that was asked before stays known, so an empty ticker begins anew
  // here, not when it is asked again.
  if (meters_.erase(key) > 0) touch(key, now);
}

std::vector<Key> Model::keys() const {
  std::set<Key> keys;
  for (const auto& [key, entry] : meters_) keys.insert(key);
  for (const auto& [key, spec] : overrides_) keys.insert(key);
  return {keys.begin(), keys.end()};
}

const MeterSpec& Model::parameters(const Key& key) const {
  const auto overridden = overrides_.find(key);
  return overridden != overrides_.end() ? overridden->second : find(key.first)->meter;
}

std::unique_ptr<Meter> Model::view(const Key& key, Instant now) const {
  const MeterSpec& spec = parameters(key);
  const auto found = meters_.find(key);
  if (found == meters_.end()) return make_meter(spec, now);
  const Entry& entry = found->second;
  if (same_parameters(entry.spec, spec)) return entry.meter->copy();
  // A meter back in its initial state cannot be told from none.
  if (entry.meter->is_initial(now)) return make_meter(spec, now);
  if (kind_of(entry.spec) == kind_of(spec)) {
    std::unique_ptr<Meter> meter = entry.meter->copy();
    meter->reshape(spec, now);
    return meter;
  }
  // Another kind of meter: what was spent is spent there.
  std::unique_ptr<Meter> meter = make_meter(spec, now);
  const std::int64_t spent = entry.meter->capacity() - entry.meter->level(now);
  if (spent > 0) meter->charge(now, spent);
  return meter;
}

Meter& Model::touch(const Key& key, Instant now) {
  std::unique_ptr<Meter> meter = view(key, now);
  Entry& entry = meters_[key];
  entry = {parameters(key), std::move(meter)};
  return *entry.meter;
}

// Reading: a limit that was dropped and came back is another one, which owes
// nothing to holds from before.
bool Model::survives(const Charge& charge) const {
  return find(charge.key.first) != nullptr && birth(charge.key.first) == charge.birth;
}

std::uint64_t Model::birth(const std::string& limit) const {
  const auto found = deaths_.find(limit);
  return found == deaths_.end() ? 0 : found->second;
}

// --- texts --------------------------------------------------------------------

namespace {

std::string in_quotes(const std::vector<std::string>& texts) {
  return fmt::format("{{\"{}\"}}", fmt::join(texts, "\", \""));
}

std::string text_of(const std::vector<Condition>& conditions) {
  std::vector<std::string> texts;
  for (const Condition& condition : conditions) {
    texts.push_back(
        fmt::format("{{\"{}\", {}}}", condition.attribute, in_quotes(condition.patterns)));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string text_of(const LimitSpec& limit) {
  std::string text = fmt::format("{{.name = \"{}\"", limit.name);
  if (!limit.when.empty()) text += fmt::format(", .when = {}", text_of(limit.when));
  if (!limit.per.empty()) text += fmt::format(", .per = {}", in_quotes(limit.per));
  if (limit.unit != kRequests) text += fmt::format(", .unit = \"{}\"", limit.unit);
  if (!limit.weigh.attribute.empty()) {
    text += fmt::format(", .weigh = {{\"{}\", {{", limit.weigh.attribute);
    for (const auto& [value, weight] : limit.weigh.table) {
      text += fmt::format("{{\"{}\", {}}}, ", value, weight);
    }
    text += "}}";
  }
  if (!limit.exempt.empty()) {
    std::vector<std::string> groups;
    for (const auto& group : limit.exempt) groups.push_back(text_of(group));
    text += fmt::format(", .exempt = {{{}}}", fmt::join(groups, ", "));
  }
  if (limit.shadow) text += ", .shadow = true";
  if (!limit.parent.empty()) text += fmt::format(", .parent = \"{}\"", limit.parent);
  if (limit.queue_max != LimitSpec{}.queue_max) {
    text += fmt::format(", .queue_max = {}", limit.queue_max);
  }
  return text + fmt::format(", .meter = {}}}", describe(limit.meter));
}

std::string text_of(const Row& row) {
  return fmt::format("{}{}: {} cost {} remaining {} of {} earliest {}", row.limit,
                     row.shadow ? " (shadow)" : "", to_string(row.verdict), row.cost, row.remaining,
                     row.capacity, describe(row.earliest));
}

Row row_of(const Outcome& outcome) {
  return {std::string{outcome.limit}, outcome.verdict,  outcome.shadow,  outcome.cost,
          outcome.remaining,          outcome.capacity, outcome.earliest};
}

Answer answer_of(const Decision& decision) {
  Answer answer{decision.verdict,
                decision.binding() == nullptr ? "" : std::string{decision.binding()->limit},
                decision.shortfall,
                decision.earliest,
                decision.granted,
                decision.hold.number,
                decision.hold_expires,
                {}};
  for (const Outcome& outcome : decision.outcomes()) answer.rows.push_back(row_of(outcome));
  return answer;
}

}  // namespace

std::string describe(Instant at) { return at == kForever ? "forever" : fmt::format("{}", at.ns); }

std::string describe(const MeterSpec& spec) {
  const auto ns = [](Duration span) { return fmt::format("{}ns", span.count()); };
  return std::visit(
      [&](const auto& of) -> std::string {
        using Spec = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<Spec, BucketSpec>) {
          return fmt::format("BucketSpec{{{}, {}, {}}}", of.amount, ns(of.period), of.burst);
        } else if constexpr (std::is_same_v<Spec, TickerSpec>) {
          return fmt::format("TickerSpec{{{}, {}, {}, meter::TickerStart::{}}}", of.per_tick,
                             ns(of.interval), of.burst,
                             of.start == meter::TickerStart::kFull ? "kFull" : "kEmpty");
        } else if constexpr (std::is_same_v<Spec, WindowSpec>) {
          return fmt::format("WindowSpec{{{}, {}}}", of.limit, ns(of.every));
        } else if constexpr (std::is_same_v<Spec, CalendarSpec>) {
          constexpr std::string_view units[] = {"kDay", "kWeek", "kMonth", "kYear"};
          return fmt::format("CalendarSpec{{{}, meter::CalendarUnit::{}}}", of.limit,
                             units[static_cast<std::size_t>(of.every)]);
        } else if constexpr (std::is_same_v<Spec, LogSpec>) {
          return fmt::format("LogSpec{{{}, {}}}", of.limit, ns(of.window));
        } else if constexpr (std::is_same_v<Spec, SlotsSpec>) {
          return fmt::format("SlotsSpec{{{}, {}, {}}}", of.limit, of.queue, ns(of.hold));
        } else {
          return "a gate";
        }
      },
      spec);
}

std::string describe(const RuleSetSpec& rules) {
  std::string text;
  for (const LimitSpec& limit : rules.limits) text += "  " + text_of(limit) + "\n";
  return text;
}

std::string describe(const Key& key) {
  return fmt::format("{} {}", key.first, in_quotes(key.second));
}

std::string describe(const Request& request) {
  std::vector<std::string> texts;
  for (const Attribute& a : request.attributes)
    texts.push_back(fmt::format("{}={}", a.name, a.value));
  for (const Cost& cost : request.costs)
    texts.push_back(fmt::format("{}:{}", cost.unit, cost.amount));
  return fmt::format("{{{}}}", fmt::join(texts, " "));
}

std::string describe(const Answer& answer) {
  std::string text = fmt::format(
      "{} binding '{}' shortfall {} earliest {} granted {} hold {}", to_string(answer.verdict),
      answer.binding, answer.shortfall, describe(answer.earliest), answer.granted,
      answer.hold == 0 ? "none" : "until " + describe(answer.hold_expires));
  for (const Row& row : answer.rows) text += "\n      " + text_of(row);
  return text;
}

std::string describe(const Decision& decision) { return describe(answer_of(decision)); }

std::string difference(const Answer& expected, const Decision& actual) {
  Answer got = answer_of(actual);
  if ((expected.hold == 0) == (got.hold == 0)) got.hold = expected.hold;
  if (expected == got) return "";
  return fmt::format("expected {}\n    but got  {}", describe(expected), describe(got));
}

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  if (*end == '\0') return number;
  std::cerr << name << " is '" << text << "', but it must be a whole number; write " << name
            << "=8127\n";
  std::exit(2);
}

Random::Random(std::uint64_t seed, std::uint64_t step) {
  std::seed_seq mixed{seed & 0xffffffff, seed >> 32, step};
  engine_.seed(mixed);
}

std::int64_t Random::between(std::int64_t least, std::int64_t most) {
  // Slightly uneven over huge ranges, the same on every platform.
  const std::uint64_t range = static_cast<std::uint64_t>(most - least) + 1;
  return least + static_cast<std::int64_t>(range == 0 ? engine_() : engine_() % range);
}

}  // namespace weir::engine::naive
