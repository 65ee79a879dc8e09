#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "weir/base/integer.h"
#include "weir/config/draft.h"
#include "weir/engine/meter.h"
#include "weir/engine/quantity.h"
#include "weir/meter/ticker.h"

namespace weir::config {
namespace {

using engine::BucketSpec;
using engine::LogSpec;
using engine::SlotsSpec;
using engine::TickerSpec;

// A specification takes a burst of 0 for "none given", so one that is given must
// be more.
template <auto Member, typename Target>
void burst_at(const Entry& entry, Context& context, Target& target) {
  const std::size_t before = context.mistakes.count();
  read_amount(entry, context, target.*Member);
  if (context.mistakes.count() == before && target.*Member == 0) {
    context.mistake(entry.value.place,
                    fmt::format("burst is {}, but it must be more than 0; write at least the "
                                "largest cost of one request",
                                in_quotes(entry.value.text)));
  }
}

// --- bucket

void read_rate(const Entry& entry, Context& context, BucketSpec& bucket) {
  if (!check_text(entry.value, entry.key, context)) return;
  const Result<engine::Rate> rate = engine::parse_rate(entry.key, entry.value.text, context.scale);
  if (!rate) {
    context.mistake(entry.value.place, rate.error().message);
    return;
  }
  bucket.amount = rate->amount;
  bucket.period = rate->period;
}

constexpr Key<BucketSpec> kBucketKeys[] = {
    {"rate", read_rate, "100/s", "An amount per period.", kRequired},
    {"burst", burst_at<&BucketSpec::burst>, "200",
     "The most it holds. Default: the amount of the rate."},
};

// --- window

struct WindowDraft {
  std::int64_t limit = 0;
  engine::MeterSpec every{};
};

constexpr std::string_view kCalendar[] = {"day", "week", "month", "year"};

void read_every(const Entry& entry, Context& context, WindowDraft& window) {
  for (std::size_t i = 0; i < std::size(kCalendar); ++i) {
    if (entry.value.text == kCalendar[i]) {
      window.every = engine::CalendarSpec{window.limit, static_cast<meter::CalendarUnit>(i)};
      return;
    }
  }
  // A word that is no duration was meant as one of these: `monthly`, `days`.
  const std::string& text = entry.value.text;
  const bool is_word = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (is_word) {
    const std::string_view meant = text == "daily" ? "day" : nearest(text, kCalendar);
    context.mistake(
        entry.value.place,
        fmt::format("every is {}, but it must be one of day, week, month, year, or a duration; "
                    "write {}",
                    in_quotes(text),
                    meant.empty() ? "one of them, or a duration such as '15m'"
                                  : fmt::format("'{}'", meant)));
    return;
  }
  engine::WindowSpec fixed{.limit = window.limit};
  read_duration(entry, context, fixed.every);
  window.every = fixed;
}

constexpr Key<WindowDraft> kWindowKeys[] = {
    {"limit", amount_at<&WindowDraft::limit>, "10000", "How much fits in one window.", kRequired},
    {"every", read_every, "1d",
     "A duration, aligned to 1970; or `day`, `week` (from Monday), `month`, `year` in UTC.",
     kRequired},
};

// --- log

constexpr Key<LogSpec> kLogKeys[] = {
    {"limit", amount_at<&LogSpec::limit>, "6", "How much fits in any window.", kRequired},
    {"window", duration_at<&LogSpec::window>, "1h", "How long the window is.", kRequired},
};

// --- ticker

constexpr std::string_view kStarts[] = {"full", "empty"};
static_assert(static_cast<int>(meter::TickerStart::kFull) == 0);
static_assert(static_cast<int>(meter::TickerStart::kEmpty) == 1);

constexpr Key<TickerSpec> kTickerKeys[] = {
    {"per_tick", amount_at<&TickerSpec::per_tick>, "1", "Gained at each tick. Default `1`."},
    {"interval", duration_at<&TickerSpec::interval>, "10ms", "Between two ticks.", kRequired},
    {"burst", burst_at<&TickerSpec::burst>, "5", "The most it holds. Default: one tick's gain."},
    {"start", choice_at<&TickerSpec::start, kStarts>, "full",
     "What a new key begins with: `full` or `empty`. Default `full`."},
};

// --- slots

constexpr Key<SlotsSpec> kSlotsKeys[] = {
    {"limit", amount_at<&SlotsSpec::limit>, "32", "How much may run at once.", kRequired},
    {"queue", count_at<&SlotsSpec::queue, 0, kQueueMax>, "16",
     "Requests that may wait. Default `0`."},
    {"hold", duration_at<&SlotsSpec::hold>, "60s",
     "How long an admission lasts that is not ended. Default `1m`."},
};

template <typename Target>
bool read_meter(const Entry& entry, std::span<const Key<Target>> keys, std::string_view form,
                Context& context, Target& target) {
  if (!check_kind(entry, TreeNode::Kind::kMap, form, context)) return false;
  const std::size_t before = context.mistakes.count();
  read_map<Target>(entry.value, keys, context, target);
  return context.mistakes.count() == before;
}

// Has the engine look at it now, while its place is known.
void keep(const Entry& entry, Context& context, engine::MeterSpec spec, engine::LimitSpec& limit) {
  const auto shape = engine::make_shape(spec);
  if (!shape) context.mistake(entry.value.place, shape.error().message);
  limit.meter = std::move(spec);
}

}  // namespace

void read_bucket(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  BucketSpec bucket;
  if (read_meter<BucketSpec>(entry, kBucketKeys, "{ rate: 100/s }", context, bucket)) {
    keep(entry, context, bucket, limit);
  }
}

void read_window(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  WindowDraft window;
  if (read_meter<WindowDraft>(entry, kWindowKeys, "{ limit: 100, every: 1h }", context, window)) {
    keep(entry, context, window.every, limit);
  }
}

void read_log(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  LogSpec log;
  if (read_meter<LogSpec>(entry, kLogKeys, "{ limit: 6, window: 1h }", context, log)) {
    keep(entry, context, log, limit);
  }
}

void read_ticker(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  // One whole unit, in whatever the unit is counted.
  TickerSpec ticker{.per_tick = context.scale == engine::UnitScale::kMicro ? kMicro : 1};
  if (read_meter<TickerSpec>(entry, kTickerKeys, "{ interval: 10ms }", context, ticker)) {
    keep(entry, context, ticker, limit);
  }
}

void read_slots(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  SlotsSpec slots;
  if (read_meter<SlotsSpec>(entry, kSlotsKeys, "{ limit: 32 }", context, slots)) {
    keep(entry, context, slots, limit);
  }
}

void list_meter_keys(std::vector<KeyHelp>& out) {
  list_keys<BucketSpec>("limits: bucket", kBucketKeys, out);
  list_keys<WindowDraft>("limits: window", kWindowKeys, out);
  list_keys<LogSpec>("limits: log", kLogKeys, out);
  list_keys<TickerSpec>("limits: ticker", kTickerKeys, out);
  list_keys<SlotsSpec>("limits: slots", kSlotsKeys, out);
}

}  // namespace weir::config
