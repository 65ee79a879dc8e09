#include "apps/weir/version.h"

#include <fmt/format.h>

#include "apps/weir/exit.h"

namespace weir::app {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

}  // namespace

int run_version(bool json) {
  if (json) {
    fmt::print(R"({{"version":"{}","compiler":"{}","build":"{}"}})"
               "\n",
               WEIR_VERSION, kCompiler, WEIR_BUILD_TYPE);
  } else {
    fmt::print("weir {} ({}, {})\n", WEIR_VERSION, WEIR_BUILD_TYPE, kCompiler);
  }
  return kExitOk;
}

}  // namespace weir::app
