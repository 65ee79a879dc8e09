// The command line: flags, wiring, exit codes.
//
// Exit codes: 0 done, 1 something failed, 2 wrong usage.

#include <CLI/CLI.hpp>
#include <string>

#include "apps/weir/demo.h"
#include "apps/weir/serve.h"
#include "apps/weir/throttle.h"

int main(int argc, char** argv) {
  CLI::App app{"weir: may this piece of work start now, and if not, when?", "weir"};
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  std::string path = "weir.yaml";
  CLI::App* serve = app.add_subcommand("serve", "Serve the limits of a configuration");
  serve->add_option("config", path, "The configuration")->capture_default_str();
  CLI::App* check = app.add_subcommand("check", "Show a configuration's mistakes, or its meaning");
  check->add_option("config", path, "The configuration")->capture_default_str();
  const CLI::App* demo =
      app.add_subcommand("demo", "Show, in a few seconds of pretended time, what weir decides");
  std::string definitions;
  std::string nodes = "1";
  CLI::App* throttle = app.add_subcommand("throttle", "Throttle definitions of a network");
  throttle->require_subcommand(1);
  CLI::App* report =
      throttle->add_subcommand("report", "Show what a throttles.json means for a network");
  report->add_option("file", definitions, "The definitions")->required();
  report->add_option("--nodes", nodes, "The network's size, or a range such as 1-31")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 2;
  }
  if (serve->parsed()) return weir::app::run_serve(path);
  if (check->parsed()) return weir::app::run_check(path);
  if (demo->parsed()) return weir::app::run_demo();
  if (report->parsed()) return weir::app::run_throttle_report(definitions, nodes);
  return 2;
}
