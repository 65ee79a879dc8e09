// Account state: all of an account that outlives its process, and that as bytes.
//
// The layout of the bytes is in docs/reference/state.md. They may come from anywhere: what
// read_state() returns is in range, whatever it was given.
//
// Thread safety: every function is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/contract/book.h"

namespace weir::system::contract {

enum class Rule : std::uint8_t;  // account.h

constexpr std::size_t kOwnersMax = 1024;  // processes whose reservations are known

// The ids of reservations that one process gave out: [first, end).
struct Owner {
  std::uint64_t owner = 0;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

struct AccountState {
  Instant saved_at{};
  Rule rule{};
  Book::Saved book{};
  std::vector<Wide> published_fs{};  // levels of the same policies under the published rule, at
  Instant published_at{};
  std::optional<Instant> refreshed_at{};
  std::vector<Owner> owners{};  // the oldest first; beyond kOwnersMax the oldest are not written
};

std::vector<std::byte> write_state(const AccountState& state);
// Refused: another format, or bytes that write_state() did not make.
Result<AccountState> read_state(std::span<const std::byte> bytes);

// Makes every instant earlier by so much, none before 0: a clock that was ahead must not lock
// an account.
void move_back(AccountState& state, Duration by);

}  // namespace weir::system::contract
