// Each parameter has its bounds in one table. The last check is of all together: no cluster may
// have 2^62 units in an epoch, however the epoch's length changes.

#include "weir/system/compute/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace weir::system::compute {
namespace {

Status within(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return Done{};
  return bad_argument(fmt::format("{} is {}, but it must be {} to {}; write a number between", what,
                                  value, least, most));
}

Status check_boost(const std::vector<BoostStep>& boost) {
  if (boost.empty() || boost.size() > kBoostStepsMax || boost.front().seconds != 0) {
    return bad_argument(
        fmt::format("boost has {} steps, but it must have 1 to {}, and the first must begin at 0; "
                    "write such as '0s: 10000'",
                    boost.size(), kBoostStepsMax));
  }
  for (std::size_t i = 0; i < boost.size(); ++i) {
    if (Status status = within("boost", boost[i].boost_bp, 0, kBoostMax); !status) return status;
    if (i > 0 && boost[i].seconds <= boost[i - 1].seconds) {
      return bad_argument(
          fmt::format("boost step {} begins at {} s, but it must begin after step "
                      "{} ({} s); write the steps in order",
                      i + 1, boost[i].seconds, i, boost[i - 1].seconds));
    }
  }
  return Done{};
}

// At the longest epoch, because the length may change at any time.
Status check_epoch_units(const Parameters& parameters) {
  std::int64_t most_boost = 0;
  for (const BoostStep& step : parameters.boost) most_boost = std::max(most_boost, step.boost_bp);
  const Amount most = total_units(parameters.supply, kEpochLengthMax, parameters.mana, most_boost);
  if (most < static_cast<Amount>(kTermMax)) return Done{};
  return bad_argument(
      fmt::format("mana is {}, with which the supply of {} tokens makes {} units in an epoch of {} "
                  "blocks, but it must make less than 2^62; write a smaller mana or supply",
                  parameters.mana, tokens_text(parameters.supply), most, kEpochLengthMax));
}

}  // namespace

Status validate(const Parameters& parameters) {
  if (parameters.supply < 1 || parameters.supply > kAmountMax) {
    return bad_argument(
        fmt::format("supply is {} parts, but it must be 1 to 10^30; write a number "
                    "of tokens up to 10^12",
                    parameters.supply));
  }
  if (parameters.min_lock > parameters.supply) {
    return bad_argument(fmt::format("min_lock is {} tokens, but there are only {}; write less",
                                    tokens_text(parameters.min_lock),
                                    tokens_text(parameters.supply)));
  }
  struct Tokens {
    std::string_view what;
    Amount value;
  };
  for (const Tokens& row : {Tokens{"min_stake", parameters.min_stake},
                            Tokens{"pool_capacity", parameters.pool_capacity},
                            Tokens{"exit_rate", parameters.exit_rate}}) {
    if (row.value <= kAmountMax) continue;
    return bad_argument(fmt::format("{} is {} tokens, but it may be 10^12; write less", row.what,
                                    tokens_text(row.value)));
  }
  struct Row {
    std::string_view what;
    std::int64_t value, least, most;
  };
  const Row rows[] = {
      {"pool_mana", parameters.pool_mana_bp, 0, kPoolManaMax},
      {"mana", parameters.mana, 0, kManaMax},
      {"block_time", parameters.block_time_s, 1, kBlockTimeMax},
      {"max_lock", parameters.max_lock_s, 1, kDurationMax},
      {"max_portals", parameters.max_portals, 0, kPortalsMax},
      {"epoch", parameters.clock.length, kEpochLengthMin, kEpochLengthMax},
      {"first_epoch", parameters.clock.first, 0, kBlockMax},
  };
  for (const Row& row : rows) {
    if (Status status = within(row.what, row.value, row.least, row.most); !status) return status;
  }
  if (Status status = check_boost(parameters.boost); !status) return status;
  return check_epoch_units(parameters);
}

}  // namespace weir::system::compute
