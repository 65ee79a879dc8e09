// CRC-32 as zlib computes it, sixteen bytes at a time.
//
// A flush is checked over every byte it writes, so this is a good part of what it
// costs. Table k tells what a byte does to the sum once k more bytes have followed it.
// The sum finds what a disk has changed; it does not keep out those who mean to change it.
//
// Thread safety: pure.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::store::sqlite {
namespace internal {

constexpr std::size_t kCrcStride = 16;
using CrcTables = std::array<std::array<std::uint32_t, 256>, kCrcStride>;

// Table 0 bit by bit, each other one from the table before.
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xedb88320u : 0);
    tables[0][byte] = sum;
  }
  for (std::size_t k = 1; k < kCrcStride; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

inline constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace internal

// The sum of all bytes; of none it is 0.
inline std::uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  using internal::kCrcStride;
  using internal::kCrcTables;
  const auto at = [](const std::byte* from, std::size_t i) {
    return std::to_integer<std::uint32_t>(from[i]);
  };
  std::uint32_t sum = 0xffffffff;
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kCrcStride; left -= kCrcStride, next += kCrcStride) {
    const std::uint32_t first =
        sum ^ (at(next, 0) | at(next, 1) << 8 | at(next, 2) << 16 | at(next, 3) << 24);
    sum = kCrcTables[15][first & 0xff] ^ kCrcTables[14][(first >> 8) & 0xff] ^
          kCrcTables[13][(first >> 16) & 0xff] ^ kCrcTables[12][first >> 24];
    for (std::size_t i = 4; i < kCrcStride; ++i) {
      sum ^= kCrcTables[kCrcStride - 1 - i][at(next, i)];
    }
  }
  for (; left > 0; --left, ++next) sum = (sum >> 8) ^ kCrcTables[0][(sum ^ at(next, 0)) & 0xff];
  return ~sum;
}

}  // namespace weir::store::sqlite
