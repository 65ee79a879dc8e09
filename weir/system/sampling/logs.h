// Logs: what every key was given, packed.
//
// A key is a print of 112 bits, so it costs the same however long its names are. Its runs
// lie, oldest first, in a block that is as large as its limit needs: with a limit of 6 that
// is 96 bytes, and about 11 more in the index. Blocks are carved out of chunks and used
// again by keys of the same size.
//
//   block   size, class | print        | stamp units | stamp units | ...
//           8 bytes     | 16 bytes     | 8     4     | 12 bytes each
//
// A key whose newest stamp has left the window is as good as none. sweep() drops such keys,
// some blocks at a time, going round and round.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weir/engine/print.h"
#include "weir/meter/log.h"

namespace weir::system::sampling {

class Logs {
 public:
  explicit Logs(std::size_t keys_max);
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;

  // The key's runs, oldest first from the beginning of `ring`. Requires room for
  // meter::kRunsMax runs.
  meter::LogState load(engine::Print key, meter::LogRing ring) const noexcept;

  // Keeps these runs instead; without any, forgets the key. `limit` tells how many the key
  // will have room for. Returns whether there was room: if not, and also if it throws for want
  // of memory, nothing has changed.
  bool store(engine::Print key, meter::LogState state, meter::ConstLogRing ring,
             std::int64_t limit);

  // Whether so many more keys could be kept, and store() will find room for the runs of two.
  bool has_room(std::size_t keys = 1) const noexcept {
    return index_.size() + keys <= keys_max_ && chunks_.size() + 2 <= kChunksMax;
  }

  // Looks at up to `blocks` blocks and drops the keys whose last unit left the window.
  void sweep(Duration window, Instant now, std::size_t blocks) noexcept;
  std::size_t blocks() const noexcept { return block_count_; }

  std::size_t keys() const noexcept { return index_.size(); }
  std::size_t bytes() const noexcept;

 private:
  using Handle = std::uint32_t;
  using Word = std::uint32_t;

  static constexpr std::uint32_t kChunkBits = 16;  // of words: 256 KiB
  static constexpr std::size_t kChunkWords = std::size_t{1} << kChunkBits;
  static constexpr std::size_t kChunksMax = kChunkWords;  // what a handle can name: 16 GiB
  static constexpr std::size_t kHeadWords = 6;
  static constexpr std::size_t kRunWords = 3;
  static constexpr std::uint32_t kExactClasses = 8;  // 1 to 8 runs, then twice as many each
  static constexpr std::uint32_t kClassCount = 15;   // up to meter::kRunsMax
  static constexpr Handle kNone = 0;                 // its place in the first chunk is not used

  static std::uint32_t class_for(std::uint32_t runs, std::int64_t limit) noexcept;
  static std::uint32_t runs_in(std::uint32_t size_class) noexcept;
  static std::size_t words_in(std::uint32_t size_class) noexcept;

  struct Head {
    std::uint16_t runs;
    std::uint8_t size_class;
    std::uint8_t in_use;
    Handle next_free;
    engine::Print print;
  };
  static_assert(sizeof(Head) == kHeadWords * sizeof(Word));

  Word* at(Handle handle) const noexcept {
    return chunks_[handle >> kChunkBits].get() + (handle & (kChunkWords - 1));
  }
  Head head(Handle handle) const noexcept;
  void set_head(Handle handle, const Head& head) noexcept;
  engine::Print print_of(Handle handle) const noexcept;
  meter::LogRun run(Handle handle, std::size_t place) const noexcept;

  // kNone: no handles are left.
  Handle allocate(std::uint32_t size_class, engine::Print print);
  void release(Handle handle) noexcept;

  // The index holds handles and hashes what they stand for.
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    const Logs* logs;
    std::size_t operator()(Handle handle) const noexcept { return logs->print_of(handle).low; }
    std::size_t operator()(const engine::Print& print) const noexcept { return print.low; }
  };
  struct Same {
    using is_transparent = void;
    const Logs* logs;
    bool operator()(Handle a, Handle b) const noexcept { return a == b; }
    bool operator()(const engine::Print& print, Handle handle) const noexcept {
      return logs->print_of(handle) == print;
    }
    bool operator()(Handle handle, const engine::Print& print) const noexcept {
      return logs->print_of(handle) == print;
    }
  };

  const std::size_t keys_max_;
  std::vector<std::unique_ptr<Word[]>> chunks_;
  std::vector<std::uint32_t> chunk_ends_;  // words carved out of each
  std::array<Handle, kClassCount> free_{};
  std::size_t block_count_ = 0;
  Handle cursor_ = 1;  // where the sweep goes on
  boost::unordered_flat_set<Handle, Hash, Same> index_;
};

}  // namespace weir::system::sampling
