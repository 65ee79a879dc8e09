// Planning: what an operation would do to a ledger, or why it cannot be made.
//
// Every operation is checked in the published order: the first check that fails names the
// fault. A plan holds for the ledger as it was read, until that changes; Ledger::commit()
// carries it out.
//
// Thread safety: every function is pure. The caller keeps the ledger from changing.

#pragma once

#include "weir/system/compute/ledger.h"

namespace weir::system::compute {

// Of an operation that a caller asks for now. It is also checked against what this process has,
// such as its strategies.
Plan plan_new(const Ledger& ledger, Block block, const Operation& operation);

// Of one that a history has: a process with other strategies, or an older weir that let more
// pass, may have made it.
Plan plan_made(const Ledger& ledger, Block block, const Operation& operation);

}  // namespace weir::system::compute
