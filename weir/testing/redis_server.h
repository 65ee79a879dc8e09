// Redis server: a real redis-server for tests, on loopback, for as long as this object.
//
//   RedisServer redis;                                  // a free port, nothing on disk
//   RedisServer kept({.keeps_data = true});             // every write is on disk
//   kept.kill();  kept.start();                         // as it was
//   kept.kill();  kept.forget();  kept.start();         // empty
//   RedisServer replica({.more = {"--replicaof", "127.0.0.1", port}});
//   kept.pause(); ... kept.resume();                    // SIGSTOP, SIGCONT
//
// `redis-server` must be in PATH. A failure to start it is an assertion: a test cannot go
// on without it.
//
// Thread safety: one thread at a time.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weir::testing {

struct RedisServerOptions {
  bool unix_socket = false;         // instead of a port
  bool keeps_data = false;          // an append-only file, written before each reply
  bool is_sentinel = false;         // that watches nothing
  std::string password{};           // of the default user
  std::vector<std::string> more{};  // of its command line, such as {"--maxmemory", "1mb"}
};

class RedisServer {
 public:
  explicit RedisServer(RedisServerOptions options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Without the password.
  std::string url() const;
  std::uint16_t port() const noexcept { return port_; }
  pid_t id() const noexcept { return id_; }

  // Starts it where it was, and waits until it answers PING.
  void start();
  void kill();    // SIGKILL, and waits until it is gone
  void forget();  // removes its data; only while it does not run
  void pause();   // and waits until it has stopped
  void resume();

  // Sends an inline command, such as "SCRIPT FLUSH", on a connection of its own and
  // returns the first line of the reply, or nothing.
  std::string ask(const std::string& command) const;

 private:
  bool spawn();
  bool is_own() const;
  std::string answer_to(const std::string& sent, char last) const;
  int connected() const;

  RedisServerOptions options_;
  std::filesystem::path dir_;
  std::uint16_t port_ = 0;
  pid_t id_ = -1;
};

}  // namespace weir::testing
