// Refused: the miners that were refused most, and those that have used up their allowance.
//
// Counters know a key by its print alone; here the names stay of so many keys that were refused
// something of late. They are counted as a list of heavy keys counts: where the list is full, a new
// one takes the place of that with the least, and what that had may be its own, too.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/time.h"
#include "weir/engine/print.h"

namespace weir::system::sampling {

constexpr std::size_t kRefusedKept = 256;

struct RefusedMiner {
  std::string hotkey{};
  std::string revision{};
  std::string environment{};
  std::optional<std::int64_t> id{};
  std::uint64_t refusals = 0;  // asks that were not granted whole
  std::uint64_t tasks = 0;     // that those wanted beyond what they were granted
  std::uint64_t beyond = 0;    // so many of the refusals may have been another's
  Instant last{};
};

class Refused {
 public:
  // The key was asked for more than there was, by `tasks`; 0: it has used up what it may have.
  // Where there is no memory, it is not noted.
  void note(engine::Print key, std::string_view hotkey, std::string_view revision,
            std::string_view environment, std::optional<std::int64_t> id, std::int64_t tasks,
            Instant now) noexcept;

  // Forgets those that were last noted at `before` or earlier.
  void forget(Instant before) noexcept;

  // The most refused first.
  std::vector<RefusedMiner> most() const;

  std::size_t size() const noexcept { return keys_.size(); }

 private:
  std::vector<engine::Print> keys_{};
  std::vector<RefusedMiner> miners_{};  // in the order of keys_
};

}  // namespace weir::system::sampling
