// The allocations, as a ledger writes and a worker reads them.

#include <fmt/format.h>

#include <iterator>
#include <unordered_set>

#include "weir/base/in_quotes.h"
#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/compute_json_parts.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {

namespace compute = system::compute;

void append_allocations_head(std::string& out, std::string_view worker, compute::Block block,
                             std::int64_t epoch, Duration epoch_time) {
  out += R"({"worker":)";
  append_quoted(out, worker);
  fmt::format_to(std::back_inserter(out),
                 R"(,"block":{},"epoch":{},"epoch_time_ns":{},"clusters":)", block, epoch,
                 epoch_time.count());
}

void append_cluster_name(std::string& out, std::string_view cluster) {
  out += R"({"cluster":)";
  append_quoted(out, cluster);
  out += R"(,"units":)";
}

void append_cluster_portals(std::string& out, const std::vector<std::string>& portals) {
  out += R"(,"portals":)";
  append_list(out, portals, [&](const std::string& portal) { append_quoted(out, portal); });
  out += '}';
}

void append_allocations_tail(std::string& out, compute::Fault fault,
                             std::span<const compute::LeftOut> broken) {
  out += R"(,"fault":)";
  append_quoted(out, fault == compute::Fault::kNone ? "" : to_string(fault));
  out += R"(,"broken":)";
  append_list(out, broken, [&](const compute::LeftOut& row) { append_left_out(out, row); });
  out += '}';
}

void append_allocations(std::string& out, const AllocationsDocument& document) {
  append_allocations_head(out, document.worker, document.block, document.set.epoch,
                          document.set.epoch_time);
  append_list(out, document.set.clusters, [&](const compute::ClusterAllocation& row) {
    append_cluster_name(out, row.cluster);
    append_int(out, row.units);
    append_cluster_portals(out, row.portals);
  });
  append_allocations_tail(out, document.fault, document.broken);
}

namespace {

constexpr Member<compute::ClusterAllocation> kAllocationMembers[] = {
    {"cluster",
     [](Reader& in, compute::ClusterAllocation& into) {
       return read_owned(in, "cluster", into.cluster);
     }},
    {"units",
     [](Reader& in, compute::ClusterAllocation& into) {
       return read_natural(in, "units", into.units);
     }},
    {"portals",
     [](Reader& in, compute::ClusterAllocation& into) {
       return in.list("portals",
                      [&] { return read_owned(in, "portals", into.portals.emplace_back()); });
     }},
};

// A fault that only a newer weir knows counts as `otherwise`; an empty one as none.
bool read_fault(Reader& in, compute::Fault otherwise, compute::Fault& fault) {
  std::string_view name;
  if (!in.text("fault", name)) return false;
  if (!name.empty()) fault = compute::fault_of(name).value_or(otherwise);
  return true;
}

constexpr Member<compute::LeftOut> kBrokenMembers[] = {
    {"cluster",
     [](Reader& in, compute::LeftOut& into) { return read_owned(in, "cluster", into.cluster); }},
    {"fault",
     [](Reader& in, compute::LeftOut& into) {
       return read_fault(in, compute::Fault::kStrategyFailed, into.fault);
     }},
};

constexpr Member<AllocationsDocument> kDocumentMembers[] = {
    {"worker",
     [](Reader& in, AllocationsDocument& into) { return read_owned(in, "worker", into.worker); }},
    {"block",
     [](Reader& in, AllocationsDocument& into) { return read_natural(in, "block", into.block); }},
    {"epoch", [](Reader& in,
                 AllocationsDocument& into) { return read_natural(in, "epoch", into.set.epoch); }},
    {"epoch_time_ns",
     [](Reader& in, AllocationsDocument& into) {
       std::int64_t time_ns = 0;
       if (!read_natural(in, "epoch_time_ns", time_ns)) return false;
       into.set.epoch_time = Duration{time_ns};
       return true;
     }},
    {"clusters",
     [](Reader& in, AllocationsDocument& into) {
       return in.list("clusters", [&] {
         return in.object<compute::ClusterAllocation>("a cluster", kAllocationMembers,
                                                      into.set.clusters.emplace_back());
       });
     }},
    {"fault",
     [](Reader& in, AllocationsDocument& into) {
       return read_fault(in, compute::Fault::kNotActive, into.fault);
     }},
    {"broken",
     [](Reader& in, AllocationsDocument& into) {
       return in.list("broken", [&] {
         return in.object<compute::LeftOut>("a broken cluster", kBrokenMembers,
                                            into.broken.emplace_back());
       });
     }},
};

Status check_unique(const compute::AllocationSet& set) {
  std::unordered_set<std::string_view> clusters;
  std::unordered_set<std::string_view> portals;
  const auto twice = [](std::string_view what, std::string_view name) {
    return bad_argument(
        fmt::format("the allocations: {} {} is there twice; write it once", what, in_quotes(name)));
  };
  for (const compute::ClusterAllocation& row : set.clusters) {
    if (!clusters.insert(row.cluster).second) return twice("cluster", row.cluster);
    for (const std::string& portal : row.portals) {
      if (!portals.insert(portal).second) return twice("portal", portal);
    }
  }
  return Done{};
}

}  // namespace

Result<AllocationsDocument> read_allocations(std::string_view text) {
  if (Status status = check_utf8("the allocations", text); !status) {
    return std::move(status).error();
  }
  AllocationsDocument into;
  Texts texts;
  Reader in(text, texts);
  if (!in.object<AllocationsDocument>("the allocations", kDocumentMembers, into) || !in.end()) {
    return in.error();
  }
  if (into.set.epoch_time.count() == 0 || into.set.epoch_time.count() > kTermMax) {
    return bad_argument(
        "the allocations: 'epoch_time_ns' is missing or out of range; write how long an epoch "
        "lasts, from 1 ns to 2^62 ns");
  }
  if (Status status = check_unique(into.set); !status) return std::move(status).error();
  return into;
}

}  // namespace weir::wire::http
