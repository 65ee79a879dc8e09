// The journal of grants as its file has it: sound records of any numbers, restored in order, and
// then grants, commits and releases.
//
// Restored grants count, and no window of a key has more than its allowance of new ones. Times are
// of a clock that may have been ahead.

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "fuzz/input.h"
#include "weir/system/sampling/counters.h"

namespace {

using namespace std::chrono_literals;
using namespace weir::system::sampling;
using weir::Instant;
using weir::fuzz::check;

constexpr Instant kNow{1'800'000'000'000'000'000};
constexpr std::size_t kKeysMax = 32;

Rules make() {
  auto rules = make_rules({.environments = {{.name = "e",
                                             .rotation_count_micro = 5'000'000,
                                             .rotation_interval_micro = 3'600'000'000,
                                             .sampling_count_micro = 200'000'000,
                                             .parent = ParentSpec{4}}}});
  check(rules.ok());
  return std::move(*rules);
}

// Keeps what is written, and says that it was.
class KeptJournal final : public Journal {
 public:
  weir::Status ready() const override { return weir::Done{}; }
  Ticket append(const Record& record) override {
    records.push_back(record);
    return records.size();
  }
  void when_written(Ticket, std::function<void(const weir::Status&)> told) override {
    told(weir::Done{});
  }
  std::vector<Record> records;
};

// What the file lets pass (sampling_journal.cc).
std::int64_t instant(weir::fuzz::Input& input) {
  switch (input.byte() % 4) {
    case 0:
      return kNow.ns - input.byte() * std::int64_t{60'000'000'000};
    case 1:
      return kNow.ns + input.byte() * std::int64_t{60'000'000'000};
    case 2:
      return weir::kInstantNsMax - input.byte();
    default:
      return static_cast<std::int64_t>(input.integer(8) >> 2);
  }
}
std::int64_t units(weir::fuzz::Input& input) {
  const std::uint8_t which = input.byte();
  if (which < 128) return which % 16 - 4;
  return which % 2 == 0 ? weir::kTermMax >> which % 63 : -(weir::kTermMax >> which % 63);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::Input input(data, size);
  const Options options{.secret = {}, .keys_max = kKeysMax, .reservations_max = 8};
  KeptJournal journal;
  Counters counters(make(), options);
  for (int i = 0; i < 64 && !input.is_empty() && input.byte() % 8 != 7; ++i) {
    const Record record{.key = {input.byte() % 4U + 1U, 0},
                        .parent = {input.byte() % 3U, 0},
                        .at = {instant(input)},
                        .parent_at = {instant(input)},
                        .units = units(input),
                        .reservation = input.byte()};
    const weir::Status restored = counters.restore(record, kNow);
    if (restored) continue;
    check(!restored.error().message.empty());
    return 0;
  }
  counters.set_journal(&journal);
  const Who who{.hotkey = "h", .revision = "r", .environment = "e", .id = 7};
  std::int64_t granted = 0;
  // What was reserved, and whether that has ended: an end may be said again, and changes nothing.
  struct Reserved {
    weir::HoldId id;
    bool has_ended = false;
  };
  std::vector<Reserved> reserved;
  Reserved nobodys{};
  const auto any_reserved = [&]() -> Reserved& {
    const std::uint8_t which = input.byte();
    if (which < 16 || reserved.empty()) {
      nobodys = {{which, which}, true};
      return nobodys;
    }
    return reserved[which % reserved.size()];
  };
  const auto note_end = [&](Reserved& ended, const weir::Result<GivenBack>& back) {
    if (!back || std::exchange(ended.has_ended, true)) return;
    granted -= back->units;
  };
  Instant now = kNow;
  while (!input.is_empty()) {
    switch (input.byte() % 4) {
      case 0: {
        const auto peeked = counters.peek(who, input.byte(), now);
        const auto grant = counters.grant(who, peeked.ok() ? peeked->wanted : 1, now);
        if (!grant) {
          check(!grant.error().message.empty());
          break;
        }
        check(!peeked.ok() || peeked->granted == grant->granted);
        check(grant->granted >= 0 && grant->granted <= grant->wanted);
        check(grant->granted == 0 || grant->count <= *grant->limit);
        granted += grant->granted;
        if (grant->reservation) reserved.push_back({grant->reservation});
        check(granted <= 4);  // of the parent, within one window
        break;
      }
      case 1: {
        Reserved& one = any_reserved();
        note_end(one, counters.release(one.id, now));
        break;
      }
      case 2: {
        Reserved& one = any_reserved();
        note_end(one, counters.commit(one.id, input.byte() % 4, now));
        break;
      }
      default:
        now = now + 1s * (input.byte() % 8);
        counters.sweep(now);
    }
    if (now >= kNow + 30min) break;
  }
  check(counters.reading().keys <= kKeysMax && counters.reading().reservations <= 8);
  // What was written is restored again.
  Counters again(make(), options);
  for (const Record& record : journal.records) {
    if (!again.restore(record, now)) break;
  }
  return 0;
}
