// Recording: decisions as lines of text, and back. docs/reference/recording.md.
//
//   weir-recording 1
//   d 1800000000000000000 denied l=per-client s=1 e=1800000000500000000 a:client=acme
//   t 1800000000000000000 allowed k=user123 n=2000000000 b=16 q=1
//   x 1800000001000000000 250
//
// Words are separated by one space; in names and values the bytes up to 0x20, 0x7f, '%'
// and '=' are written as % and two hexadecimal digits. So any bytes survive.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"

namespace weir::server {

constexpr std::string_view kRecordingHeader = "weir-recording 1\n";
constexpr std::size_t kRecordLineBytesMax = std::size_t{1} << 20;  // longer ones are not read
constexpr std::size_t kRecordWordsMax = 256;                       // of one line

void append_decision(std::string& out, const engine::Ask& ask, Instant now,
                     const Decision& decision);
void append_ad_hoc(std::string& out, const engine::AdHocAsk& ask, Instant now, bool allowed);
void append_dropped(std::string& out, Instant now, std::uint64_t count);

// One line, read back.
struct Recorded {
  enum class Kind : std::uint8_t { kDecision, kAdHoc, kDropped };

  Kind kind = Kind::kDecision;
  Instant now{};
  Verdict verdict = Verdict::kAllowed;  // of an ad-hoc bucket: allowed or denied
  std::string limit{};                  // that bound; empty: none
  std::int64_t shortfall = 0;
  Instant earliest{};
  std::int64_t granted = 0;
  std::vector<std::pair<std::string, std::string>> attributes{};
  std::vector<std::pair<std::string, std::int64_t>> costs{};
  Duration hold{}, wait{}, book_within{};
  std::string up_to{};
  std::string key{};  // of an ad-hoc bucket, as the rest
  std::int64_t token_ns = 0, burst = 0, quantity = 0;
  std::uint64_t dropped = 0;  // decisions that are missing here

  friend bool operator==(const Recorded&, const Recorded&) = default;
};

// Gives each line to `take`. An error names the line; what came before it was given. A
// last line without its end is left out: the process was killed while it wrote.
Status read_recording(std::string_view text, const std::function<void(const Recorded&)>& take);

}  // namespace weir::server
