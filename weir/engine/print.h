// Print: a keyed fingerprint that stands for a limit's name and a key.
//
// An entry of the table costs the same however long its key is, because it holds
// 112 bits of print instead of the key. The hash folds 64x64-bit products, keyed by
// a secret that stays in the process and its state directory: a client that does not
// know it cannot look for collisions. With ten million keys two of them collide with
// a chance of about 2^-66.
//
// A key is a tuple. Each value is mixed in with its length, so ("ab", "c") and
// ("a", "bc") differ.
//
//   const Print key = with_value(secret, with_value(secret, {}, "acme"), "prod");
//   const Print entry = print_for(seed_for(secret, "per-client"), key);
//
// Thread safety: every function is pure, but random_secret(), which is safe from any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "weir/base/export.h"

namespace weir::engine {

// What prints are keyed by. The same secret gives the same prints, which state on disk
// relies on.
using Secret = std::array<std::uint64_t, 4>;

struct Print {
  std::uint64_t low = 0;
  std::uint64_t high = 0;  // in a print for the table the low 16 bits are zero

  friend constexpr bool operator==(Print, Print) = default;
};

// The bits of `high` that a print for the table uses; the others are the row's and the flags'.
constexpr std::uint64_t kPrintHighMask = ~std::uint64_t{0xffff};

namespace internal {

__extension__ typedef unsigned __int128 Product;

inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  const Product product = Product{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t load64(const char* bytes) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}
inline std::uint64_t load32(const char* bytes) noexcept {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Mixes one 16-byte block into both halves.
inline Print mix(const Secret& secret, Print print, std::uint64_t a, std::uint64_t b) noexcept {
  return {fold(a ^ secret[0] ^ print.low, b ^ secret[1]),
          fold(a ^ secret[2], b ^ secret[3] ^ print.high)};
}

}  // namespace internal

// `print` with all of a long value mixed in but its last 1..16 bytes, which are left.
WEIR_EXPORT Print with_blocks(const Secret& secret, Print print, std::string_view value) noexcept;

// `print` with one more value of the tuple mixed in.
inline Print with_value(const Secret& secret, Print print, std::string_view value) noexcept {
  using namespace internal;
  const char* bytes = value.data();
  std::size_t left = value.size();
  if (left > 16) [[unlikely]] {
    print = with_blocks(secret, print, value);
    bytes += (left - 1) / 16 * 16;
    left -= (left - 1) / 16 * 16;
  }
  // The last 0..16 bytes, read without a loop; overlapping reads are harmless
  // because the length is mixed in too.
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (left >= 8) {
    a = load64(bytes);
    b = load64(bytes + left - 8);
  } else if (left >= 4) {
    a = load32(bytes);
    b = load32(bytes + left - 4);
  } else if (left > 0) {
    a = static_cast<unsigned char>(bytes[0]);
    b = static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[left / 2])) << 8 |
        static_cast<unsigned char>(bytes[left - 1]);
  }
  print.low += value.size();
  print.high ^= value.size() << 32;
  return mix(secret, print, a, b);
}

// The start of a limit's prints. Another one than that of keys, so that limit `a` with
// key `b` is not limit `b` with key `a`.
inline Print seed_for(const Secret& secret, std::string_view limit) noexcept {
  return with_value(secret, {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f}, limit);
}

// The print of a limit's key, given the limit's seed and the mixed values: 112 bits, with room for
// the row and the flags beside them. The limit comes last so that several limits with
// the same key mix its values once. The product spreads keys that differ in a few bits
// evenly: its upper bits choose the place, its lower ones the shard.
inline Print print_for(Print seed, Print key) noexcept {
  const std::uint64_t mixed = internal::fold(key.low ^ seed.low, key.high ^ seed.high);
  return {mixed, (key.high ^ seed.high ^ mixed << 48) & kPrintHighMask};
}

// A secret from the operating system's generator.
WEIR_EXPORT Secret random_secret();

}  // namespace weir::engine
