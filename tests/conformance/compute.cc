// Families of the compute system: units, and the ledger.

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/fields.h"
#include "tests/conformance/runner.h"
#include "weir/meter/ticker.h"
#include "weir/system/compute/ledger.h"

namespace weir::conformance {
namespace {

namespace compute = system::compute;
namespace json = boost::json;
using compute::Amount;
using compute::Applied;
using compute::Fault;
using compute::Ledger;
using compute::Op;
using compute::Operation;

Amount amount(const json::object& object, std::string_view name) {
  return compute::parse_parts(name, text_of(object, name)).value();
}
bool has(const json::object& object, std::string_view name) { return object.contains(name); }

// --- lock_trace

compute::Parameters parameters_of(const json::object& config) {
  compute::Parameters parameters;
  // Beyond what the recorded traces lock in all.
  parameters.supply = compute::kToken * 10'000'000'000;
  parameters.clock.length = number_of(config, "epoch_length");
  parameters.clock.first = number_of(config, "first_epoch_block");
  parameters.remainder = compute::Remainder::kDrop;
  parameters.published_faults = true;
  if (has(config, "mana")) {
    parameters.mana = number_of(config, "mana");
    parameters.block_time_s = number_of(config, "avg_block_time");
    parameters.min_lock = amount(config, "min_lock");
    parameters.max_portals = number_of(config, "max_portals");
  }
  return parameters;
}

Operation operation_of(const json::object& step) {
  const std::string name = text_of(step, "op");
  Operation operation;
  if (has(step, "w")) operation.wallet = text_of(step, "w");
  if (has(step, "p")) operation.portals = {text_of(step, "p")};
  if (has(step, "amount")) operation.amount = amount(step, "amount");
  if (has(step, "dur")) operation.value = number_of(step, "dur");
  if (has(step, "auto")) operation.is_auto = step.at("auto").as_bool();
  if (name == "register") operation.op = Op::kRegister;
  if (name == "unregister") operation.op = Op::kUnregister;
  if (name == "lock") operation.op = Op::kLock;
  if (name == "add") operation.op = Op::kAdd;
  if (name == "unlock") operation.op = Op::kUnlock;
  if (name == "auto_on") operation.op = Op::kAutoOn;
  if (name == "auto_off") operation.op = Op::kAutoOff;
  if (name == "set_epoch_length") {
    operation.op = Op::kSetEpochLength;
    operation.value = number_of(step, "length");
  }
  if (name == "set_mana") {
    operation.op = Op::kSetMana;
    operation.value = number_of(step, "mana");
  }
  if (name == "set_min_lock") {
    operation.op = Op::kSetMinLock;
    operation.amount = amount(step, "min");
  }
  if (name == "set_max_portals") {
    operation.op = Op::kSetMaxPortals;
    operation.value = number_of(step, "n");
  }
  return operation;
}

std::string end_text(compute::Block end) {
  return end == compute::kNoEnd ? "max" : std::to_string(end);
}

// One member of an answer, as text, by its recorded name.
std::string found_member(std::string_view name, Op op, const compute::Receipt& receipt) {
  if (name == "portals") return std::to_string(receipt.portals);
  if (name == "amount") return compute::parts_text(receipt.amount);
  if (name == "returned" && op == Op::kUnlock) return compute::parts_text(receipt.amount);
  if (name == "lock_start") return std::to_string(receipt.start);
  if (name == "lock_end") return end_text(receipt.end);
  if (name == "total_cu") return compute::parts_text(receipt.total_units);
  if (name == "number") return std::to_string(receipt.epoch);
  if (name == "next") return std::to_string(receipt.next_epoch);
  return "unknown member";
}

std::string plain(const json::value& value) {
  return value.is_string() ? std::string(value.as_string())
                           : std::to_string(value.to_number<std::int64_t>());
}

Failure compare(const json::object& expected, Op op, const Applied& found) {
  const std::string error = has(expected, "err") ? text_of(expected, "err") : "NONE";
  if (compute::to_string(found.fault) != error) {
    return fmt::format("fault {}, expected {}", compute::to_string(found.fault), error);
  }
  if (!found.ok()) return std::nullopt;
  for (const auto& member : expected) {
    const std::string is = found_member(member.key(), op, found.receipt);
    const std::string must_be = plain(member.value());
    if (is != must_be) {
      return fmt::format("{} is {}, expected {}", std::string(member.key()), is, must_be);
    }
  }
  return std::nullopt;
}

Failure check_reading(const Ledger& ledger, const json::object& step) {
  const json::object& expected = step.at("x").as_object();
  const std::string op = text_of(step, "op");
  const std::int64_t block = number_of(step, "block");
  if (op == "active") {
    const auto active = static_cast<std::int64_t>(ledger.active_portals());
    if (active == number_of(expected, "active")) return std::nullopt;
    return fmt::format("{} active, expected {}", active, number_of(expected, "active"));
  }
  if (op == "epoch") {
    const std::int64_t epoch = compute::epoch_number(ledger.clock(), block);
    const std::int64_t next = compute::next_epoch(ledger.clock(), block);
    if (epoch == number_of(expected, "number") && next == number_of(expected, "next")) {
      return std::nullopt;
    }
    return fmt::format("epoch {} until {}, expected {} until {}", epoch, next,
                       number_of(expected, "number"), number_of(expected, "next"));
  }
  const compute::Cluster* cluster = ledger.cluster_of(text_of(step, "p"));
  if (cluster == nullptr || has(expected, "err")) {
    const bool both = cluster == nullptr && has(expected, "err") &&
                      text_of(expected, "err") == compute::to_string(Fault::kNotRegistered);
    return both ? Failure{} : Failure{"portal registered or not, unlike what is expected"};
  }
  const std::int64_t units = ledger.epoch_units(*cluster, block);
  if (units == number_of(expected, "cu")) return std::nullopt;
  return fmt::format("{} units, expected {}", units, number_of(expected, "cu"));
}

// --- alloc

Failure check_share(const compute::Share& found, const json::value& expected) {
  const std::string is = found.fault == Fault::kNone ? std::to_string(found.units)
                                                     : std::string(compute::to_string(found.fault));
  const std::string must_be =
      expected.is_object() ? text_of(expected.as_object(), "err") : plain(expected);
  if (is == must_be) return std::nullopt;
  return fmt::format("share {}, expected {}", is, must_be);
}

Failure run_equal(const json::object& recorded) {
  const json::object& expected = recorded.at("x").as_object();
  const std::int64_t units = number_of(recorded, "cu");
  std::vector<compute::WorkerId> active;
  for (std::int64_t i = 1; i <= number_of(recorded, "workers"); ++i) active.push_back(i);
  const compute::Share share =
      compute::equal_share({units, 1, active, 0, compute::Remainder::kDrop});
  if (share.fault != Fault::kNone || has(expected, "err")) {
    return check_share(share, has(expected, "err") ? json::value(expected) : expected.at("each"));
  }
  const std::int64_t dust = units - share.units * static_cast<std::int64_t>(active.size());
  if (dust != number_of(expected, "dust")) return fmt::format("dust {}", dust);
  return check_share(share, expected.at("each"));
}

Failure run_membership_step(Ledger& ledger, std::int64_t units, const json::object& step) {
  const json::object& expected = step.at("x").as_object();
  const std::string op = text_of(step, "op");
  const std::int64_t block = number_of(step, "block");
  if (op == "share") {
    const std::vector<compute::WorkerId> active = ledger.active_workers(block);
    const compute::Share share =
        compute::equal_share({units, 1, active, 0, compute::Remainder::kDrop});
    if (share.fault != Fault::kNone || has(expected, "err")) {
      return check_share(share, has(expected, "err") ? json::value(expected) : expected.at("each"));
    }
    if (static_cast<std::int64_t>(active.size()) != number_of(expected, "active")) {
      return fmt::format("{} active", active.size());
    }
    return check_share(share, expected.at("each"));
  }
  const std::string worker = fmt::format("worker {}", number_of(step, "id"));
  const bool joins = op == "join";
  const Applied found = ledger.apply(block, {.op = joins ? Op::kJoin : Op::kLeave, .name = worker});
  const std::string error = has(expected, "err") ? text_of(expected, "err") : "NONE";
  if (compute::to_string(found.fault) != error) {
    return fmt::format("fault {}, expected {}", compute::to_string(found.fault), error);
  }
  if (!found.ok()) return std::nullopt;
  const std::int64_t boundary = number_of(expected, joins ? "active_from" : "active_until");
  if (found.receipt.active == boundary) return std::nullopt;
  return fmt::format("boundary {}, expected {}", found.receipt.active, boundary);
}

Failure run_subset_step(compute::Subset& subset, std::int64_t units, const json::object& step) {
  const json::object& expected = step.at("x").as_object();
  const std::string op = text_of(step, "op");
  if (op == "share") {
    const compute::WorkerId worker = number_of(step, "id");
    const compute::ShareOf of{units, worker, {}, 0, compute::Remainder::kDrop};
    Failure failure = check_share(subset.published_share(units, worker), expected.at("contract"));
    if (!failure) failure = check_share(subset.share(of), expected.at("set"));
    return failure;
  }
  std::vector<compute::WorkerId> workers;
  for (const json::value& id : step.at("ids").as_array()) {
    workers.push_back(id.to_number<std::int64_t>());
  }
  if (op == "support") {
    subset.support(workers);
    return std::nullopt;
  }
  const bool refused = has(expected, "contract_err");
  if (subset.can_unsupport(workers) == refused) return "unsupport refused or not, unlike expected";
  if (!refused) subset.unsupport(workers);
  return std::nullopt;
}

Failure run_shares(const json::object& recorded) {
  const json::object& expected = recorded.at("x").as_object();
  std::vector<compute::WorkerId> workers;
  std::vector<std::int64_t> points;
  for (const json::value& id : recorded.at("ids").as_array()) {
    workers.push_back(id.to_number<std::int64_t>());
  }
  for (const json::value& share : recorded.at("shares").as_array()) {
    points.push_back(share.to_number<std::int64_t>());
  }
  compute::Shares shares;
  const Fault fault =
      compute::Shares::make(workers, points, number_of(recorded, "next_worker_id"), shares);
  const std::string error = has(expected, "err") ? text_of(expected, "err") : "NONE";
  if (compute::to_string(fault) != error) {
    return fmt::format("fault {}, expected {}", compute::to_string(fault), error);
  }
  if (fault != Fault::kNone) return std::nullopt;
  if (shares.unallocated_bp() != number_of(expected, "unallocated_bp")) {
    return fmt::format("{} basis points unallocated", shares.unallocated_bp());
  }
  const json::object& rows = expected.at("cu").as_object();
  if (rows.size() != shares.rows().size()) return fmt::format("{} rows", shares.rows().size());
  for (const auto& row : rows) {
    const compute::WorkerId worker = std::stoll(std::string(row.key()));
    const compute::ShareOf of{number_of(recorded, "cu"), worker, {}, 0, compute::Remainder::kDrop};
    if (Failure failure = check_share(shares.share(of), row.value())) return failure;
  }
  return std::nullopt;
}

}  // namespace

// epoch_s, cu -> the interval between two tokens.
Failure run_compute_rate(const json::object& recorded) {
  const std::int64_t epoch_s = number_of(recorded, "epoch_s");
  const std::int64_t units = number_of(recorded, "cu");
  const std::int64_t expected_ns = number_of(recorded.at("x").as_object(), "interval_ns");
  const std::int64_t interval_ns = meter::tick_interval_ns(std::chrono::seconds{epoch_s}, units);
  if (interval_ns == expected_ns) return std::nullopt;
  return fmt::format("{} units in {} s: interval {} ns, expected {} ns", units, epoch_s,
                     interval_ns, expected_ns);
}

Failure run_compute_boost(const json::object& recorded) {
  const std::int64_t boost =
      compute::boost_bp(compute::kPublishedBoost, number_of(recorded, "seconds"));
  if (boost == number_of(recorded, "x")) return std::nullopt;
  return fmt::format("boost {}, expected {}", boost, number_of(recorded, "x"));
}

// A lock that has started -> boost, units of the whole lock, units of one epoch.
Failure run_compute_cu(const json::object& recorded) {
  const json::object& expected = recorded.at("x").as_object();
  const std::int64_t duration = number_of(recorded, "dur");
  const std::int64_t boost =
      compute::boost_bp(compute::kPublishedBoost, duration * number_of(recorded, "abt"));
  const Amount total = compute::total_units(amount(recorded, "amount"), duration,
                                            number_of(recorded, "mana"), boost);
  const Amount epoch = compute::epoch_units(total, duration, number_of(recorded, "epoch_len"));
  if (boost == number_of(expected, "boost_bp") &&
      compute::parts_text(total) == plain(expected.at("total_cu")) &&
      compute::parts_text(epoch) == plain(expected.at("epoch_cu"))) {
    return std::nullopt;
  }
  return fmt::format("boost {}, total {}, epoch {}", boost, compute::parts_text(total),
                     compute::parts_text(epoch));
}

Failure run_compute_lock_trace(const json::object& recorded) {
  Ledger ledger = Ledger::create(parameters_of(recorded.at("config").as_object())).value();
  return run_steps(recorded, [&](const json::object& step) -> Failure {
    const std::string op = text_of(step, "op");
    if (op == "available" || op == "active" || op == "epoch") return check_reading(ledger, step);
    const Operation operation = operation_of(step);
    return compare(step.at("x").as_object(), operation.op,
                   ledger.apply(number_of(step, "block"), operation));
  });
}

Failure run_compute_alloc(const json::object& recorded) {
  const std::string kind = text_of(recorded, "kind");
  if (kind == "equal") return run_equal(recorded);
  if (kind == "manual_shares_bp") return run_shares(recorded);
  if (kind == "merge_registries") return run_compute_merge(recorded);
  if (kind == "subequal") {
    compute::Subset subset;
    return run_steps(recorded, [&](const json::object& step) {
      return run_subset_step(subset, number_of(recorded, "cu"), step);
    });
  }
  const json::object& config = recorded.at("config").as_object();
  Ledger ledger = Ledger::create(parameters_of(config)).value();
  return run_steps(recorded, [&](const json::object& step) {
    return run_membership_step(ledger, number_of(config, "cu"), step);
  });
}

}  // namespace weir::conformance
