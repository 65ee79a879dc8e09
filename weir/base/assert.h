// Assertions: a caller's bug, never bad input.
//
// WEIR_ASSERT stays on in every build. A failed assertion goes to one handler,
// which an embedder may replace; the default reports to standard error and
// aborts. If a replaced handler returns, the process aborts all the same,
// because the code after a failed assertion has no meaning.
//
// Thread safety: set_assert_handler may be called from any thread.

#pragma once

#include "weir/base/export.h"

namespace weir {

struct AssertSite {
  const char* condition;
  const char* file;
  int line;
};

using AssertHandler = void (*)(const AssertSite&);

// Installs `handler` (nullptr restores the default) and returns the former one.
WEIR_EXPORT AssertHandler set_assert_handler(AssertHandler handler) noexcept;

[[noreturn]] WEIR_EXPORT void assertion_failed(const AssertSite& site) noexcept;

}  // namespace weir

#define WEIR_ASSERT(condition)  \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::weir::assertion_failed(::weir::AssertSite{#condition, __FILE__, __LINE__}))
