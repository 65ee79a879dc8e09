// Keys for the benchmarks: `client:NNNNNNN`, drawn at random, read from a
// sequential stream, so that only the table's memory is accessed at random.

#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace weir::bench {

class Key {
 public:
  explicit Key(std::uint64_t number) {
    std::memcpy(text_.data(), "client:0000000", 14);
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    const auto count = static_cast<std::size_t>(end - digits.data());
    std::memcpy(text_.data() + 14 - count, digits.data(), count);
  }
  std::string_view view() const { return {text_.data(), 14}; }

 private:
  std::array<char, 16> text_{};
};

constexpr std::size_t kStreamKeys = std::size_t{1} << 20;

// A stream of keys drawn from `population`, the same for everybody who asks.
inline const std::vector<Key>& key_stream(std::uint64_t population) {
  static std::vector<std::pair<std::uint64_t, std::vector<Key>>> streams;
  for (const auto& [size, stream] : streams) {
    if (size == population) return stream;
  }
  std::mt19937_64 random(population);
  std::vector<Key> stream;
  stream.reserve(kStreamKeys);
  for (std::size_t i = 0; i < kStreamKeys; ++i) stream.emplace_back(random() % population);
  streams.reserve(16);
  return streams.emplace_back(population, std::move(stream)).second;
}

}  // namespace weir::bench
