// Any bytes after the header: the reader neither crashes nor reads beyond them, and a
// decision it understood is the same after being written and read again.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "weir/server/recording.h"

namespace {

using namespace weir;
using namespace weir::server;

std::string written(const Recorded& recorded) {
  std::string out(kRecordingHeader);
  if (recorded.kind == Recorded::Kind::kDropped) {
    append_dropped(out, recorded.now, recorded.dropped);
    return out;
  }
  if (recorded.kind == Recorded::Kind::kAdHoc) {
    append_ad_hoc(out, {recorded.key, recorded.token_ns, recorded.burst, recorded.quantity},
                  recorded.now, recorded.verdict == Verdict::kAllowed);
    return out;
  }
  std::vector<engine::Attribute> attributes;
  for (const auto& [name, value] : recorded.attributes) attributes.push_back({name, value});
  std::vector<engine::Cost> costs;
  for (const auto& [unit, amount] : recorded.costs) costs.push_back({unit, amount});
  Decision decision;
  decision.verdict = recorded.verdict;
  decision.shortfall = recorded.shortfall;
  decision.earliest = recorded.earliest;
  decision.granted = recorded.granted;
  if (!recorded.limit.empty()) {
    decision.binding_index = 0;
    decision.outcome_count = 1;
    decision.outcome_rows[0].limit = recorded.limit;
  }
  append_decision(out,
                  {.request = {attributes, costs},
                   .hold = recorded.hold,
                   .up_to = recorded.up_to,
                   .book_within = recorded.book_within,
                   .wait_until = recorded.now + recorded.wait},
                  recorded.now, decision);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Status with_header = read_recording(bytes, [](const Recorded&) {});
  static_cast<void>(with_header.ok());
  const Status status =
      read_recording(std::string(kRecordingHeader) + std::string(bytes), [](const Recorded& line) {
        // A bucket is allowed or denied; other verdicts there are read but never written.
        if (line.kind == Recorded::Kind::kAdHoc && line.verdict != Verdict::kAllowed &&
            line.verdict != Verdict::kDenied) {
          return;
        }
        // A wait past the end of time is read, but an ask cannot say it.
        if (line.now + line.wait - line.now != line.wait) return;
        int seen = 0;
        const Status again = read_recording(written(line), [&](const Recorded& same) {
          if (!(same == line)) std::abort();
          seen += 1;
        });
        if (!again.ok() || seen != 1) std::abort();
      });
  static_cast<void>(status.ok());
  return 0;
}
