// Command: one row for each command of the protocol.
//
// One table has what the engine, the server and the connection are told (command.cc). A system may
// have one beside its handlers, such as pool_commands.h; the server gives the Service those of its
// systems. Dispatch, arity and role checks, COMMAND, help and docs/reference/resp.md are all made
// from these rows.
//
// Thread safety: immutable.

#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/role.h"
#include "weir/wire/resp/session.h"

namespace weir::wire::resp {

namespace internal {
void write_error(const Error& error, ReplyWriter& reply);  // decisions.cc
}

// A group of neighbours of one kind, while it is run.
struct Run {
  Session& session;
  ReplyWriter& reply;
  Instant now;
  Scratch& scratch;
  std::span<const Scratch::Item> group;

  // The words of the group's i-th command after its name.
  Words arguments(std::size_t i) const noexcept {
    return Words(scratch.words).subspan(group[i].first_word + 1, group[i].word_count - 1);
  }

  // Whether the client's token reaches what is asked: a request, a key, or who asks. False: the
  // error is written.
  template <typename... Asked>
  bool reaches(const Asked&... asked) {
    if (session.reach() == nullptr) [[likely]]
      return true;
    const Status status = session.reach()->covers(asked...);
    if (!status) internal::write_error(status.error(), reply);
    return status.ok();
  }

  // What the handlers of a system speak to. Requires that the command is one of a
  // SystemCommands<Part>.
  template <typename Part>
  Part in_force() const;
};

struct Command {
  std::string_view name;
  int words_min;  // the name included
  int words_max;  // -1: any number
  Role role;
  bool takes_groups;  // false: is given one command at a time
  // Returns how many commands of the group are done with: fewer than all if one waits.
  std::size_t (*run)(Run& run);
  std::string_view usage;  // what follows the name
  std::string_view summary;
  bool is_queued = true;  // between MULTI and EXEC; false: it is run at once there, too
  // Whether a command of these arguments may wait, which MULTI refuses; nullptr: none does.
  bool (*may_wait)(Words arguments) = nullptr;
  WhenBound when_bound = WhenBound::kRefuses;
};

// A table of commands. It outlives the sessions whose Service names it.
class CommandTable {
 public:
  explicit CommandTable(std::span<const Command> rows) noexcept : rows_(rows) {}
  virtual ~CommandTable() = default;

  std::span<const Command> rows() const noexcept { return rows_; }

 private:
  const std::span<const Command> rows_;
};

// The table of a system. Its handlers speak to what is in force there when they are called: a
// `Part`, of which a handler gets one by Run::in_force<Part>().
template <typename Part>
class SystemCommands final : public CommandTable {
 public:
  using InForce = std::function<Part()>;

  SystemCommands(std::span<const Command> rows, InForce in_force)
      : CommandTable(rows), in_force_(std::move(in_force)) {}

  Part in_force() const { return in_force_(); }

 private:
  const InForce in_force_;
};

// What the engine, the server and the connection are told.
std::span<const Command> engine_commands() noexcept;

// Those and the systems', in this order.
std::vector<const Command*> commands_of(const Service& service);
// The command of this name in any case, or nullptr.
const Command* find_command(const Service& service, std::string_view name) noexcept;
// The system's table that has this row. Requires that there is one.
const CommandTable& table_of(const Service& service, const Command& command) noexcept;

template <typename Part>
Part Run::in_force() const {
  const CommandTable& table = table_of(session.service(), *group[0].command);
  return static_cast<const SystemCommands<Part>&>(table).in_force();
}

// --- the handlers, by subject
namespace internal {

// connection.cc
std::size_t run_ping(Run& run);
std::size_t run_echo(Run& run);
std::size_t run_hello(Run& run);
std::size_t run_auth(Run& run);
std::size_t run_client(Run& run);
std::size_t run_select(Run& run);
std::size_t run_quit(Run& run);
std::size_t run_reset_connection(Run& run);
std::size_t run_command(Run& run);
std::size_t run_config(Run& run);
std::size_t run_info(Run& run);

// transaction.cc
std::size_t run_multi(Run& run);
std::size_t run_exec(Run& run);
std::size_t run_discard(Run& run);
std::size_t run_watch(Run& run);
std::size_t run_unwatch(Run& run);

// decisions.cc
std::size_t run_throttle(Run& run);
std::size_t run_acquire(Run& run);
bool acquire_may_wait(Words arguments);
std::size_t run_peek(Run& run);
std::size_t run_settle(Run& run);
std::size_t run_cancel(Run& run);
std::size_t run_renew(Run& run);
std::size_t run_inspect(Run& run);
std::size_t run_heaviest(Run& run);
std::size_t run_reset(Run& run);
std::size_t run_reload(Run& run);
bool reload_may_wait(Words arguments);

// Whole milliseconds until `at`, rounded up; -1: unknown.
std::int64_t ms_until(Instant at, Instant now);
// A decision as a map. `now`: when it was asked for.
void write_decision(const Decision& decision, Instant now, bool with_grant, ReplyWriter& reply);
// An error of the engine, with its code as first word.

}  // namespace internal
}  // namespace weir::wire::resp
