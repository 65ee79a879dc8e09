// Snapshots of throttles, with names and by position, brought back into throttles that run.
//
// The first byte chooses the role and the form. What is taken is saved and taken again the same;
// what is refused has a message and changes nothing. Afterwards levels are within their buckets
// and decisions are made.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/input.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/throttles.h"

namespace {

using namespace std::chrono_literals;
using namespace weir::system::throttle;
using weir::Instant;
using weir::fuzz::check;

constexpr Instant kNow{1'700'000'100'000'000'000};

std::shared_ptr<Throttles> make() {
  static const auto definitions = read_definitions(
      R"({"buckets":[{"name":"A","burstPeriod":3,"throttleGroups":[
            {"opsPerSec":100,"operations":["CryptoTransfer"]},
            {"opsPerSec":5,"operations":["ContractCall"]}]},
          {"name":"B","burstPeriod":1,"throttleGroups":[
            {"opsPerSec":10,"operations":["CryptoTransfer","FileCreate"]}]}]})",
      "f", Reader::kStrict);
  check(definitions.ok());
  auto made = Throttles::create({.definitions = *definitions, .nodes = 3, .owner = 1});
  check(made.ok());
  return std::move(*made);
}

void check_levels(const SetReading& set) {
  for (const BucketReading& bucket : set.buckets) {
    check(bucket.used >= 0 && bucket.used <= bucket.capacity);
  }
  check(set.gas.used >= 0 && set.gas.used <= set.gas.capacity);
  check(!set.bytes || (set.bytes->used >= 0 && set.bytes->used <= set.bytes->capacity));
  check(set.duration.used >= 0);
}

void use(Throttles& throttles) {
  const Reading reading = throttles.reading(kNow);
  check_levels(reading.front_end);
  check_levels(reading.consensus);
  check(reading.generic_multiplier >= 1 && reading.gas_multiplier >= 1);
  for (const SetRole role : {SetRole::kFrontEnd, SetRole::kConsensus}) {
    for (const std::string_view operation : {"CryptoTransfer", "ContractCall"}) {
      const Submission submission{.operation = operation, .transaction = {.gas = 50'000}};
      const auto peeked = throttles.peek(role, submission, kNow);
      const auto said = throttles.submit(role, submission, kNow);
      check(peeked.ok() == said.ok());
      if (!said) {
        check(!said.error().message.empty());
        continue;
      }
      check(peeked->admission.allowed == said->admission.allowed);
      if (said->claim) static_cast<void>(throttles.settle(said->claim, {.gas = 1'000}).ok());
    }
  }
  const Reading later = throttles.reading(kNow + 1s);
  check_levels(later.front_end);
  check_levels(later.consensus);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  const std::string_view text = input.rest();
  const auto throttles = make();
  const SetRole role = choice % 2 == 0 ? SetRole::kFrontEnd : SetRole::kConsensus;
  // What a flush would have kept of other use.
  if ((choice & 8) != 0) use(*throttles);
  const std::string before = throttles->snapshot(role);
  const std::string positional = throttles->positional_snapshot();
  if ((choice & 4) != 0) {
    const weir::Status restored = throttles->restore_positional(text, kNow);
    if (!restored) {
      check(!restored.error().message.empty());
      check(throttles->positional_snapshot() == positional);
    } else {
      const auto again = make();
      check(again->restore_positional(throttles->positional_snapshot(), kNow).ok());
      check(again->positional_snapshot() == throttles->positional_snapshot());
    }
  } else {
    // As a server brings back its own, and as it is told by another.
    const auto restored = throttles->restore(role, text, (choice & 2) != 0 ? weir::kForever : kNow);
    if (!restored) {
      check(!restored.error().message.empty());
      check(throttles->snapshot(role) == before);
    } else {
      const auto again = make();
      check(again->restore(role, throttles->snapshot(role), weir::kForever).ok());
      check(again->snapshot(role) == throttles->snapshot(role));
    }
  }
  use(*throttles);
  return 0;
}
