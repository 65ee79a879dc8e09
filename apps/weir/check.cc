#include "apps/weir/check.h"

#include <fmt/format.h>

#include "apps/weir/exit.h"
#include "weir/config/config.h"

namespace weir::app {

int run_check(const std::string& path) {
  const Result<config::Config> config = config::load(path);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().message);
    return kExitFailed;
  }
  for (const std::string& warning : config->warnings) {
    fmt::print(stderr, "{}\n", warning);
  }
  fmt::print("{}", config::describe(*config));
  return kExitOk;
}

}  // namespace weir::app
