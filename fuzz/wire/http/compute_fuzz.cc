// Any bytes at all as an operation of the ledger, tokens, allocations, or the body of a
// query. What is read can be written and is read back the same; whatever it says, the
// ledger keeps within its supply and a worker within its bounds.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weir/system/compute/ledger.h"
#include "weir/system/compute/worker.h"
#include "weir/wire/http/compute_json.h"

namespace {

namespace compute = weir::system::compute;
namespace http = weir::wire::http;
using weir::Instant;

constexpr Instant kStart{1'800'000'000'000'000'000};

void require(bool holds) {
  if (!holds) std::abort();
}

void check_operation(std::string_view text) {
  const auto operation = compute::parse_operation("fuzz", text);
  if (!operation) return require(operation.error().message.starts_with("fuzz: "));
  const auto again = compute::parse_operation("fuzz", operation_text(*operation));
  require(again.ok() && *again == *operation);
  compute::Ledger ledger = std::move(*compute::Ledger::create({}));
  static_cast<void>(ledger.apply(0, {.op = compute::Op::kJoin, .name = "w"}));
  for (const compute::Block block : {0, 100, 150, 20'000'000}) {
    const compute::Applied applied = ledger.apply(block, *operation);
    require(applied.ok() == applied.detail.empty());
    require(ledger.locked() <= ledger.parameters().supply);
    require(ledger.allocations(1, block).rows.size() <= ledger.clusters().size());
  }
}

void check_allocations(std::string_view text) {
  const auto document = http::read_allocations(text);
  if (!document) return;
  std::string written;
  append_allocations(written, *document);
  const auto again = http::read_allocations(written);
  require(again.ok() && again->set == document->set);
  compute::Worker worker({});
  worker.apply(document->set, kStart);
  for (const compute::ClusterReading& row : worker.clusters(Instant{kStart.ns + 1'000'000})) {
    require(row.tokens_micro >= 0 && row.tokens_micro <= row.burst_micro);
  }
}

void check_bodies(std::string_view text) {
  http::Texts texts;
  if (const auto query = http::read_query(text, texts); query.ok()) {
    require(query->cost_micro >= 0 && query->cost_micro <= weir::kMicro);
  }
  if (const auto end = http::read_query_end(text, texts); end.ok()) require(bool(end->query));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_operation(text);
  check_allocations(text);
  check_bodies(text);
  if (const auto amount = compute::parse_tokens("it", text); amount.ok()) {
    const auto again = compute::parse_tokens("it", compute::tokens_text(*amount));
    require(again.ok() && *again == *amount);
  }
  return 0;
}
