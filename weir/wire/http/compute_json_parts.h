// Parts of compute's JSON that ledger, allocations and worker share.

#pragma once

#include <cstdint>
#include <string>

#include "weir/system/compute/feed.h"
#include "weir/wire/http/read.h"

namespace weir::wire::http {

bool read_owned(Reader& in, const What& what, std::string& value);

void append_left_out(std::string& out, const system::compute::LeftOut& row);

}  // namespace weir::wire::http
