// Server connection: one connection to a running server, over RESP, for the command line.
//
//   Result<ServerConnection> client = ServerConnection::connect({.address = "127.0.0.1:6380"});
//   Result<ServerReply> reply = client->ask({"PING"});
//
// What the server says about a command, its errors included, is a ServerReply. An Error means
// that there is no reply: kBadArgument if what was given is no address, kUnavailable if
// the server cannot be reached or does not let us in.
//
// Thread safety: none. One connection belongs to one thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/weir/exit.h"
#include "weir/base/result.h"
#include "weir/base/time.h"

struct redisContext;

namespace weir::app {

constexpr std::string_view kUsualServer = "127.0.0.1:6380";

// Which server, and who asks. As given on the command line.
struct ServerChoice {
  std::string address{kUsualServer};
  std::string token{};  // empty: none
};

struct ServerReply {
  enum class Kind : std::uint8_t { kText, kInteger, kNull, kList, kError };

  Kind kind = Kind::kNull;
  std::string text{};  // of a text or an error
  std::int64_t integer = 0;
  std::vector<ServerReply> list{};

  bool is_error() const noexcept { return kind == Kind::kError; }
  // The value that follows the text `name` in a list of names and values, or nullptr.
  const ServerReply* find(std::string_view name) const noexcept;
  // What find() found, or nothing where it is missing or of another kind.
  std::string text_of(std::string_view name) const;
  std::int64_t integer_of(std::string_view name) const;
};

class ServerConnection {
 public:
  // Connects, and says who we are if there is a token.
  static Result<ServerConnection> connect(const ServerChoice& choice);
  ServerConnection(ServerConnection&&) noexcept;
  ServerConnection& operator=(ServerConnection&&) noexcept;
  ~ServerConnection();

  // Sends one command and waits for its reply, `extra` longer than usual.
  Result<ServerReply> ask(const std::vector<std::string>& words, Duration extra = {});

  // In two steps, for pipelines: everything that was sent is answered in order.
  Status send(const std::vector<std::string>& words);
  Result<ServerReply> receive();

  int descriptor() const noexcept;

 private:
  struct Close {
    void operator()(redisContext* context) const noexcept;
  };
  explicit ServerConnection(std::string address, redisContext* context);

  Error lost() const;
  Status flush();

  std::string address_;
  std::unique_ptr<redisContext, Close> context_;
};

// Says on stderr what went wrong and returns the exit code for it.
int fail(std::string_view command, const Error& error);
// The same for an error that the server replied.
int fail(std::string_view command, const ServerReply& reply);
// The same for arguments that must be written otherwise.
int wrong_usage(std::string_view command, std::string_view message);

}  // namespace weir::app
