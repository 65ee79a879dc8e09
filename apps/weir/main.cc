// The command line: commands, options, wiring. Exit codes are in exit.h.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "apps/weir/ask.h"
#include "apps/weir/check.h"
#include "apps/weir/completion.h"
#include "apps/weir/compute.h"
#include "apps/weir/demo.h"
#include "apps/weir/exit.h"
#include "apps/weir/holds.h"
#include "apps/weir/keys.h"
#include "apps/weir/pool.h"
#include "apps/weir/pu.h"
#include "apps/weir/sampling.h"
#include "apps/weir/serve.h"
#include "apps/weir/sync.h"
#include "apps/weir/throttle.h"
#include "apps/weir/tour.h"
#include "apps/weir/version.h"
#include "weir/base/in_quotes.h"
#include "weir/system/pool/limits.h"

namespace weir::app {
namespace {

// What was given, and the exit code of the command that ran.
struct Given {
  std::string path = "weir.yaml";
  ServeOptions serve;
  AskOptions ask;
  HoldOptions hold;
  KeyOptions key;
  DemoOptions demo;
  SyncOptions sync;
  PoolOptions pool;
  std::string definitions;
  ReportFlags report{};
  std::string shell = "bash";
  bool json = false;
  int code = kExitOk;
};

CLI::App* add(CLI::App& app, const std::string& name, const std::string& does,
              const std::string& example) {
  CLI::App* command = app.add_subcommand(name, does);
  command->footer("Example:\n  " + example);
  return command;
}

void add_json(CLI::App* command, bool& json) {
  command->add_flag("--json", json, "Print one JSON object");
}

void add_log(CLI::App* command, LogOptions& log) {
  command->add_option("--log-format", log.format, "How the log is written, on stderr")
      ->check(CLI::IsMember({"logfmt", "json"}))
      ->capture_default_str();
  command->add_option("--log-level", log.level, "The least important lines that are written")
      ->check(CLI::IsMember({"info", "warning", "error"}))
      ->capture_default_str();
}

void add_server(CLI::App* command, ServerChoice& server) {
  command
      ->add_option("--server", server.address,
                   "Where the server listens: 127.0.0.1:6380, [::1]:6380 or unix:/path")
      ->type_name("ADDRESS")
      ->envname("WEIR_SERVER")
      ->capture_default_str();
  command->add_option("--token", server.token, "The token of a server that asks for one")
      ->type_name("TOKEN")
      ->envname("WEIR_TOKEN");
}

void add_local(CLI::App& app, Given& given) {
  CLI::App* serve = add(app, "serve", "Serve the limits of a configuration",
                        "weir serve examples/serve/weir.yaml");
  serve->add_option("config", given.serve.path, "The configuration")
      ->type_name("FILE")
      ->capture_default_str();
  serve->add_flag("--start-empty", given.serve.start_empty,
                  "Move a state file aside and begin with nothing used");
  add_log(serve, given.serve.log);
  serve->callback([&given] { given.code = run_serve(given.serve); });

  CLI::App* check = add(app, "check", "Show a configuration's mistakes, or its meaning",
                        "weir check examples/serve/weir.yaml");
  check->add_option("config", given.path, "The configuration")
      ->type_name("FILE")
      ->capture_default_str();
  add_json(check, given.json);
  check->callback([&given] { given.code = run_check(given.path, given.json); });

  add(app, "tour", "Show, in a few seconds of pretended time, what weir decides", "weir tour")
      ->callback([&given] { given.code = run_tour(); });

  CLI::App* version = add(app, "version", "Show which build this is", "weir version --json");
  add_json(version, given.json);
  version->callback([&given] { given.code = run_version(given.json); });

  CLI::App* completion =
      add(app, "completion", "Print a script that completes weir's commands in a shell",
          "source <(weir completion bash)");
  completion->add_option("shell", given.shell, "The shell")
      ->check(CLI::IsMember({"bash"}))
      ->required();
  completion->callback([&app, &given] {
    fmt::print("{}", bash_completion(app));
    given.code = kExitOk;
  });
}

void add_ask(CLI::App& app, Given& given) {
  AskOptions& ask = given.ask;
  CLI::App* command = add(app, "ask", "Ask a running server for one decision",
                          "weir ask client=acme operation=put --cost tokens=1200 --wait 5s");
  command->add_option("attributes", ask.attributes, "Who asks, for what")->type_name("NAME=VALUE");
  command->add_option("--cost", ask.costs, "What it costs; may be repeated")
      ->type_name("UNIT=AMOUNT")
      ->allow_extra_args(false);
  CLI::Option* peek =
      command->add_flag("--peek", ask.peek, "Say what would be decided, charging nothing");
  const auto add_duration = [&](const char* name, std::string& into, const char* does) {
    return command->add_option(name, into, does)->type_name("DURATION")->excludes(peek);
  };
  CLI::Option* wait = add_duration("--wait", ask.wait,
                                   "Wait up to this long for its turn, first come, first served");
  add_duration("--hold", ask.hold, "Keep a hold for this long, to settle, cancel or renew");
  add_duration("--book", ask.book, "Accept a start up to this far in the future")->excludes(wait);
  command->add_option("--up-to", ask.up_to, "Take as much of this unit's cost as there is")
      ->type_name("UNIT")
      ->excludes(peek)
      ->excludes(wait);
  add_server(command, ask.server);
  add_json(command, ask.json);
  command->callback([&given] { given.code = run_ask(given.ask); });
}

void add_holds(CLI::App& app, Given& given) {
  HoldOptions& hold = given.hold;
  const auto add_hold = [&](const char* name, const char* does, const char* example,
                            int (*run)(const HoldOptions&)) {
    CLI::App* command = add(app, name, does, example);
    command->add_option("hold", hold.hold, "The name that a decision gave it")
        ->required()
        ->type_name("HOLD");
    add_server(command, hold.server);
    add_json(command, hold.json);
    command->callback([&given, run] { given.code = run(given.hold); });
    return command;
  };
  add_hold("settle", "End a hold with what was really used",
           "weir settle 00c0ffee00c0ffee-42 tokens=800", run_settle)
      ->add_option("costs", hold.costs, "What was used; what is not named stays as charged")
      ->type_name("UNIT=AMOUNT");
  add_hold("cancel", "End a hold and give back what it was charged",
           "weir cancel 00c0ffee00c0ffee-42", run_cancel);
  add_hold("renew", "Let a hold last longer", "weir renew 00c0ffee00c0ffee-42 60s", run_renew)
      ->add_option("duration", hold.duration, "How long from now")
      ->required()
      ->type_name("DURATION");
}

void add_keys(CLI::App& app, Given& given) {
  KeyOptions& key = given.key;
  const auto add_key = [&](const char* name, const char* does, const char* example,
                           int (*run)(const KeyOptions&)) {
    CLI::App* command = add(app, name, does, example);
    command->add_option("limit", key.limit, "The limit's name")->required()->type_name("LIMIT");
    command->add_option("key", key.key, "The attributes of one key")->type_name("NAME=VALUE");
    add_server(command, key.server);
    add_json(command, key.json);
    command->callback([&given, run] { given.code = run(given.key); });
    return command;
  };
  add_key("inspect", "Show what one key of a limit has left, or its heaviest keys",
          "weir inspect per-client client=acme", run_inspect);
  add_key("reset", "Forget what one key of a limit has used", "weir reset per-client client=acme",
          run_reset)
      ->add_flag("--holds", key.holds, "End the holds of the key, too, as cancelled");
}

void add_demo(CLI::App& app, Given& given) {
  DemoOptions& demo = given.demo;
  CLI::App* command = add(app, "demo", "Send traffic to a running server, to have something to see",
                          "weir demo client=20 worker=4 --rate 200 --duration 1m");
  command
      ->add_option("attributes", demo.attributes,
                   "Attributes and how many different values of each to use")
      ->type_name("NAME=COUNT")
      ->capture_default_str();
  command->add_option("--cost", demo.costs, "What each request costs; may be repeated")
      ->type_name("UNIT=AMOUNT")
      ->allow_extra_args(false);
  command->add_option("--rate", demo.rate, "Requests a second")
      ->check(CLI::Range(std::int64_t{1}, kDemoRateMax))
      ->capture_default_str();
  command->add_option("--duration", demo.duration, "How long; ctrl-C ends it earlier")
      ->type_name("DURATION")
      ->capture_default_str();
  command->add_option("--waiters", demo.waiters, "Connections whose requests wait")
      ->check(CLI::Range(0, kDemoWaitersMax))
      ->capture_default_str();
  add_server(command, demo.server);
  add_json(command, demo.json);
  command->callback([&given] { given.code = run_demo(given.demo); });
}

void add_sync(CLI::App& app, Given& given) {
  SyncOptions& sync = given.sync;
  CLI::App* command = add(app, "sync", "Follow the service of one contract account",
                          "weir sync examples/follow/guard.yaml --to http://127.0.0.1:8081");
  command->add_option("config", sync.path, "The configuration")
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("--account", sync.account, "Which of its accounts, if several follow a service")
      ->type_name("NAME");
  command->add_flag("--once", sync.once, "Fetch once, show what is left, and end");
  command->add_option("--to", sync.to, "Tell a weir server over HTTP what the service says")
      ->type_name("URL");
  command->add_option("--token", sync.token, "A token of that server with the role admin")
      ->type_name("TOKEN")
      ->envname("WEIR_TOKEN");
  command->add_option("--save", sync.save, "Keep the contract in a file, for 'file' of an account")
      ->type_name("FILE");
  add_log(command, sync.log);
  add_json(command, sync.json);
  command->callback([&given] { given.code = run_sync(given.sync); });
}

void add_systems(CLI::App& app, Given& given) {
  CLI::App* pu = add(app, "pu", "Show what a request costs in processing units, exactly",
                     "weir pu --size 512x512 --bands B02,B03,B04");
  pu->callback([&given, run = add_pu_flags(*pu)] { given.code = run(); });

  CLI::App* pool = add(app, "pool", "Look at the pools of models that jobs share",
                       "weir pool slots examples/pool/one.yaml --instances 2");
  pool->require_subcommand(1);
  CLI::App* slots = add(*pool, "slots", "Show what each instance and job type may start",
                        "weir pool slots examples/pool/one.yaml --instances 2");
  slots->add_option("file", given.pool.path, "The configuration")
      ->type_name("FILE")
      ->capture_default_str();
  slots->add_option("--instances", given.pool.instances, "How many share the models")
      ->check(CLI::Range(std::int64_t{1}, system::pool::kInstancesMax))
      ->capture_default_str();
  slots->callback([&given] { given.code = run_pool_slots(given.pool); });

  CLI::App* sampling = add(app, "sampling", "Look at how fast tasks may be handed out",
                           "weir sampling allowance examples/sampling/weir.yaml");
  sampling->require_subcommand(1);
  CLI::App* allowance = add(*sampling, "allowance", "Show the allowance of every environment",
                            "weir sampling allowance examples/sampling/weir.yaml");
  allowance->add_option("file", given.definitions, "The configuration")
      ->required()
      ->type_name("FILE");
  allowance->callback([&given] { given.code = run_sampling_allowance(given.definitions); });
  CLI::App* compute = add(app, "compute", "Count units of locked tokens, and split them",
                          "weir compute units --amount 10000 --duration 180d");
  compute->require_subcommand(1);
  CLI::App* units = add(*compute, "units", "Show what a lock yields, exactly",
                        "weir compute units --amount 10000 --duration 180d");
  units->callback([&given, run = add_compute_units_flags(*units)] { given.code = run(); });
  CLI::App* allocate = add(*compute, "allocate", "Show what each worker gets of it",
                           "weir compute allocate --amount 10000 --duration 180d --workers 3");
  allocate->callback([&given, run = add_compute_allocate_flags(*allocate)] { given.code = run(); });

  CLI::App* throttle = add(app, "throttle", "Look at the throttle definitions of a network",
                           "weir throttle report examples/throttles.json --nodes 10");
  throttle->require_subcommand(1);
  CLI::App* report = add(*throttle, "report", "Show what a throttles.json means for a network",
                         "weir throttle report examples/throttles.json --nodes 1-31");
  report->add_option("file", given.definitions, "The definitions")->required()->type_name("FILE");
  report->add_option("--nodes", given.report.nodes, "The network's size, or a range such as 1-31")
      ->capture_default_str();
  report
      ->add_option("--local-calls", given.report.local_calls,
                   "What limits ContractCallLocal: buckets, or gas as in the network's code")
      ->check(CLI::IsMember({"buckets", "gas"}))
      ->capture_default_str();
  CLI::Option* const mix = report->add_option(
      "--mix", given.report.mix,
      "Whether a mix fits: OPERATION=RATE,…, a second, or in % of what each may do alone");
  report
      ->add_option("--against", given.report.against, "Show what would be different with this file")
      ->type_name("FILE")
      ->excludes(mix);
  report->callback([&given] { given.code = run_throttle_report(given.definitions, given.report); });
}

int run(int argc, char** argv) {
  CLI::App app{"weir: may this piece of work start now, and if not, when?", "weir"};
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done or allowed, 1 failed, 2 wrong usage, 3 denied for now, 4 never,\n"
      "5 the server cannot be reached or does not let you in.");
  Given given;
  add_local(app, given);
  add_ask(app, given);
  add_holds(app, given);
  add_keys(app, given);
  add_demo(app, given);
  add_sync(app, given);
  add_systems(app, given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& mistake) {
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) {
      fmt::print(stderr, "weir: {} is not a command; `weir --help` lists them\n",
                 in_quotes(argv[1]));
      return kExitUsage;
    }
    return app.exit(mistake) == 0 ? kExitOk : kExitUsage;
  }
  return given.code;
}

// The exit code of a command that ended with `code`: what it printed must have arrived, or a full
// disk would pass for an answer.
int printed(int code) {
  const bool had_failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !had_failed) return code;
  fmt::print(stderr, "weir: what it printed could not be written ({}); see where its output goes\n",
             had_failed ? "an error while writing" : std::strerror(errno));
  return kExitFailed;
}

}  // namespace
}  // namespace weir::app

int main(int argc, char** argv) {
  using namespace weir::app;
  try {
    return printed(run(argc, argv));
  } catch (const std::system_error&) {
    return printed(kExitFailed);  // of writing, which printed() tells
  }
}
