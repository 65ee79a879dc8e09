// The throttles of a server: their buckets, claims and levels.
//
// 1. What is in force changes by change() only, under lock_.
// 2. Running throttles are kept over a reload, with their gate: levels and claims go on.
// 3. Levels and clocks are parts of the state, one for the front end and one for consensus; claims
//    are others, a sheet each. All are taken at one instant and written together. Bringing levels
//    back forgets claims, so sheets wait for start().
// 4. Throttles that begin after start() write every sheet: what is kept is of others before them.

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "weir/server/systems.h"
#include "weir/system/throttle/gate.h"
#include "weir/system/throttle/throttles.h"
#include "weir/wire/http/throttle_routes.h"
#include "weir/wire/resp/throttle_commands.h"

namespace weir::server {
namespace {

namespace throttle = system::throttle;
using store::sqlite::Bytes;
using store::sqlite::Part;
using throttle::Throttles;

struct KeptRole {
  std::string_view part;
  throttle::SetRole role;
};
constexpr KeptRole kKeptRoles[] = {{"throttle/front_end", throttle::SetRole::kFrontEnd},
                                   {"throttle/consensus", throttle::SetRole::kConsensus}};

constexpr std::string_view kSheetPart = "throttle/claims/";

constexpr MetricRow kThrottleMetrics[] = {
    {"weir_throttle_bucket_used", "gauge", "role, bucket",
     "Level of a bucket of the throttles, in its own units."},
    {"weir_throttle_bucket_capacity", "gauge", "role, bucket",
     "What that bucket holds, in the same units."},
    {"weir_throttle_refusals_total", "counter", "role, bucket",
     "Decisions, and retries of those who wait, that this bucket refused since it was built."},
    {"weir_throttle_objections_total", "counter", "role, why",
     "Those refused whatever the levels: no bucket lists the operation, or its schedule "
     "is full."},
    {"weir_throttle_multiplier", "gauge", "of", "Congestion multiplier of fees: generic or gas."},
    {"weir_throttle_multiplier_changes_total", "counter", "of",
     "Times that a transaction found it to be another one than before."},
};

using system::throttle::BucketReading;
using system::throttle::SetReading;

// The buckets of one role, gas and the like included, under names of their own: of
// several with one name, the second is `NAME#2`.
std::vector<BucketReading> buckets_of(const SetReading& set) {
  std::vector<BucketReading> all = set.buckets;
  all.push_back(set.gas);
  if (set.bytes) all.push_back(*set.bytes);
  all.push_back(set.duration);
  std::set<std::string> names;
  for (BucketReading& bucket : all) {
    std::string name = bucket.name;
    for (int i = 2; !names.insert(name).second; ++i) name = fmt::format("{}#{}", bucket.name, i);
    bucket.name = std::move(name);
  }
  return all;
}

void write_throttles(MetricsText& out, const system::throttle::Reading& reading) {
  const std::vector<BucketReading> front_end = buckets_of(reading.front_end);
  const std::vector<BucketReading> consensus = buckets_of(reading.consensus);
  const auto write = [&](std::string_view metric, auto member) {
    const auto value = [&](std::string_view role, const BucketReading& bucket) {
      const auto units = bucket.*member;
      out.value("role", role, "bucket", bucket.name,
                static_cast<std::uint64_t>(units > 0 ? units : 0));
    };
    out.begin(metric);
    for (const BucketReading& bucket : front_end) value("front_end", bucket);
    for (const BucketReading& bucket : consensus) value("consensus", bucket);
  };
  write("weir_throttle_bucket_used", &BucketReading::used);
  write("weir_throttle_bucket_capacity", &BucketReading::capacity);
  write("weir_throttle_refusals_total", &BucketReading::refusals);
  out.begin("weir_throttle_objections_total");
  const auto other = [&](std::string_view role, const SetReading& set) {
    out.value("role", role, "why", "schedule", set.schedule_refusals);
    out.value("role", role, "why", "unlisted", set.unlisted_refusals);
  };
  other("front_end", reading.front_end);
  other("consensus", reading.consensus);
  out.begin("weir_throttle_multiplier");
  out.value("of", "generic", static_cast<std::uint64_t>(reading.generic_multiplier));
  out.value("of", "gas", static_cast<std::uint64_t>(reading.gas_multiplier));
  out.begin("weir_throttle_multiplier_changes_total");
  out.value("of", "generic", reading.generic_changes);
  out.value("of", "gas", reading.gas_changes);
}

// What is made of `throttles:`.
struct ThrottlesInForce {
  config::ThrottleSettings settings{};
  std::shared_ptr<Throttles> throttles{};
  std::shared_ptr<engine::Gate> gate{};
};

class ThrottleSystem final : public System, private store::sqlite::Parts {
 public:
  explicit ThrottleSystem(const SystemGround& ground) : log_(ground.log) {}

  std::string_view name() const noexcept override { return "throttles"; }

  Status check(const config::Config& next) override {
    next_ = {};
    if (!next.throttles) return Done{};
    if (Status status = throttle::check(next.throttles->spec); !status) return status;
    // Only the thread that checks changes it, so it may be read without the lock.
    next_ = {*next.throttles, in_force_.throttles, in_force_.gate};
    if (next_.throttles != nullptr) return Done{};
    auto made = Throttles::create(next.throttles->spec);
    if (!made) return std::move(made).error();
    next_.throttles = std::move(*made);
    next_.gate = std::make_shared<throttle::ThrottleGate>(next_.throttles);
    return Done{};
  }

