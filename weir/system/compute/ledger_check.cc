// What only a new operation is asked: checks that depend on what this process has, or that
// an operation of the history may have been made without.

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "weir/base/in_quotes.h"
#include "weir/system/compute/ledger.h"

namespace weir::system::compute {

Fault Ledger::check_new(const Operation& operation, std::string& detail) const {
  switch (operation.op) {
    case Op::kEqual:
    case Op::kSupport:
    case Op::kUnsupport:
    case Op::kShares:
    case Op::kStrategy:
      return check_new_split(operation, detail);
    case Op::kSetMaxPortals:
      if (operation.value >= 1 || parameters_.published_faults) return Fault::kNone;
      detail = fmt::format("max_portals is {}, but it must be at least 1; set one that is",
                           operation.value);
      return Fault::kOutOfRange;
    default:
      return Fault::kNone;
  }
}

Fault Ledger::check_new_split(const Operation& operation, std::string& detail) const {
  const Cluster* cluster = find(operation.wallet);
  if (cluster == nullptr) {
    detail = fmt::format("wallet {} has never locked or registered anything; name one that has",
                         in_quotes(operation.wallet));
    return Fault::kNoSuchWallet;
  }
  const bool names_workers =
      operation.op == Op::kSupport || operation.op == Op::kUnsupport || operation.op == Op::kShares;
  if (names_workers && operation.workers.empty()) {
    detail = "no worker is named; name at least one by its id";
    return Fault::kNoSuchWorker;
  }
  if (operation.op == Op::kUnsupport) {
    const Subset none;
    const Subset* subset =
        cluster->split == nullptr ? nullptr : std::get_if<Subset>(cluster->split.get());
    if (!(subset == nullptr ? none : *subset).can_unsupport(operation.workers)) {
      detail = fmt::format(
          "{} workers are taken out, which is more than were put in; take out "
          "fewer",
          operation.workers.size());
      return Fault::kUnderflow;
    }
  }
  const bool is_known = std::any_of(strategies_.begin(), strategies_.end(),
                                    [&](const auto& row) { return row.first == operation.name; });
  if (operation.op == Op::kStrategy && !is_known) {
    detail =
        fmt::format("strategy {} is not known here; name one that is", in_quotes(operation.name));
    return Fault::kNoSuchStrategy;
  }
  return Fault::kNone;
}

}  // namespace weir::system::compute
