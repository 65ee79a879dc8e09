// weir-conformance DIR: runs every DIR/<system>/*.jsonl. Exits 0 only if nothing
// failed and there was something to run.

#include <fmt/format.h>

#include <array>
#include <iostream>

#include "tests/conformance/runner.h"

namespace {

using weir::conformance::Family;
using weir::conformance::OptionalCases;

constexpr std::array kFamilies = {
    Family{"compute/alloc", weir::conformance::run_compute_alloc},
    Family{"compute/boost", weir::conformance::run_compute_boost},
    Family{"compute/bucket", weir::conformance::run_compute_worker},
    Family{"compute/cu", weir::conformance::run_compute_cu},
    Family{"compute/drift", weir::conformance::run_compute_worker},
    Family{"compute/exit_queue", weir::conformance::run_compute_exit_queue},
    Family{"compute/lock_trace", weir::conformance::run_compute_lock_trace},
    Family{"compute/pick", weir::conformance::run_compute_pick},
    Family{"compute/pool_cu", weir::conformance::run_compute_pool},
    Family{"compute/rate", weir::conformance::run_compute_rate},
    Family{"contract/apply_static", weir::conformance::run_contract_apply_static},
    Family{"contract/apply_timed", weir::conformance::run_contract_apply_timed},
    Family{"contract/contract", weir::conformance::run_contract_contract},
    Family{"contract/fill", weir::conformance::run_contract_fill},
    Family{"contract/period", weir::conformance::run_contract_period},
    Family{"contract/pu_published", weir::conformance::run_contract_pu_published},
    Family{"contract/reserve", weir::conformance::run_contract_reserve},
    Family{"contract/server", weir::conformance::run_contract_server},
    Family{"pool/a_pools", weir::conformance::run_pool_pools},
    Family{"pool/b_model_jobtype_slots", weir::conformance::run_pool_slots},
    Family{"pool/c_ratio_adjust", weir::conformance::run_pool_ratios},
    Family{"pool/d1_layer2_sequences", weir::conformance::run_pool_type_meters},
    Family{"pool/d2_limiter_sequences", weir::conformance::run_pool_limiter},
    Family{"pool/d3_escalation_failfast", weir::conformance::run_pool_jobs},
    Family{"pool/d4_wait_and_escalate", weir::conformance::run_pool_jobs},
    Family{"pool/e_availability", weir::conformance::run_pool_availability},
    Family{"pool/e_cost", weir::conformance::run_pool_cost},
    Family{"pool/e_default_wait", weir::conformance::run_pool_default_wait},
    Family{"pool/e_memory", weir::conformance::run_pool_memory},
    Family{"sampling/decide", weir::conformance::run_sampling_decide},
    Family{"sampling/rate", weir::conformance::run_sampling_rate},
    Family{"sampling/rotate", weir::conformance::run_sampling_rotate},
    Family{"sampling/schedule", weir::conformance::run_sampling_schedule},
    Family{"sampling/slots", weir::conformance::run_sampling_slots},
    Family{"sampling/window", weir::conformance::run_sampling_window},
    Family{"throttle/01_four_buckets", weir::conformance::run_throttle},
    Family{"throttle/02_network_files", weir::conformance::run_throttle},
    Family{"throttle/03_bucket_primitive", weir::conformance::run_throttle},
    Family{"throttle/04_gas_leaky", weir::conformance::run_throttle},
    Family{"throttle/05_ops_duration", weir::conformance::run_throttle},
    Family{"throttle/06_engine_features", weir::conformance::run_throttle},
    Family{"throttle/07_config", weir::conformance::run_throttle},
    Family{"throttle/08_congestion", weir::conformance::run_throttle},
    Family{"throttle/09_specs", weir::conformance::run_throttle},
    Family{"throttle/10_hv_pricing", weir::conformance::run_throttle},
    Family{"throttle/11_quirks", weir::conformance::run_throttle},
    Family{"throttle/12_gas_engine", weir::conformance::run_throttle},
};

constexpr std::array kOptionalCases = {
    OptionalCases{"contract", "kind", "interval"},  // of stepwise filling
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: weir-conformance DIR\n"
                 "Runs every DIR/<system>/*.jsonl against weir, such as ../shared/vectors.\n";
    return 2;
  }
  const weir::conformance::Totals totals =
      weir::conformance::run_directory(argv[1], kFamilies, kOptionalCases, std::cout);
  if (totals.files == 0) {
    std::cerr << fmt::format(
        "weir-conformance: {}: found no <system>/*.jsonl; give the folder that "
        "holds the systems' folders\n",
        argv[1]);
    return 2;
  }
  std::cout << fmt::format("{} passed, {} failed, {} skipped\n", totals.passed, totals.failed,
                           totals.skipped);
  return totals.failed == 0 ? 0 : 1;
}
