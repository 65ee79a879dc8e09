// Session: the commands of one connection, from bytes to replies.
//
// A session is fed what was read and appends its replies to a buffer. Commands that
// arrive together are run together: neighbours of the same kind become one batch of
// the engine, and all replies leave in one write.
//
//   bytes ─► Parser ─► commands ─► groups of neighbours ─► engine ─► replies
//
// A reply that comes later is owed: it has a place in the one list of owed replies, and
// replies behind it go out after it. While a reply is owed the session runs no further
// group of commands. So a command that waits blocks the later ones of its own connection,
// as in Redis.
//
// Thread safety: none. A session belongs to one event loop.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/role.h"
#include "weir/base/time.h"
#include "weir/engine/ad_hoc.h"
#include "weir/engine/engine.h"
#include "weir/engine/reach.h"
#include "weir/wire/resp/parser.h"
#include "weir/wire/resp/reply_writer.h"
#include "weir/wire/resp/throttle.h"
#include "weir/wire/resp/transaction.h"
#include "weir/wire/resp/words.h"

namespace weir::wire::resp {

struct Command;  // command.h
class CommandTable;
struct Run;

// What the server gives to all sessions.
class Host {
 public:
  virtual ~Host() = default;

  // The role of a token; kNobody if there is no such token. An empty token stands for a
  // connection that has presented none.
  virtual Role role_of(std::string_view token) const = 0;
  // The same with what the token is bound to, at one moment.
  virtual engine::Standing standing_of(std::string_view token) const { return {role_of(token)}; }
  // Changes whenever roles or bounds may have. Never 0.
  virtual std::uint64_t token_epoch() const noexcept = 0;
  // Reads the configuration again, and tells how it went: at once, or later from any thread.
  virtual void reload_later(engine::StatusCallback told) = 0;
  // The text of INFO.
  virtual std::string info() const = 0;
};

struct Service {
  engine::Engine* engine = nullptr;
  Host* host = nullptr;
  Seconds rounding = Seconds::kCell;
  ParserBounds bounds{};
  std::size_t reply_bytes_max = std::size_t{1} << 20;  // unsent; beyond, commands wait
  // Of the systems, besides engine_commands(). They outlive all sessions.
  std::vector<const CommandTable*> systems{};
};

// What one event loop lends to the session it is running.
struct Scratch {
  struct Item {
    const Command* command;  // nullptr: unknown
    std::size_t first_word;
    std::size_t word_count;
    std::size_t end;  // in the bytes
    bool is_inline = false;
  };

  std::vector<std::string_view> words;
  std::vector<Item> items;
  AskPool pool;
  std::vector<engine::Ask> asks;  // to be decided together
  std::vector<Result<ThrottleCall>> throttles;
  std::vector<engine::AdHocKey> keys;
  std::size_t commands = 0;  // run since the server last set it to 0
};

// A reply that was owed, on its way to its session.
struct LateReply {
  std::function<void(Instant now, ReplyWriter& reply)> write;
  // Ends what the reply tells of, if the client has left; none: there is nothing to end.
  std::function<void(Instant now)> discard{};
};
// Brings such a reply to its place, from any thread.
using Deliver = std::function<void(std::size_t place, LateReply late)>;
// Gives up an answer that a reply is owed for. True: it will not come. False: it is on its way.
using GiveUp = std::function<bool(Instant now)>;

class Session {
 public:
  // `make_deliver`: called on the loop; what it makes may outlive the session.
  Session(const Service& service, std::uint64_t id, std::function<Deliver()> make_deliver = {});

  // Runs the whole commands in `bytes`, all at one instant, and appends their replies
  // to `out`. Returns how many bytes are done with. The caller presents the rest again,
  // with more behind it. Stops early once is_full(out): later replies wait.
  std::size_t run(std::string_view bytes, Instant now, Scratch& scratch, std::string& out);

  // Takes what Deliver was given for `place`. True: nothing is owed any more, and all replies
  // are in `out`. Call run() with the rest afterwards.
  bool deliver(std::size_t place, const LateReply& late, Instant now, std::string& out);

  // Gives up what can be given up, and replies `error` to it. True: as deliver().
  bool give_up(std::string_view error, Instant now, std::string& out);
  // Gives up what a client may not wait for any more, if the tokens have changed. True: as
  // deliver().
  bool look_at_tokens(Instant now, std::string& out);
  // The client has left: gives up what can be given up.
  void leave(Instant now);

