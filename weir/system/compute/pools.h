// Pools: clusters of the second generation of registries, in a ledger.
//
// A pool belongs to a wallet. Others stake tokens in it; while it is active, its units are given
// to the owner's cluster at every worker alike, undivided, beside what a lock of the owner's gives.
// Who wants out asks for it, and has a place on the pool's belt, which moves `exit_rate` tokens a
// block. Until the place is reached and the stake withdrawn, it counts.
//
//   open_pool(owner, pool)   stake(wallet, pool, tokens)
//   exit(wallet, pool, tokens) -> ticket        withdraw(wallet, pool, ticket)
//
// Thread safety: plain values; the ledger has them.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weir/system/compute/published/exit_queue.h"
#include "weir/system/compute/published/stake_pool.h"
#include "weir/system/compute/units.h"

namespace weir::system::compute {

constexpr std::size_t kPoolsMax = 100'000;
constexpr std::size_t kPoolsOfOwnerMax = 100;
constexpr std::size_t kStakesMax = 10'000'000;     // of all wallets in all pools
constexpr std::size_t kTicketsMax = 10'000'000;    // that were ever given out
constexpr std::size_t kTicketsOfStakeMax = 1'000;  // that are not withdrawn yet
constexpr Amount kBeltMax = Amount{1} << 120;      // parts that ever asked to leave one pool

struct ExitTicket {
  std::string wallet;
  Amount amount = 0;
  Amount place = 0;  // on the belt: reached when so much has been processed
  bool is_withdrawn = false;
};

struct Stake {
  Amount amount = 0;                     // withdrawn is no part of it
  Amount leaving = 0;                    // of it: has a place on the belt
  std::vector<std::uint32_t> tickets{};  // not withdrawn, in the order of their places
};

struct Pool {
  std::string name;
  std::uint32_t owner = 0;  // its cluster
  StakePool stake;
  ExitQueue exits;  // in blocks instead of seconds
  std::map<std::string, Stake, std::less<>> stakes{};
  std::vector<ExitTicket> tickets{};
};

}  // namespace weir::system::compute
