// Conformance: recorded cases of the published systems against production code.
//
// A family is one file of cases, `<system>/<file>.jsonl`, one JSON object a line,
// and one function that runs a case. The function returns nothing when the case
// passes, or what was found and what was expected.

#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::conformance {

using Failure = std::optional<std::string>;

// One case. Doubles are the nearest to their decimals. Throws what Boost.JSON throws.
boost::json::value parse_line(const std::string& line);

struct Family {
  std::string_view name;  // `sampling/window`
  Failure (*run)(const boost::json::object& recorded);
};

// A kind of case that need not be run, whether or not its family is known.
struct OptionalCases {
  std::string_view system;
  std::string_view field;
  std::string_view value;
};

struct Totals {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::size_t files = 0;
};

// Runs every `directory/<system>/*.jsonl` in order of name, a line for each file,
// skipping and naming the families that `families` does not have. A file that cannot
// be read is a failure.
Totals run_directory(const std::string& directory, std::span<const Family> families,
                     std::span<const OptionalCases> optional_cases, std::ostream& out);

// --- The families, one function each, by system.
Failure run_compute_alloc(const boost::json::object& recorded);
Failure run_compute_boost(const boost::json::object& recorded);
Failure run_compute_cu(const boost::json::object& recorded);
Failure run_compute_exit_queue(const boost::json::object& recorded);
Failure run_compute_lock_trace(const boost::json::object& recorded);
Failure run_compute_merge(const boost::json::object& recorded);  // of alloc
Failure run_compute_pick(const boost::json::object& recorded);
Failure run_compute_pool(const boost::json::object& recorded);
Failure run_compute_rate(const boost::json::object& recorded);
Failure run_compute_worker(const boost::json::object& recorded);  // bucket, drift
Failure run_contract_apply_static(const boost::json::object& recorded);
Failure run_contract_apply_timed(const boost::json::object& recorded);
Failure run_contract_contract(const boost::json::object& recorded);
Failure run_contract_fill(const boost::json::object& recorded);
Failure run_contract_period(const boost::json::object& recorded);
Failure run_contract_pu_published(const boost::json::object& recorded);
Failure run_contract_reserve(const boost::json::object& recorded);
Failure run_contract_server(const boost::json::object& recorded);
Failure run_pool_availability(const boost::json::object& recorded);
Failure run_pool_cost(const boost::json::object& recorded);
Failure run_pool_default_wait(const boost::json::object& recorded);
Failure run_pool_jobs(const boost::json::object& recorded);  // escalation, waiting
Failure run_pool_limiter(const boost::json::object& recorded);
Failure run_pool_memory(const boost::json::object& recorded);
Failure run_pool_pools(const boost::json::object& recorded);
Failure run_pool_ratios(const boost::json::object& recorded);
Failure run_pool_slots(const boost::json::object& recorded);
Failure run_pool_type_meters(const boost::json::object& recorded);
Failure run_sampling_decide(const boost::json::object& recorded);
Failure run_sampling_rate(const boost::json::object& recorded);
Failure run_sampling_rotate(const boost::json::object& recorded);
Failure run_sampling_schedule(const boost::json::object& recorded);
Failure run_sampling_slots(const boost::json::object& recorded);
Failure run_sampling_window(const boost::json::object& recorded);
Failure run_throttle(const boost::json::object& recorded);  // any of its files

}  // namespace weir::conformance
