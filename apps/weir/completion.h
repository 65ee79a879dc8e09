// `weir completion bash`: a script for bash, made from the commands and options
// themselves, so that it cannot fall behind them.

#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weir::app {

// The script, to be read with `source`. It needs nothing but bash.
std::string bash_completion(const CLI::App& app);

}  // namespace weir::app
