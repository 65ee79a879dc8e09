#include "weir/server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weir/base/assert.h"

namespace weir::server {
namespace {

constexpr std::array kRows = {
    MetricRow{"weir_build_info", "gauge", "version", "Always 1; the version is a label."},
    MetricRow{"weir_ready", "gauge", "", "Whether /readyz says so: 1 or 0."},
    MetricRow{"weir_decisions_total", "counter", "limit, outcome",
              "Decisions at each limit: allowed, denied, never or overloaded."},
    MetricRow{
        "weir_overage_clipped_total", "counter", "limit",
        "Settlements that a limit was not charged in full, because it would have owed more than "
        "its overage."},
    MetricRow{"weir_shadow_denials_total", "counter", "limit",
              "Requests that a limit in shadow would have refused."},
    MetricRow{"weir_unmatched_total", "counter", "",
              "Requests that met no limit, for want of what one reads: see `unmatched`."},
    MetricRow{"weir_throttle_decisions_total", "counter", "outcome",
              "Answers to CL.THROTTLE: allowed or denied."},
    MetricRow{"weir_waiting", "gauge", "", "Requests that wait."},
    MetricRow{"weir_holds", "gauge", "", "Holds that have not ended."},
    MetricRow{"weir_keys", "gauge", "", "Keys with a meter."},
    MetricRow{"weir_table_bytes", "gauge", "", "Memory of the table of meters."},
    MetricRow{"weir_connections", "gauge", "protocol", "Open connections."},
    MetricRow{"weir_connections_total", "counter", "protocol", "Connections taken so far."},
    MetricRow{"weir_connections_refused_total", "counter", "",
              "Connections refused because there were as many as bounds.connections."},
    MetricRow{"weir_unread_reply_bytes", "gauge", "",
              "Replies that clients have not read, of at most bounds.reply_bytes_all."},
    MetricRow{"weir_connections_overfull_total", "counter", "",
              "Connections closed because their unread replies would have passed that bound."},
    MetricRow{"weir_auth_failures_total", "counter", "protocol",
              "Tokens that were presented and are not known."},
    MetricRow{"weir_requests_total", "counter", "protocol", "Requests and commands answered."},
    MetricRow{
        "weir_http_answers_total", "counter", "route, status",
        "Answers over HTTP by route and class of status; route none: there is no such route."},
    MetricRow{"weir_received_bytes_total", "counter", "protocol", "Bytes read from clients."},
    MetricRow{"weir_sent_bytes_total", "counter", "protocol", "Bytes written to clients."},
    MetricRow{"weir_batch_seconds", "histogram", "",
              "Time from having read a batch of requests to having written the answers."},
    MetricRow{"weir_reloads_total", "counter", "result",
              "Times the configuration was read again: done, or failed with the old one kept."},
    MetricRow{"weir_state_flushes_total", "counter", "result",
              "Times changed state was written: done, or failed and to be tried again."},
    MetricRow{"weir_state_flush_seconds", "gauge", "", "How long the last flush took."},
    MetricRow{"weir_state_unwritten_seconds", "gauge", "",
              "Age of the oldest change that may not be written: what a crash would forget."},
    MetricRow{"weir_shared_decisions_total", "counter", "result",
              "Decisions asked of Redis: answered, or failed, by a timeout or an error."},
    MetricRow{"weir_shared_failures_total", "counter", "kind",
              "Decisions that Redis did not make, and heartbeats that met a foreign value, by what "
              "was wrong: timed-out, disconnected, loading, out-of-memory, refused-user, "
              "foreign-value, script and so on."},
    MetricRow{"weir_shared_policy_total", "counter", "",
              "Decisions that outage policies made, or refused to make, instead of Redis."},
    MetricRow{"weir_shared_out", "gauge", "", "Whether Redis counts as out of reach: 1 or 0."},
    MetricRow{"weir_shared_turns_total", "counter", "", "Times that has changed."},
    MetricRow{"weir_shared_losses_total", "counter", "",
              "Times Redis was found to have lost its data."},
    MetricRow{"weir_shared_servers", "gauge", "", "Servers that share the limits, as last heard."},
    MetricRow{"weir_lease_held", "gauge", "limit",
              "Units of limits with a lease that this server holds."},
    MetricRow{
        "weir_lease_units_total", "counter", "limit, what",
        "Units drawn ahead, of these returned unused as Redis has heard, and expired: too late to "
        "be used, such as those of a window that is over."},
    MetricRow{"weir_clock_steps_total", "counter", "", "Times the wall clock was set."},
    MetricRow{"weir_clock_last_step_seconds", "gauge", "",
              "By how much the wall clock was set the last time; forward is positive."},
};

void append_label(std::string& out, std::string_view label, std::string_view is) {
  if (!out.empty()) out += ',';
  out += label;
  out += "=\"";
  for (const char c : is) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string decimal_text(std::int64_t parts, std::uint64_t parts_in_one, int places) {
  const bool is_negative = parts < 0;
  const std::uint64_t size = is_negative ? std::uint64_t{0} - static_cast<std::uint64_t>(parts)
                                         : static_cast<std::uint64_t>(parts);
  return fmt::format("{}{}.{:0{}}", is_negative ? "-" : "", size / parts_in_one,
                     size % parts_in_one, places);
}

std::string seconds_text(std::int64_t ns) { return decimal_text(ns, 1'000'000'000, 9); }

}  // namespace

std::span<const MetricRow> metric_rows() noexcept { return kRows; }

void MetricsText::begin(std::string_view name) {
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](const MetricRow& each) { return each.name == name; });
  WEIR_ASSERT(row != rows_.end());
  name_ = row->name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name_, row->help, name_,
                 row->type);
}

void MetricsText::line(std::string_view suffix, std::string_view labels, std::string_view value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) {
    text_ += '{';
    text_ += labels;
    text_ += '}';
  }
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

void MetricsText::value(std::uint64_t value) { line("", "", fmt::format_int(value).c_str()); }

void MetricsText::value(std::string_view label, std::string_view is, std::uint64_t value) {
  std::string labels;
  append_label(labels, label, is);
  line("", labels, fmt::format_int(value).c_str());
}

void MetricsText::value(std::string_view label, std::string_view is, std::string_view second_label,
                        std::string_view second_is, std::uint64_t value) {
  std::string labels;
  append_label(labels, label, is);
  append_label(labels, second_label, second_is);
  line("", labels, fmt::format_int(value).c_str());
}

void MetricsText::micro_value(std::string_view label, std::string_view is,
                              std::string_view second_label, std::string_view second_is,
                              std::int64_t micro) {
  std::string labels;
  append_label(labels, label, is);
  append_label(labels, second_label, second_is);
  line("", labels, decimal_text(micro, 1'000'000, 6));
}

void MetricsText::micro_value(std::string_view label, std::string_view is, std::int64_t micro) {
  std::string labels;
  append_label(labels, label, is);
  line("", labels, decimal_text(micro, 1'000'000, 6));
}

void MetricsText::seconds(std::string_view label, std::string_view is,
                          std::string_view second_label, std::string_view second_is,
                          std::optional<Duration> value) {
  std::string labels;
  append_label(labels, label, is);
  append_label(labels, second_label, second_is);
  line("", labels, value ? seconds_text(value->count()) : "+Inf");
}
void MetricsText::seconds(Duration value) { line("", "", seconds_text(value.count())); }

void MetricsText::histogram(std::span<const BatchTimes* const> loops) {
  std::uint64_t count = 0;
  std::uint64_t sum_ns = 0;
  for (std::size_t i = 0; i <= BatchTimes::kBoundsNs.size(); ++i) {
    for (const BatchTimes* loop : loops) count += loop->buckets[i].value();
    const bool is_last = i == BatchTimes::kBoundsNs.size();
    std::string labels;
    append_label(labels, "le", is_last ? "+Inf" : seconds_text(BatchTimes::kBoundsNs[i]));
    line("_bucket", labels, fmt::format_int(count).c_str());
  }
  for (const BatchTimes* loop : loops) sum_ns += loop->sum_ns.value();
  line("_sum", "", seconds_text(static_cast<std::int64_t>(sum_ns)));
  line("_count", "", fmt::format_int(count).c_str());
}

void write_engine(MetricsText& out, const engine::Engine& engine) {
  const engine::Counts counts = engine.counts();
  out.begin("weir_decisions_total");
  for (const engine::LimitCounts& limit : counts.limits) {
    out.value("limit", limit.limit, "outcome", "allowed", limit.allowed);
    out.value("limit", limit.limit, "outcome", "denied", limit.denied);
    out.value("limit", limit.limit, "outcome", "never", limit.never);
    out.value("limit", limit.limit, "outcome", "overloaded", limit.overloaded);
  }
  out.begin("weir_shadow_denials_total");
  for (const engine::LimitCounts& limit : counts.limits) {
    out.value("limit", limit.limit, limit.shadow_denied);
  }
  out.begin("weir_overage_clipped_total");
  for (const engine::LimitCounts& limit : counts.limits) {
    out.value("limit", limit.limit, limit.clipped);
  }
  out.begin("weir_unmatched_total");
  out.value(counts.unmatched);
  out.begin("weir_throttle_decisions_total");
  out.value("outcome", "allowed", counts.ad_hoc_allowed);
  out.value("outcome", "denied", counts.ad_hoc_denied);
  out.begin("weir_waiting");
  out.value(engine.usage().waiters);
  out.begin("weir_holds");
  out.value(engine.usage().holds);
  out.begin("weir_keys");
  out.value(engine.usage().keys);
  out.begin("weir_table_bytes");
  out.value(engine.usage().table_bytes);
}

}  // namespace weir::server
