// Draft: a configuration while it is read.
//
// Between the readers of settings, throttles, contracts, limits and meters. Each of them has a
// table of rows; see keys.h.

#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weir/config/config.h"
#include "weir/config/document.h"
#include "weir/config/keys.h"
#include "weir/config/mistakes.h"
#include "weir/engine/rules.h"

namespace weir::config {

// Words of settings, in the order of their enumerators.
constexpr std::string_view kScales[] = {"whole", "micro"};
constexpr std::string_view kHeaderStyles[] = {"ietf", "x-ratelimit", "x-ratelimit-epoch", "none"};
constexpr std::string_view kRoundings[] = {"cell", "dragonfly"};
constexpr std::string_view kUnmatched[] = {"allow", "deny", "error"};

// A limit of the file, in the order of Config::limits_spec.
struct LimitPlace {
  Place place{};
  bool is_broken = false;  // a mistake in it has been reported
};

// A section that makes a limit of its own.
struct SectionPlace {
  Place place{};
  bool is_broken = true;  // until it has been read without a mistake
};

struct Draft {
  Config config{};
  std::vector<Place> resp_places{};  // of the listeners
  std::vector<Place> http_places{};
  std::vector<LimitPlace> limit_places{};
  std::vector<Place> only_places{};  // of the tokens' bounds; 0 where there is none
  Place units_place{};
  Place attributes_place{};
  SectionPlace throttles_place{};
  SectionPlace compute_place{};
  SectionPlace sampling_place{};
  std::set<std::string, std::less<>> broken_contracts{};  // names of accounts with mistakes
  ReadFile read_file{};
};

// The whole file.
void read_settings(const TreeNode& root, Mistakes& mistakes, Draft& draft);
void list_settings_keys(std::vector<KeyHelp>& out);

// `http:`.
void read_visitors(const Entry& entry, Context& context, Draft& draft);
void list_visitor_keys(std::vector<KeyHelp>& out);

// Attributes with the patterns of each.
std::vector<engine::Condition> read_conditions(const TreeNode& map, Context& context);

// `limits:`. Units must have been read before.
void read_limits(const Entry& entry, Context& context, Draft& draft);
void list_limit_keys(std::vector<KeyHelp>& out);

// The limit that a section makes: of its name, with a gate of that name. Once limits have been
// read.
void add_own_limit(std::string_view name, const SectionPlace& section, Draft& draft);

// `throttles:`. Units and attributes must have been read before, limits after it.
void read_throttles(const Entry& entry, Context& context, Draft& draft);
void list_throttle_keys(std::vector<KeyHelp>& out);

// `contracts:`. Units must have been read before, limits after it.
void read_contracts(const Entry& entry, Context& context, Draft& draft);
// The gate of the account that a limit names. None: a mistake has been reported, here or in the
// account.
std::optional<engine::GateRef> read_contract_gate(const Entry& entry, Context& context,
                                                  const Draft& draft);
void list_contract_keys(std::vector<KeyHelp>& out);
// `sync:` of an account.
void read_sync(const Entry& entry, Context& context, const ReadFile& read_file,
               std::optional<system::contract::FollowerOptions>& out);
void list_sync_keys(std::vector<KeyHelp>& out);

// Makes sure that requests may carry a unit that a section reads. `place` is the section's.
void declare_unit(std::string_view name, engine::UnitScale scale, Place place, Context& context,
                  engine::RuleSetSpec& spec);
// `compute:`, in the same order.
void read_compute(const Entry& entry, Context& context, Draft& draft);
void list_compute_keys(std::vector<KeyHelp>& out);

// `sampling:`. Attributes and bounds must have been read before, limits after it.
void read_sampling(const Entry& entry, Context& context, Draft& draft);
void list_sampling_keys(std::vector<KeyHelp>& out);

// `redis:`.
void read_redis(const Entry& entry, Context& context, Draft& draft);
// `store:`, `outage:` and `lease:` of a limit.
void read_store(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_outage(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_lease(const Entry& entry, Context& context, engine::LimitSpec& limit);
// Reports limits that cannot be shared, once they have been compiled.
void check_shared(Mistakes& mistakes, const Draft& draft);
void list_redis_keys(std::vector<KeyHelp>& out);
void list_lease_keys(std::vector<KeyHelp>& out);

// `pools:`.
void read_pools(const Entry& entry, Context& context, Draft& draft);
void list_pool_keys(std::vector<KeyHelp>& out);

// The parameters of one meter, into limit.meter. The entry's key is the meter's name.
void read_bucket(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_window(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_log(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_ticker(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_slots(const Entry& entry, Context& context, engine::LimitSpec& limit);
void list_meter_keys(std::vector<KeyHelp>& out);

// `compute:` of a running server goes into the draft, and its limit among the limits, which are
// not compiled yet.
void keep_compute(const Config& running, Draft& draft);

// Reports tokens that are bound to attributes that no limit knows, once limits have been compiled.
void check_bounds(Mistakes& mistakes, const Draft& draft);

// Compiles the limits and gives each mistake that shows only there its place.
void compile_limits(Mistakes& mistakes, Draft& draft);

}  // namespace weir::config
