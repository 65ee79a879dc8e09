// Link: one connection to a Redis, opened again whenever it breaks.
//
// Connects, introduces itself (HELLO, AUTH, SELECT and what its user adds), then hands
// every reply to its user. Bytes given to write() while it is busy leave together. A link
// that hears nothing for half of `silence` asks PING, and after the other half is taken
// for half-open.
//
// Internal to this folder: clients and subscribers are its users.
//
// Thread safety: none. Everything happens on the thread of its loop.

#pragma once

#include <hiredis/hiredis.h>

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/store/redis/link/backoff.h"
#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/loop.h"

namespace weir::store::redis {

// The bytes of a command.
std::string format(Client::Words words);
std::string format(std::span<const Client::Words> parts);  // of words, one after the other

class LinkUser {
 public:
  virtual ~LinkUser() = default;

  // Commands to send before the link counts as open. Each must be answered without error.
  virtual std::vector<std::string> greeting() = 0;
  virtual void on_open() = 0;
  // It was open and is no more, or an attempt to open it failed.
  virtual void on_closed(const Failure& failure) = 0;
  // Returns false for a reply that cannot be: the link then breaks.
  virtual bool on_reply(const redisReply& reply) = 0;
  // All replies that came together have been handed over.
  virtual void on_batch_end() = 0;
  virtual void ask_ping() = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Loop& loop, LinkOptions options, LinkUser& user);

  void open();
  // For good. The user hears nothing more.
  void close();

  bool is_open() const noexcept { return phase_ == Phase::kOpen; }
  const LinkOptions& options() const noexcept { return options_; }
  // "Redis at redis://localhost:6379", for messages.
  const std::string& where() const noexcept { return where_; }

  void write(std::string_view bytes) { unsent_.append(bytes); }
  void flush();
  // What is wrong with the other side, found by the user.
  void break_off(FailureKind kind, std::string_view what);

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Endpoint = boost::asio::generic::stream_protocol::endpoint;
  enum class Phase : std::uint8_t { kIdle, kConnecting, kGreeting, kOpen, kClosed };

  void connect(const std::vector<Endpoint>& endpoints);
  void resolve();
  void greet();
  void read();
  void take_replies(std::string_view bytes);
  bool take_greeting(const redisReply& reply);
  bool take_hello(const redisReply& reply);
  void watch();
  void fail(const Failure& failure);
  void drop();

  Loop& loop_;
  LinkOptions options_;
  LinkUser* user_;  // null once closed
  std::string where_;
  Phase phase_ = Phase::kIdle;
  std::uint64_t turn_ = 0;  // of the connection; what belongs to an older one is passed over

  Socket socket_;
  boost::asio::ip::tcp::resolver resolver_;
  Timer deadline_;  // of an attempt; later the watch for silence
  Timer retry_;
  Backoff backoff_;
  std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader_;

  std::size_t greetings_ = 0;  // answered
  std::size_t greetings_due_ = 0;
  bool heard_ = false;  // since the last look
  bool asked_ = false;  // PING, since it last heard
  bool is_sending_ = false;
  std::string said_;  // the last reason given to on_down
  std::string unsent_;
  std::string sending_;
  std::array<char, std::size_t{64} << 10> input_;
};

}  // namespace weir::store::redis