  bool is_waiting() const noexcept { return missing_ > 0; }
  // `out` may be sent once this record and those before it are on disk; 0: at once. Each record
  // is said once.
  std::uint64_t take_record() noexcept { return std::exchange(record_, 0); }
  // The connection is to be closed once its replies are sent.
  bool is_closing() const noexcept { return closing_; }
  // Whether run() stopped behind a token that is not known. Says it once.
  bool take_unknown_token() noexcept { return std::exchange(has_unknown_token_, false); }
  // The client speaks HTTP, as a browser that a web page has sent here. It is to be closed at
  // once: nothing behind its first line is run.
  bool is_http() const noexcept { return is_http_; }
  bool is_full(const std::string& out) const noexcept { return out.size() >= reply_bytes_max_; }
  // Its client has no role, and may neither send nor leave unread more than kStrangerBytesMax.
  bool is_stranger() const noexcept { return role_ == Role::kNobody; }

  // --- for commands
  const Service& service() const noexcept { return *service_; }
  std::uint64_t id() const noexcept { return id_; }
  Role role() const noexcept { return role_; }
  const engine::Reach* reach() const noexcept { return reach_.get(); }  // nullptr: not bound
  std::int8_t version() const noexcept { return version_; }
  const std::string& name() const noexcept { return name_; }
  // The connection's token, from now on and after every change of the tokens.
  void set_token(std::string_view token);
  void set_version(std::int8_t version) noexcept { version_ = version; }
  void set_name(std::string_view name) { name_ = name; }
  void start_over();  // as the connection began
  void close() noexcept { closing_ = true; }
  // A token was presented that is not known: nothing behind it is run before the server has
  // taken note.
  void set_unknown_token() noexcept { has_unknown_token_ = true; }
  // --- between MULTI and EXEC; nullptr: there was no MULTI
  const Transaction* transaction() const noexcept { return transaction_.get(); }
  void begin_transaction();
  void drop_transaction() noexcept { transaction_.reset(); }
  // Runs its commands and writes the array of their replies. Requires one that is not aborted.
  void run_transaction(Run& run);

  // The next reply is owed. `give_up`: none if nothing can be given up.
  void owe(const ReplyWriter& reply, GiveUp give_up = {});
  // The place of the reply that is owed next, and what brings it there.
  std::size_t next_place() const noexcept { return owed_.size(); }
  Deliver deliver() const { return make_deliver_(); }

 private:
  // A reply that comes later.
  struct Owed {
    std::size_t offset;  // where it belongs, in the buffer and then in `held_`
    GiveUp give_up;
    std::string reply{};
    bool is_missing = true;
  };

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void look_up_role();
  void hold_back(std::string& out);
  std::size_t run_items(Instant now, Scratch& scratch, std::string& out);
  std::size_t run_group(std::span<const Scratch::Item> items, Instant now, Scratch& scratch,
                        ReplyWriter& reply);
  std::string refusal_of(const Scratch::Item& item, Words words) const;
  void refuse(const Scratch::Item& item, std::string error, ReplyWriter& reply);
  void queue(const Command& command, Words words, ReplyWriter& reply);
  bool flush_owed(std::string& out);

  const Service* service_;
  Parser parser_;
  std::size_t reply_bytes_max_ = 0;  // by its role
  std::function<Deliver()> make_deliver_;
  std::vector<Owed> owed_;
  std::size_t missing_ = 0;       // of them
  std::size_t array_at_ = kNone;  // where an array begins that owes replies: it goes out whole
  std::string held_;              // what was replied behind the first of them
  std::uint64_t record_ = 0;      // the last that a reply must wait for
  std::uint64_t id_;
  std::string token_{};            // the last that AUTH has accepted
  std::uint64_t token_epoch_ = 0;  // of the role; 0: none has been looked up
  Role role_ = Role::kNobody;
  std::shared_ptr<const engine::Reach> reach_{};
  std::int8_t version_ = 2;
  bool closing_ = false;
  bool has_unknown_token_ = false;
  bool is_http_ = false;
  std::unique_ptr<Transaction> transaction_;
  std::string name_;
};

}  // namespace weir::wire::resp
