#include "weir/base/assert.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace weir {
namespace {

void report(const AssertSite& site) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", site.file, site.line, site.condition);
}

std::atomic<AssertHandler> current_handler{&report};

}  // namespace

AssertHandler set_assert_handler(AssertHandler handler) noexcept {
  return current_handler.exchange(handler == nullptr ? &report : handler);
}

void assertion_failed(const AssertSite& site) noexcept {
  current_handler.load()(site);
  std::abort();
}

}  // namespace weir
