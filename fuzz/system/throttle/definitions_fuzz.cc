// Any bytes at all as a throttles.json. What the strict reader takes, the published one
// takes too if it names only the network's operations; an error names a place. Whatever
// is accepted can be judged, built and reported. Snapshots are read from the same bytes.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weir/system/throttle/read.h"
#include "weir/system/throttle/report.h"
#include "weir/system/throttle/snapshot.h"
#include "weir/system/throttle/throttle_set.h"
#include "weir/system/throttle/validate.h"

namespace {

namespace throttle = weir::system::throttle;

// `f:LINE:COLUMN: NAME: ...`
bool names_a_place(std::string_view message) {
  if (!message.starts_with("f:")) return false;
  message.remove_prefix(2);
  for (int number = 0; number < 2; ++number) {
    const std::size_t digits = message.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || message[digits] != ':') return false;
    message.remove_prefix(digits + 1);
  }
  return message.starts_with(' ') && message.find('\n') == std::string_view::npos;
}

void use(const throttle::Definitions& definitions) {
  for (const std::int32_t nodes : {1, 31}) {
    const throttle::Validation validation = validate_strictly(definitions, nodes);
    if (!validation.accepted() && !names_a_place(validation.message)) std::abort();
    if (to_text(throttle::report(definitions, nodes)).empty()) std::abort();
  }
  throttle::ThrottleSet set(definitions, {});
  throttle::Transaction transaction;
  for (std::size_t i = 0; i < set.operations().size(); ++i) {
    transaction.operation = static_cast<throttle::OperationId>(i);
    const auto peeked = set.peek(transaction, {1, 0});
    const auto decided = set.decide(transaction, {1, 0});
    if (!peeked.ok() || !decided.ok() || peeked->allowed != decided->allowed) std::abort();
  }
  for (const throttle::LiveBucket& live : set.buckets()) {
    if (live.bucket.used() < 0 || live.bucket.used() > live.bucket.capacity()) std::abort();
  }
  const auto again = throttle::parse_snapshot(to_json(snapshot_of(set, nullptr)));
  if (!again || !throttle::restore(*again, set, nullptr)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const throttle::Reader reader : {throttle::Reader::kStrict, throttle::Reader::kPublished}) {
    const auto definitions = throttle::read_definitions(text, "f", reader);
    if (definitions) {
      use(*definitions);
    } else if (!names_a_place(definitions.error().message)) {
      std::abort();
    }
  }
  const auto named = throttle::parse_snapshot(text);
  if (named && !throttle::parse_snapshot(to_json(*named))) std::abort();
  const auto positional = throttle::parse_positional_snapshot(text);
  if (positional && !throttle::parse_positional_snapshot(to_json(*positional))) std::abort();
  return 0;
}
