#include "weir/wire/http/allocation_desk.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "weir/engine/print.h"
#include "weir/wire/http/compute_json_parts.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {

namespace compute = system::compute;

// Of each row two pieces, one after the other, with the units between them.
struct AllocationDesk::Text {
  struct Ends {
    std::size_t name;     // of the piece before the units
    std::size_t portals;  // of the piece after them
  };

  std::shared_ptr<const compute::Snapshot> snapshot;
  std::string pieces;
  std::vector<Ends> ends;
};

AllocationDesk::AllocationDesk(std::shared_ptr<compute::LedgerService> ledger)
    : snapshots_(std::move(ledger)), process_(fmt::format("{:x}", engine::random_secret()[0])) {}

std::shared_ptr<const AllocationDesk::Text> AllocationDesk::text_of(
    std::shared_ptr<const compute::Snapshot> snapshot) {
  const std::scoped_lock lock(lock_);
  if (last_ != nullptr && last_->snapshot->number() == snapshot->number()) return last_;
  auto text = std::make_shared<Text>();
  text->ends.reserve(snapshot->rows().size());
  for (const compute::SnapshotRow& row : snapshot->rows()) {
    append_cluster_name(text->pieces, row.cluster);
    const std::size_t name = text->pieces.size();
    append_cluster_portals(text->pieces, row.portals);
    text->ends.push_back({name, text->pieces.size()});
  }
  text->snapshot = std::move(snapshot);
  last_ = text;
  return text;
}

AllocationDesk::Said AllocationDesk::ask(std::string_view worker, std::string_view known_tags,
                                         std::int64_t known_epoch, Instant now) {
  Said said;
  const compute::SnapshotDesk::Said found = snapshots_.at(now, worker, known_epoch);
  if (found.snapshot == nullptr) {
    said.is_known = true;
    return said;
  }
  said.tag = fmt::format(R"("{}-{}")", process_, found.snapshot->number());
  if (names_tag(known_tags, said.tag)) {
    said.is_known = true;
    return said;
  }
  const std::shared_ptr<const Text> text = text_of(found.snapshot);
  const compute::Snapshot& snapshot = *text->snapshot;
  const compute::Allocations allocations = snapshot.allocations(found.worker);
  constexpr std::size_t kUnitsBytes = 20;  // and a comma
  std::string& out = said.body;
  out.reserve(text->pieces.size() + snapshot.rows().size() * kUnitsBytes + 1'024);
  append_allocations_head(out, worker, found.block, snapshot.epoch(), snapshot.epoch_time());
  out += '[';
  for (const compute::Allocation& row : allocations.rows) {
    if (out.back() != '[') out += ',';
    const Text::Ends& ends = text->ends[row.cluster];
    const std::size_t begin = row.cluster == 0 ? 0 : text->ends[row.cluster - 1].portals;
    out.append(text->pieces, begin, ends.name - begin);
    append_int(out, row.units);
    out.append(text->pieces, ends.name, ends.portals - ends.name);
  }
  out += ']';
  std::vector<compute::LeftOut> broken;
  for (const compute::BrokenCluster& row : allocations.broken) {
    broken.push_back({snapshot.rows()[row.cluster].cluster, row.fault});
  }
  append_allocations_tail(out, allocations.fault, broken);
  return said;
}

bool names_tag(std::string_view list, std::string_view tag) noexcept {
  if (list == "*") return true;
  // A tag has no quotes inside its own, so that it cannot be a part of another.
  return list.find(tag) != std::string_view::npos;
}

}  // namespace weir::wire::http
