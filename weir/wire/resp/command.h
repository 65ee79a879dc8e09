// Command: one row for each command of the protocol.
//
// Dispatch, arity and role checks, COMMAND, help and docs/reference/resp.md are all
// made from these rows.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "weir/base/role.h"
#include "weir/wire/resp/session.h"

namespace weir::wire::resp {

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
};

std::span<const Command> commands() noexcept;

// The command of this name in any case, or nullptr.
const Command* find_command(std::string_view name) noexcept;

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

// pool.cc
std::size_t run_pool_acquire(Run& run);
bool pool_acquire_may_wait(Words arguments);
std::size_t run_pool_release(Run& run);
bool pool_release_may_wait(Words arguments);
std::size_t run_pool_renew(Run& run);
// A start or a refusal as a map; the absence of an answer as an error.
void write_job_answer(const system::pool::JobAnswer& answer, Instant now, ReplyWriter& reply);

// Whole milliseconds until `at`, rounded up; -1: unknown.
std::int64_t ms_until(Instant at, Instant now);
// A decision as a map. `now`: when it was asked for.
void write_decision(const Decision& decision, Instant now, bool with_grant, ReplyWriter& reply);
// An error of the engine, with its code as first word.
void write_error(const Error& error, ReplyWriter& reply);

}  // namespace internal
}  // namespace weir::wire::resp
