// Sheets of claims, as the state has them, brought back into throttles that run.
//
// What is taken is written again the same; whatever it says, levels stay within their buckets
// while its claims end.

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "fuzz/input.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/throttles.h"

namespace {

using namespace weir::system::throttle;
using weir::fuzz::check;

constexpr weir::Instant kNow{1'700'000'100'000'000'000};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  weir::Result<ClaimSheet> sheet = parse_claim_sheet(text);
  if (!sheet) {
    check(!sheet.error().message.empty());
    return 0;
  }
  const weir::Result<ClaimSheet> again = parse_claim_sheet(to_text(*sheet));
  check(again.ok() && to_text(*again) == to_text(*sheet));
  static const auto definitions = read_definitions(
      R"({"buckets":[{"name":"A","burstPeriod":3,"throttleGroups":[
            {"opsPerSec":100,"operations":["CryptoTransfer"]}]}]})",
      "f", Reader::kStrict);
  check(definitions.ok());
  for (const bool same : {false, true}) {
    const auto throttles = *Throttles::create({.definitions = *definitions, .owner = 1});
    const Submission submission{.operation = "CryptoTransfer"};
    check(throttles->submit(SetRole::kFrontEnd, submission, kNow).ok());
    if (same) {
      const std::scoped_lock lock(*throttles);
      sheet->front_end_shape = throttles->locked().front_end.shape();
      sheet->consensus_shape = throttles->locked().consensus.shape();
    }
    throttles->bring_back(*sheet);
    static_cast<void>(throttles->state_to_keep());
    for (const KeptClaim& claim : sheet->claims) {
      const weir::HoldId id{claim.word, claim.number};
      static_cast<void>(throttles->settle(id, {.gas = 1, .duration = 5}).ok());
      static_cast<void>(throttles->cancel(id));
    }
    const Reading reading = throttles->reading(kNow);
    for (const SetReading* set : {&reading.front_end, &reading.consensus}) {
      check(set->buckets[0].used >= 0 && set->buckets[0].used <= set->buckets[0].capacity);
      check(set->gas.used >= 0 && set->gas.used <= set->gas.capacity);
    }
  }
  return 0;
}
