// Keyed word: a number in a word that only the holder of the key can compute.
//
// Ids that are given out to clients carry it beside a number that counts up. Whoever has seen
// ids cannot make another one: the word is SipHash-2-4 of the number, and the key stays inside.
//
//   id = {keyed_word(key, number), number}
//
// Thread safety: pure.

#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace weir {

struct WordKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// SipHash-2-4 of the eight bytes of `number`, the lowest first.
constexpr std::uint64_t keyed_word(WordKey key, std::uint64_t number) noexcept {
  std::uint64_t v0 = key.low ^ 0x736f6d6570736575;
  std::uint64_t v1 = key.high ^ 0x646f72616e646f6d;
  std::uint64_t v2 = key.low ^ 0x6c7967656e657261;
  std::uint64_t v3 = key.high ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    for (; count > 0; --count) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  };
  constexpr std::uint64_t kLength = std::uint64_t{8} << 56;  // of the message
  for (const std::uint64_t block : {number, kLength}) {
    v3 ^= block;
    rounds(2);
    v0 ^= block;
  }
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

// The word of what `owner`, a random number that is never shown, has given out.
constexpr std::uint64_t owned_word(std::uint64_t owner, std::uint64_t number) noexcept {
  return keyed_word({owner, 0x7765697220776f72}, number);
}

}  // namespace weir
