// What holds after every call:
//
//  1. A key in the index has one block in use, with its print and at least one run. A block in use
//     has such a key.
//  2. A block belongs to one size class for good; one that is not in use is in free_ of its class.
//  3. Blocks fill each chunk from its beginning up to chunk_ends_, so a sweep finds them by their
//     sizes alone.
//  4. Words are read and written by memcpy: a block begins at any word.

#include "weir/system/sampling/logs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

namespace weir::system::sampling {

Logs::Logs(std::size_t keys_max) : keys_max_(keys_max), index_(0, Hash{this}, Same{this}) {}

// Up to eight runs a block has just as many as its limit, so that it never grows; growing
// would leave blocks of every size behind.
std::uint32_t Logs::class_for(std::uint32_t runs, std::int64_t limit) noexcept {
  if (runs <= kExactClasses) {
    const auto most = static_cast<std::uint32_t>(std::clamp<std::int64_t>(limit, 1, kExactClasses));
    return std::max(runs, most) - 1;
  }
  return kExactClasses - 4 + static_cast<std::uint32_t>(std::bit_width(runs - 1));
}

std::uint32_t Logs::runs_in(std::uint32_t size_class) noexcept {
  if (size_class < kExactClasses) return size_class + 1;
  return 16u << (size_class - kExactClasses);
}

std::size_t Logs::words_in(std::uint32_t size_class) noexcept {
  return kHeadWords + kRunWords * runs_in(size_class);
}

Logs::Head Logs::head(Handle handle) const noexcept {
  Head head;
  std::memcpy(static_cast<void*>(&head), at(handle), sizeof head);
  return head;
}

void Logs::set_head(Handle handle, const Head& head) noexcept {
  std::memcpy(at(handle), &head, sizeof head);
}

engine::Print Logs::print_of(Handle handle) const noexcept {
  engine::Print print;
  std::memcpy(static_cast<void*>(&print), at(handle) + 2, sizeof print);
  return print;
}

meter::LogRun Logs::run(Handle handle, std::size_t place) const noexcept {
  const Word* const words = at(handle) + kHeadWords + kRunWords * place;
  meter::LogRun run;
  std::memcpy(&run.at.ns, words, sizeof run.at.ns);
  run.units = words[2];
  return run;
}

meter::LogState Logs::load(engine::Print key, meter::LogRing ring) const noexcept {
  meter::LogState state;
  const auto found = index_.find(key);
  if (found == index_.end()) return state;
  state.size = head(*found).runs;
  for (std::size_t i = 0; i < state.size; ++i) {
    ring[i] = run(*found, i);
    state.held += ring[i].units;
  }
  return state;
}

bool Logs::store(engine::Print key, meter::LogState state, meter::ConstLogRing ring,
                 std::int64_t limit) {
  const auto found = index_.find(key);
  if (state.size == 0) {
    if (found == index_.end()) return true;
    const Handle old = *found;
    index_.erase(found);
    release(old);
    return true;
  }
  Handle handle = found == index_.end() ? kNone : *found;
  if (handle == kNone) {
    if (index_.size() >= keys_max_) return false;
    handle = allocate(class_for(state.size, limit), key);
    if (handle == kNone) return false;
    try {
      index_.insert(handle);
    } catch (const std::bad_alloc&) {
      release(handle);
      throw;
    }
  } else if (state.size > runs_in(head(handle).size_class)) {
    const Handle larger = allocate(class_for(state.size, limit), key);
    if (larger == kNone) return false;
    // In its place: the print is the same, and so are its hash and what it equals.
    const_cast<Handle&>(*found) = larger;
    release(handle);
    handle = larger;
  }
  Head now = head(handle);
  now.runs = state.size;
  set_head(handle, now);
  for (std::size_t i = 0; i < state.size; ++i) {
    const meter::LogRun& from = ring[(state.head + i) % ring.size()];
    Word* const words = at(handle) + kHeadWords + kRunWords * i;
    std::memcpy(words, &from.at.ns, sizeof from.at.ns);
    words[2] =
        static_cast<Word>(std::min<std::int64_t>(from.units, std::numeric_limits<Word>::max()));
  }
  return true;
}

Logs::Handle Logs::allocate(std::uint32_t size_class, engine::Print print) {
  Handle handle = free_[size_class];
  if (handle != kNone) {
    free_[size_class] = head(handle).next_free;
  } else {
    const std::size_t words = words_in(size_class);
    if (chunks_.empty() || chunk_ends_.back() + words > kChunkWords) {
      if (chunks_.size() == kChunksMax) return kNone;
      chunk_ends_.reserve(chunks_.size() + 1);
      chunks_.push_back(std::make_unique_for_overwrite<Word[]>(kChunkWords));
      chunk_ends_.push_back(chunks_.size() == 1 ? 1 : 0);  // handle 0 stands for none
    }
    handle = static_cast<Handle>((chunks_.size() - 1) << kChunkBits | chunk_ends_.back());
    chunk_ends_.back() += static_cast<std::uint32_t>(words);
    block_count_ += 1;
  }
  set_head(handle, {0, static_cast<std::uint8_t>(size_class), 1, kNone, print});
  return handle;
}

void Logs::release(Handle handle) noexcept {
  Head old = head(handle);
  old.in_use = 0;
  old.runs = 0;
  old.next_free = free_[old.size_class];
  free_[old.size_class] = handle;
  set_head(handle, old);
}

void Logs::sweep(Duration window, Instant now, std::size_t blocks) noexcept {
  if (chunks_.empty()) return;
  for (std::size_t i = std::min(blocks, block_count_); i > 0; --i) {
    std::size_t chunk = cursor_ >> kChunkBits;
    const bool is_past =
        chunk < chunks_.size() && (cursor_ & (kChunkWords - 1)) >= chunk_ends_[chunk];
    if (is_past) chunk += 1;
    if (chunk >= chunks_.size()) {
      cursor_ = 1;
    } else if (is_past) {
      cursor_ = static_cast<Handle>(chunk << kChunkBits);
    }
    const Handle handle = cursor_;
    const Head seen = head(handle);
    cursor_ += static_cast<Handle>(words_in(seen.size_class));
    if (seen.in_use == 0) continue;
    if (run(handle, seen.runs - 1u).at + window > now) continue;
    index_.erase(index_.find(seen.print));
    release(handle);
  }
}

std::size_t Logs::bytes() const noexcept {
  // The index has a byte of its own beside every place, and 16 for 15 of them.
  const std::size_t places = index_.bucket_count();
  return chunks_.size() * kChunkWords * sizeof(Word) + places * sizeof(Handle) + places * 16 / 15;
}

}  // namespace weir::system::sampling