  void add_gates(engine::Gates& gates) const override {
    if (next_.gate != nullptr) gates.emplace(config::kThrottlesLimit, next_.gate);
  }

  void change(Instant /*now*/) noexcept override {
    if (next_.throttles != nullptr && next_.throttles == in_force_.throttles) {
      next_.throttles->change(in_force_.settings.spec, next_.settings.spec);
    } else if (next_.throttles != nullptr && is_started_) {
      for (std::size_t i = 0; i < throttle::kClaimSheets; ++i) next_.throttles->mark_sheet(i);
    }
    const std::scoped_lock lock(lock_);
    in_force_ = std::exchange(next_, {});
  }

  void drop() noexcept override { next_ = {}; }

  Status start() override {
    is_started_ = true;
    const std::vector<throttle::ClaimSheet> sheets = std::exchange(sheets_, {});
    if (const auto throttles = this->throttles()) {
      for (const throttle::ClaimSheet& sheet : sheets) throttles->bring_back(sheet);
    }
    return Done{};
  }
  void tick(Instant /*now*/) override {
    const auto throttles = this->throttles();
    if (throttles == nullptr) return;
    for (const throttle::TierChange& change : throttles->take_tier_changes()) {
      if (!log_) continue;
      log_({change.to > change.from ? LogLevel::kWarning : LogLevel::kInfo,
            "congestion",
            {{"of", change.of_gas ? "gas" : "generic"},
             {"from", fmt::format("{}", change.from)},
             {"to", fmt::format("{}", change.to)},
             {"second", fmt::format("{}", change.at.seconds)}}});
    }
  }

  std::span<const MetricRow> metric_rows() const noexcept override { return kThrottleMetrics; }
  void write_metrics(MetricsText& out, Instant now) const override {
    if (const auto throttles = this->throttles()) write_throttles(out, throttles->reading(now));
  }
  store::sqlite::Parts* parts() noexcept override { return this; }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }
  const wire::resp::CommandTable* commands() const noexcept override { return &commands_; }

 private:
  std::shared_ptr<Throttles> throttles() const {
    const std::scoped_lock lock(lock_);
    return in_force_.throttles;
  }

  static Part part_of(std::string name, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {std::move(name), {bytes.begin(), bytes.end()}};
  }
  // The place of the sheet that a part is; nothing: it is none.
  static std::optional<std::size_t> sheet_of(std::string_view name) {
    if (!name.starts_with(kSheetPart)) return std::nullopt;
    name.remove_prefix(kSheetPart.size());
    std::size_t sheet = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), sheet);
    if (read.ec != std::errc{} || read.ptr != name.data() + name.size()) return std::nullopt;
    return sheet;
  }

  std::vector<Part> changed(Instant /*now*/) override {
    std::vector<Part> parts;
    const auto throttles = this->throttles();
    if (throttles == nullptr) return parts;
    throttle::ThrottlesState state = throttles->state_to_keep();
    for (const KeptRole& kept : kKeptRoles) {
      std::string& snapshot =
          kept.role == throttle::SetRole::kConsensus ? state.consensus : state.front_end;
      std::string& written = written_[std::string(kept.part)];
      if (written == snapshot) continue;
      parts.push_back(part_of(std::string(kept.part), snapshot));
      written = std::move(snapshot);
    }
    for (const auto& [sheet, text] : state.sheets) {
      parts.push_back(part_of(fmt::format("{}{}", kSheetPart, sheet), text));
    }
    return parts;
  }

  void mark_changed(const std::vector<Part>& parts) override {
    const auto throttles = this->throttles();
    for (const Part& part : parts) {
      written_.erase(part.name);
      const std::optional<std::size_t> sheet = sheet_of(part.name);
      if (sheet && throttles != nullptr) throttles->mark_sheet(*sheet);
    }
  }

  Status restore(std::string_view name, Bytes bytes, Instant now) override {
    const auto throttles = this->throttles();
    if (throttles == nullptr) return Done{};
    if (const std::optional<std::size_t> place = sheet_of(name)) {
      Result<throttle::ClaimSheet> sheet =
          throttle::parse_claim_sheet({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      // What is in it now may stand on another sheet next time.
      throttles->mark_sheet(*place);
      if (!sheet) return std::move(sheet).error();
      sheets_.push_back(std::move(*sheet));
      return Done{};
    }
    for (const KeptRole& kept : kKeptRoles) {
      if (kept.part != name) continue;
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const auto report = throttles->bring_back(kept.role, text, now);
      if (!report) return report.error();
    }
    return Done{};
  }

  const Log& log_;
  bool is_started_ = false;                   // from then on nothing is brought back
  std::vector<throttle::ClaimSheet> sheets_;  // brought back, until start()
  mutable std::mutex lock_;
  ThrottlesInForce in_force_;
  ThrottlesInForce next_;                                    // as checked
  std::map<std::string, std::string, std::less<>> written_;  // snapshot, by the name of the part
  const wire::http::ThrottleRoutes routes_ =
      wire::http::throttle_routes([this] { return throttles(); });
  const wire::resp::ThrottleCommandTable commands_ =
      wire::resp::throttle_commands([this] { return throttles(); });
};

}  // namespace

std::unique_ptr<System> make_throttle_system(const SystemGround& ground) {
  return std::make_unique<ThrottleSystem>(ground);
}

}  // namespace weir::server
