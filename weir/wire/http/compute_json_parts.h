// Parts of compute's JSON that ledger, allocations and worker share.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/system/compute/feed.h"
#include "weir/wire/http/read.h"

namespace weir::wire::http {

bool read_owned(Reader& in, const What& what, std::string& value);

void append_left_out(std::string& out, const system::compute::LeftOut& row);

// Allocations in pieces: the head, a list of clusters, the tail. Of a cluster what is before its
// units, and what is after them.
void append_allocations_head(std::string& out, std::string_view worker,
                             system::compute::Block block, std::int64_t epoch, Duration epoch_time);
void append_cluster_name(std::string& out, std::string_view cluster);
void append_cluster_portals(std::string& out, const std::vector<std::string>& portals);
void append_allocations_tail(std::string& out, system::compute::Fault fault,
                             std::span<const system::compute::LeftOut> broken);

}  // namespace weir::wire::http
