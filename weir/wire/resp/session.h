// Session: the commands of one connection, from bytes to replies.
//
// A session is fed what was read and appends its replies to a buffer. Commands that
// arrive together are run together: neighbours of the same kind become one batch of
// the engine, and all replies leave in one write.
//
//   bytes ─► Parser ─► commands ─► groups of neighbours ─► engine ─► replies
//
// A command that waits blocks the later ones of its own connection, as in Redis:
// run() stops there, and resume() goes on once the answer has come. A group of commands of
// which some are decided elsewhere does the same, once: its replies go out together, in
// order, when the last of them has been delivered.
//
// Thread safety: none. A session belongs to one event loop.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/role.h"
#include "weir/base/time.h"
#include "weir/engine/decision_sink.h"
#include "weir/engine/engine.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/wire/resp/parser.h"
#include "weir/wire/resp/reply.h"
#include "weir/wire/resp/throttle.h"
#include "weir/wire/resp/words.h"

namespace weir::wire::resp {

struct Command;

// What the server gives to all sessions.
class Host {
 public:
  virtual ~Host() = default;

  // The role of a token; kNobody if there is no such token.
  // An empty one: the role of who has presented none.
  virtual Role role_of(std::string_view token) const = 0;
  // Changes whenever roles may have. Never 0.
  virtual std::uint64_t token_epoch() const noexcept = 0;
  // Reads the configuration again.
  virtual Status reload() = 0;
  // The text of INFO.
  virtual std::string info() const = 0;
};

struct Service {
  engine::Engine* engine = nullptr;
  Host* host = nullptr;
  Seconds rounding = Seconds::kCell;
  ParserBounds bounds{};
  std::size_t reply_bytes_max = std::size_t{1} << 20;  // unsent; beyond, commands wait
  engine::DecisionSink* sink = nullptr;                // none: decisions are not recorded
  system::pool::HeldJobs* pool = nullptr;              // nullptr: none are configured
};

// What one event loop lends to the session it is running.
struct Scratch {
  struct Item {
    const Command* command;  // nullptr: unknown
    std::size_t first_word;
    std::size_t word_count;
    std::size_t end;  // in the bytes
  };

  std::vector<std::string_view> words;
  std::vector<Item> items;
  AskPool asks;
  std::vector<Ask> group;
  std::vector<engine::Request> requests;
  std::vector<Result<Decision>> answers;
  std::vector<Result<ThrottleCall>> throttles;
  std::vector<engine::AdHocKey> keys;
  std::size_t commands = 0;  // run since the server last set it to 0
};

// Writes the reply to a command that was answered later.
using WriteLate = std::function<void(Instant now, Reply& reply)>;
// Brings such a reply to its session, from any thread: its place, and the hold to be given
// up if the client has left.
using Deliver = std::function<void(std::size_t place, WriteLate write, HoldId hold)>;

class Session {
 public:
  // Starts a wait whose answer will come through resume().
  using Waiter = std::function<Result<engine::WaitStart>(const engine::Request&,
                                                         const engine::WaitOptions&, Instant)>;

  // Makes what is called with the answer to a job that waits, which is to come through
  // resume_job().
  using JobWaiter = std::function<system::pool::JobAnswered()>;

  // `make_deliver`: called on the loop; what it makes may outlive the session.
  Session(const Service& service, std::uint64_t id, Waiter waiter,
          std::function<Deliver()> make_deliver = {}, JobWaiter job_waiter = {});

  // Runs the whole commands in `bytes`, all at one instant, and appends their replies
  // to `out`. Returns how many bytes are done with; the rest must be presented again,
  // with more behind them. Stops early once is_full(out): later replies wait.
  std::size_t run(std::string_view bytes, Instant now, Scratch& scratch, std::string& out);

  // Replies to the command that was waiting. Call run() with the rest afterwards.
  void resume(const Result<Decision>& answer, Instant now, std::string& out);

  // What Deliver was given for `place`. True: it was the last of its group, and all their
  // replies are in `out`. Call run() with the rest afterwards.
  bool deliver(std::size_t place, const WriteLate& write, Instant now, std::string& out);

  // The same for a job of the pools.
  void resume_job(const system::pool::JobAnswer& answer, Instant now, std::string& out);
  void resume_job(const Error& error, std::string& out);

  bool is_waiting() const noexcept { return waiting_ || late_.missing > 0; }
  std::uint64_t ticket() const noexcept { return ticket_; }
  std::uint64_t job_ticket() const noexcept { return job_ticket_; }  // 0: no job waits
  // The connection is to be closed once its replies are sent.
  bool is_closing() const noexcept { return closing_; }
  bool is_full(const std::string& out) const noexcept {
    return out.size() >= service_->reply_bytes_max;
  }

  // --- for commands
  const Service& service() const noexcept { return *service_; }
  std::uint64_t id() const noexcept { return id_; }
  Role role() const noexcept { return role_; }
  std::int8_t version() const noexcept { return version_; }
  const std::string& name() const noexcept { return name_; }
  // Who the connection is, from now on and after every change of the tokens.
  void set_token(std::string_view token);
  void set_version(std::int8_t version) noexcept { version_ = version; }
  void set_name(std::string_view name) { name_ = name; }
  void start_over();  // as the connection began
  void close() noexcept { closing_ = true; }
  // The next reply comes later: its place, for Deliver.
  std::size_t defer(const Reply& reply);
  Deliver deliver() const { return make_deliver_(); }
  // Decides, or waits: then is_waiting() holds, and resume() will reply.
  Result<Decision> wait(const engine::Request& request, const engine::WaitOptions& options,
                        Instant now);
  // What to ask the pools with, and what to do when they let wait.
  system::pool::JobAnswered job_waiter() const { return job_waiter_(); }
  void wait_for_job(std::uint64_t ticket) noexcept {
    job_ticket_ = ticket;
    waiting_ = true;
  }

 private:
  // Replies that come later, and those written after the first of them.
  struct Late {
    std::size_t missing = 0;
    std::vector<std::size_t> offsets;  // where they belong, in the buffer and then in `held`
    std::vector<std::string> replies;
    std::string held;

    // Keeps the memory for one.
    void clear() noexcept {
      missing = 0;
      offsets.clear();
      replies.clear();
      std::string().swap(held);
    }
  };

  void look_up_role();
  void hold_back(std::string& out);
  std::size_t run_items(Instant now, Scratch& scratch, std::string& out);

  const Service* service_;
  Parser parser_;
  Waiter waiter_;
  std::function<Deliver()> make_deliver_;
  Late late_;
  JobWaiter job_waiter_;
  std::uint64_t id_;
  std::uint64_t ticket_ = 0;
  std::uint64_t job_ticket_ = 0;
  std::string token_{};            // the last that AUTH has accepted
  std::uint64_t token_epoch_ = 0;  // of the role; 0: none has been looked up
  Role role_ = Role::kNobody;
  std::int8_t version_ = 2;
  bool waiting_ = false;
  bool closing_ = false;
  std::string name_;
};

}  // namespace weir::wire::resp
