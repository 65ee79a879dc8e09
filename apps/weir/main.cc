// The command line: flags, wiring, exit codes.
//
// Exit codes: 0 done, 1 something failed, 2 wrong usage.

#include <CLI/CLI.hpp>

#include "apps/weir/demo.h"

int main(int argc, char** argv) {
  CLI::App app{"weir: may this piece of work start now, and if not, when?", "weir"};
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  const CLI::App* demo =
      app.add_subcommand("demo", "Show, in a few seconds of pretended time, what weir decides");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 2;
  }
  if (demo->parsed()) return weir::app::run_demo();
  return 2;
}
