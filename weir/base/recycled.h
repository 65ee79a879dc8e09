// Recycled: an allocator for objects that come and go all the time, one by one.
//
//   auto asking = std::allocate_shared<Asking>(Recycled<Asking>(), request);
//
// Each thread keeps the memory of some objects that ended on it for those that come next. The
// C library does that too, but only up to about a thousand bytes; beyond, it splits and joins
// blocks each time. Under the address sanitizer nothing is kept, so that it sees each end.
//
// What a thread keeps is bounded: kRecycledMax blocks of each size. It gives them back when it
// ends. Several objects at once, as a container asks for, come from the heap as ever.
//
// Thread safety: safe from any thread. An object may end on another thread than it began on.

#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace weir {

constexpr std::size_t kRecycledMax = 256;  // objects of one size that a thread keeps memory for

namespace internal {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kRecycles = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kRecycles = false;
#else
constexpr bool kRecycles = true;
#endif
#else
constexpr bool kRecycles = true;
#endif

// The blocks of one size that one thread keeps.
template <std::size_t Bytes>
class Shelf {
 public:
  Shelf() = default;
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;
  ~Shelf() {
    is_over() = true;
    while (count_ > 0) ::operator delete(blocks_[--count_]);
  }

  static void* take() {
    if (!kRecycles || is_over()) return ::operator new(Bytes);
    Shelf& shelf = mine();
    return shelf.count_ > 0 ? shelf.blocks_[--shelf.count_] : ::operator new(Bytes);
  }
  static void put(void* block) noexcept {
    if (!kRecycles || is_over()) return ::operator delete(block);
    Shelf& shelf = mine();
    if (shelf.count_ == kRecycledMax) return ::operator delete(block);
    shelf.blocks_[shelf.count_++] = block;
  }

 private:
  static Shelf& mine() {
    thread_local Shelf shelf;
    return shelf;
  }
  // What ends after the shelf of its thread is given back at once.
  static bool& is_over() {
    thread_local bool over = false;
    return over;
  }

  std::array<void*, kRecycledMax> blocks_{};
  std::size_t count_ = 0;
};

}  // namespace internal

// The allocator, for std::allocate_shared and the like. It has no state: all are equal.
template <typename T>
struct Recycled {
  using value_type = T;
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  Recycled() = default;
  template <typename U>
  constexpr explicit(false) Recycled(const Recycled<U>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count != 1) return static_cast<T*>(::operator new(count * sizeof(T)));
    return static_cast<T*>(internal::Shelf<sizeof(T)>::take());
  }
  void deallocate(T* block, std::size_t count) noexcept {
    if (count != 1) return ::operator delete(block);
    internal::Shelf<sizeof(T)>::put(block);
  }

  template <typename U>
  bool operator==(const Recycled<U>&) const noexcept {
    return true;
  }
};

}  // namespace weir
