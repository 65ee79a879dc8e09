#include "weir/wire/resp/command.h"

#include <algorithm>
#include <array>

#include "weir/base/assert.h"

namespace weir::wire::resp {
namespace {

using namespace internal;

constexpr bool kOneByOne = false;
constexpr bool kGroups = true;
constexpr bool kQueued = true;
constexpr bool kAtOnce = false;

// The busiest first: they are looked up in this order.
constexpr std::array kCommands = {
    checks_when_bound(Command{
        "WEIR.ACQUIRE", 1, -1, Role::kDecide, kGroups, run_acquire,
        "[name=value ...] [COST unit=amount ...] [HOLD duration] [WAIT duration] [UPTO unit] "
        "[BOOK duration]",
        "Decide over all limits that apply, and charge all or none.", kQueued, acquire_may_wait}),
    // Says itself, in redis-cell's words, how many arguments it takes.
    checks_when_bound(Command{"CL.THROTTLE", 1, -1, Role::kDecide, kGroups, run_throttle,
                              "key max_burst count period [quantity]",
                              "Take from the key's bucket, as redis-cell does."}),
    checks_when_bound(Command{"WEIR.PEEK", 1, -1, Role::kObserve, kOneByOne, run_peek,
                              "[name=value ...] [COST unit=amount ...]",
                              "Say what WEIR.ACQUIRE would, charging nothing."}),
    answers_when_bound(Command{"WEIR.SETTLE", 2, -1, Role::kDecide, kOneByOne, run_settle,
                               "hold [unit=amount ...]", "End a hold with what was really used."}),
    answers_when_bound(Command{"WEIR.CANCEL", 2, 2, Role::kDecide, kOneByOne, run_cancel, "hold",
                               "End a hold and give back what it was charged."}),
    answers_when_bound(Command{"WEIR.RENEW", 3, 3, Role::kDecide, kOneByOne, run_renew,
                               "hold duration", "Let a hold last this long from now."}),
    checks_when_bound(Command{"WEIR.INSPECT", 2, -1, Role::kObserve, kOneByOne, run_inspect,
                              "limit [name=value ...]", "Show what one key of a limit has left."}),
    Command{"WEIR.HEAVIEST", 2, 3, Role::kObserve, kOneByOne, run_heaviest, "limit [count]",
            "Show the keys that asked most of a limit."},
    Command{"WEIR.RESET", 2, -1, Role::kAdmin, kOneByOne, run_reset,
            "limit [name=value ...] [HOLDS]", "Forget what one key of a limit has used."},
    Command{"WEIR.RELOAD", 1, 1, Role::kAdmin, kOneByOne, run_reload, "",
            "Read the configuration again.", kQueued, reload_may_wait},
    answers_when_bound(
        Command{"PING", 1, 2, Role::kObserve, kOneByOne, run_ping, "[message]", "Answer PONG."}),
    answers_when_bound(Command{"ECHO", 2, 2, Role::kObserve, kOneByOne, run_echo, "message",
                               "Answer the message."}),
    answers_when_bound(Command{"HELLO", 1, -1, Role::kNobody, kOneByOne, run_hello,
                               "[2|3 [AUTH user token] [SETNAME name]]",
                               "Choose the version of the protocol."}),
    answers_when_bound(Command{"AUTH", 2, 3, Role::kNobody, kOneByOne, run_auth, "[user] token",
                               "Present a token."}),
    answers_when_bound(Command{"CLIENT", 2, -1, Role::kNobody, kOneByOne, run_client,
                               "ID|GETNAME|SETNAME name|SETINFO name value",
                               "About this connection."}),
    answers_when_bound(Command{"SELECT", 2, 2, Role::kObserve, kOneByOne, run_select, "0",
                               "There is one database."}),
    answers_when_bound(Command{"COMMAND", 1, -1, Role::kNobody, kOneByOne, run_command,
                               "[COUNT|DOCS|INFO|LIST ...]", "List the commands."}),
    answers_when_bound(Command{"CONFIG", 2, -1, Role::kObserve, kOneByOne, run_config,
                               "GET pattern", "Almost nothing: for clients that ask."}),
    answers_when_bound(Command{"INFO", 1, -1, Role::kObserve, kOneByOne, run_info, "[section ...]",
                               "Show what the server is doing."}),
    answers_when_bound(Command{"RESET", 1, 1, Role::kNobody, kOneByOne, run_reset_connection, "",
                               "Bring the connection back to how it began.", kAtOnce}),
    answers_when_bound(Command{"QUIT", 1, -1, Role::kNobody, kOneByOne, run_quit, "",
                               "Close the connection.", kAtOnce}),
    answers_when_bound(Command{"MULTI", 1, 1, Role::kObserve, kOneByOne, run_multi, "",
                               "Keep the commands that follow until EXEC.", kAtOnce}),
    answers_when_bound(Command{"EXEC", 1, 1, Role::kObserve, kOneByOne, run_exec, "",
                               "Run the commands since MULTI in order, at one instant.", kAtOnce}),
    answers_when_bound(Command{"DISCARD", 1, 1, Role::kObserve, kOneByOne, run_discard, "",
                               "Forget the commands since MULTI.", kAtOnce}),
    answers_when_bound(Command{"WATCH", 2, -1, Role::kObserve, kOneByOne, run_watch, "key ...",
                               "An error: there are no keys to watch.", kAtOnce}),
    answers_when_bound(Command{"UNWATCH", 1, 1, Role::kObserve, kOneByOne, run_unwatch, "",
                               "Answer OK: nothing is watched."}),
};

}  // namespace

std::span<const Command> engine_commands() noexcept { return kCommands; }

std::vector<const Command*> commands_of(const Service& service) {
  std::vector<const Command*> all;
  for (const Command& command : kCommands) all.push_back(&command);
  for (const CommandTable* const table : service.systems) {
    for (const Command& command : table->rows()) all.push_back(&command);
  }
  return all;
}

const Command* find_command(const Service& service, std::string_view name) noexcept {
  const auto is_named = [&](const Command& command) { return is_word(name, command.name); };
  const auto found = std::find_if(kCommands.begin(), kCommands.end(), is_named);
  if (found != kCommands.end()) return &*found;
  for (const CommandTable* const table : service.systems) {
    const std::span<const Command> rows = table->rows();
    const auto of_system = std::find_if(rows.begin(), rows.end(), is_named);
    if (of_system != rows.end()) return &*of_system;
  }
  return nullptr;
}

const CommandTable& table_of(const Service& service, const Command& command) noexcept {
  const auto found = std::find_if(
      service.systems.begin(), service.systems.end(), [&](const CommandTable* const table) {
        const std::span<const Command> rows = table->rows();
        return std::any_of(rows.begin(), rows.end(),
                           [&](const Command& row) { return &row == &command; });
      });
  WEIR_ASSERT(found != service.systems.end());
  return **found;
}

}  // namespace weir::wire::resp
