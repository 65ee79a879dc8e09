#include "weir/store/redis/link/link.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/link/loop_impl.h"

namespace weir::store::redis {
namespace {

namespace asio = boost::asio;
using ErrorNumber = boost::system::error_code;

constexpr std::size_t kKeptBytes = std::size_t{64} << 10;  // of a send buffer that grew

std::string_view text_of(const redisReply& reply) { return {reply.str, reply.len}; }

// The number before the first dot; 0 if there is none.
int major_version(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// What is wrong with a Redis that calls itself this; empty: nothing. A script of ours writes keys
// of one name, wherever they hash, and must be the only one that does.
std::string_view other_topology(std::string_view mode, std::string_view role) {
  if (mode == "cluster") {
    return "it is a node of a cluster, which weir does not speak to yet; write the address of one "
           "Redis by itself";
  }
  if (mode == "sentinel") {
    return "it is a sentinel, which weir does not ask yet; write the address of the Redis that it "
           "watches";
  }
  if (role == "replica" || role == "slave") {
    return "it is a replica, which takes no writes; write the address of its master";
  }
  return {};
}

}  // namespace

std::string format(std::span<const Client::Words> parts) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const Client::Words words : parts) {
    count += words.size();
    for (const std::string_view word : words) bytes += word.size();
  }
  constexpr std::size_t kAround = 16;  // what a word has around it, for all but enormous ones
  std::string result;
  result.reserve(bytes + kAround * (count + 1));
  const auto append = [&result](char mark, std::size_t number) {
    std::array<char, 24> text;
    text[0] = mark;
    char* end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, number).ptr;
    *end++ = '\r';
    *end++ = '\n';
    result.append(text.data(), end);
  };
  append('*', count);
  for (const Client::Words words : parts) {
    for (const std::string_view word : words) {
      append('$', word.size());
      result.append(word).append("\r\n");
    }
  }
  return result;
}

std::string format(Client::Words words) { return format({&words, 1}); }

Link::Link(Loop& loop, LinkOptions options, LinkUser& user)
    : loop_(loop),
      options_(std::move(options)),
      user_(&user),
      where_("Redis at "),
      socket_(loop.impl().context),
      resolver_(loop.impl().context),
      deadline_(loop),
      retry_(loop),
      backoff_(options_.retry_least, options_.retry_most),
      reader_(nullptr, redisReaderFree) {
  where_.append(describe(options_.address));
}

void Link::open() {
  phase_ = Phase::kConnecting;
  ++turn_;
  deadline_.start(options_.connect_timeout, [this] {
    fail({FailureKind::kDisconnected,
          fmt::format("{}: no connection within {} ms; is it running and reachable?", where_,
                      options_.connect_timeout / std::chrono::milliseconds{1})});
  });
  const Address& to = options_.address;
  if (to.is_unix()) return connect({asio::local::stream_protocol::endpoint(to.path)});
  ErrorNumber error;
  const asio::ip::address numeric = asio::ip::make_address(to.host, error);
  if (!error) return connect({asio::ip::tcp::endpoint(numeric, to.port)});
  resolve();
}

void Link::resolve() {
  const Address& to = options_.address;
  resolver_.async_resolve(
      to.host, std::to_string(to.port),
      [self = shared_from_this(), turn = turn_](const ErrorNumber& error, const auto& found) {
        if (turn != self->turn_) return;
        if (error) {
          return self->fail({FailureKind::kDisconnected,
                             fmt::format("{}: host {} is not found: {}", self->where_,
                                         in_quotes(self->options_.address.host), error.message())});
        }
        std::vector<Endpoint> endpoints;
        for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
        self->connect(endpoints);
      });
}

void Link::connect(const std::vector<Endpoint>& endpoints) {
  asio::async_connect(
      socket_, endpoints,
      [self = shared_from_this(), turn = turn_](const ErrorNumber& error, const Endpoint&) {
        if (turn != self->turn_) return;
        if (error) {
          return self->fail(
              {FailureKind::kDisconnected, fmt::format("{}: cannot connect: {}; is it running?",
                                                       self->where_, error.message())});
        }
        self->greet();
      });
}

void Link::greet() {
  ErrorNumber ignored;
  if (!options_.address.is_unix()) socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  phase_ = Phase::kGreeting;
  reader_.reset(redisReaderCreate());
  // HELLO tells the version and lets us in; replies stay in the second protocol, which is
  // the one hiredis 0.14 reads.
  std::vector<std::string_view> hello = {"HELLO", "2"};
  const Address& to = options_.address;
  if (!to.password.empty()) {
    const std::string_view user = to.user.empty() ? std::string_view("default") : to.user;
    hello.insert(hello.end(), {"AUTH", user, to.password});
  }
  write(format(hello));
  const std::string database = std::to_string(to.database);
  const std::array<std::string_view, 2> select = {"SELECT", database};
  write(format(select));
  const std::vector<std::string> more = user_->greeting();
  for (const std::string& command : more) write(command);
  greetings_ = 0;
  greetings_due_ = 2 + more.size();
  flush();
  read();
}

void Link::read() {
  socket_.async_read_some(asio::buffer(input_), [self = shared_from_this(), turn = turn_](
                                                    const ErrorNumber& error, std::size_t count) {
    if (turn != self->turn_) return;
    if (error) {
      return self->fail(
          {FailureKind::kDisconnected,
           fmt::format("{}: the connection is lost: {}", self->where_,
                       error == asio::error::eof ? "closed by Redis" : error.message())});
    }
    self->heard_ = true;
    self->take_replies({self->input_.data(), count});
    if (turn == self->turn_) self->read();
  });
}

void Link::take_replies(std::string_view bytes) {
  const std::uint64_t turn = turn_;
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) {
    return break_off(FailureKind::kProtocol, reader_->errstr);
  }
  while (true) {
    void* raw = nullptr;
    if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK) {
      return break_off(FailureKind::kProtocol, reader_->errstr);
    }
    if (raw == nullptr) break;
    const std::unique_ptr<redisReply, decltype(&freeReplyObject)> reply(
        static_cast<redisReply*>(raw), freeReplyObject);
    const bool fits = phase_ == Phase::kGreeting ? take_greeting(*reply) : user_->on_reply(*reply);
    // The link may have been closed or broken by a callback.
    if (turn != turn_) return;
    if (!fits) return break_off(FailureKind::kProtocol, "a reply to no request");
  }
  if (reader_->len - reader_->pos > kReplyBytesMax) {
    return break_off(FailureKind::kProtocol,
                     fmt::format("a reply of more than {} bytes", kReplyBytesMax));
  }
  if (phase_ == Phase::kOpen) user_->on_batch_end();
}

bool Link::take_greeting(const redisReply& reply) {
  if (greetings_ == 0) {
    if (!take_hello(reply)) return true;
  } else if (reply.type == REDIS_REPLY_ERROR) {
    fail({kind_of_error(text_of(reply)),
          fmt::format("{}: it refuses to be used: {}", where_, in_quotes(text_of(reply)))});
    return true;
  }
  if (++greetings_ < greetings_due_) return true;
  phase_ = Phase::kOpen;
  said_.clear();
  backoff_.reset();
  heard_ = true;
  asked_ = false;
  watch();
  const std::uint64_t turn = turn_;
  user_->on_open();
  if (turn == turn_ && options_.on_up) std::function(options_.on_up)();
  return true;
}

// Whether the link is still there.
bool Link::take_hello(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) {
    const std::string_view text = text_of(reply);
    FailureKind kind = kind_of_error(text);
    // HELLO came with Redis 6.
    const bool is_old = text.find("unknown command") != std::string_view::npos;
    if (is_old) kind = FailureKind::kVersion;
    fail({kind,
          fmt::format("{}: it refuses to be used: {}{}", where_, in_quotes(text),
                      is_old ? fmt::format("; weir needs Redis {} or later", kVersionLeast) : "")});
    return false;
  }
  std::string_view version, mode, role;
  for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i + 1 < reply.elements; i += 2) {
    const redisReply& field = *reply.element[i];
    const redisReply& value = *reply.element[i + 1];
    if (field.type != REDIS_REPLY_STRING || value.type != REDIS_REPLY_STRING) continue;
    if (text_of(field) == "version") version = text_of(value);
    if (text_of(field) == "mode") mode = text_of(value);
    if (text_of(field) == "role") role = text_of(value);
  }
  if (version.empty()) {
    break_off(FailureKind::kProtocol, "its answer to HELLO names no version");
    return false;
  }
  if (major_version(version) < kVersionLeast) {
    fail({FailureKind::kVersion,
          fmt::format("{}: its version is {}, but weir needs Redis {} or later", where_,
                      in_quotes(version), kVersionLeast)});
    return false;
  }
  const std::string_view other = other_topology(mode, role);
  if (other.empty()) return true;
  fail({FailureKind::kTopology, fmt::format("{}: {}", where_, other)});
  return false;
}

void Link::flush() {
  if (is_sending_ || unsent_.empty()) return;
  is_sending_ = true;
  sending_.swap(unsent_);
  asio::async_write(
      socket_, asio::buffer(sending_),
      [self = shared_from_this(), turn = turn_](const ErrorNumber& error, std::size_t) {
        if (turn != self->turn_) return;
        self->is_sending_ = false;
        if (self->sending_.capacity() > kKeptBytes) self->sending_ = {};
        self->sending_.clear();
        // The reader tells why, unless the other side only stopped reading.
        if (!error) self->flush();
      });
}

void Link::watch() {
  deadline_.start(options_.silence / 2, [this] {
    if (!heard_ && asked_) {
      return break_off(FailureKind::kDisconnected,
                       fmt::format("nothing heard for {} ms, not even to PING",
                                   options_.silence / std::chrono::milliseconds{1}));
    }
    asked_ = !heard_;
    if (asked_) {
      user_->ask_ping();
      flush();
    }
    heard_ = false;
    watch();
  });
}

void Link::break_off(FailureKind kind, std::string_view what) {
  fail({kind, fmt::format("{}: {}", where_, what)});
}

void Link::fail(const Failure& failure) {
  drop();
  const std::uint64_t turn = turn_;
  // The first attempt after a loss is made at once: mostly the other side is there again.
  const bool was_open = phase_ == Phase::kOpen;
  phase_ = Phase::kIdle;
  const Duration wait = was_open ? Duration{0} : backoff_.next();
  user_->on_closed(failure);
  if (turn != turn_) return;
  if (options_.on_down && said_ != failure.message) {
    said_ = failure.message;
    // A copy: the callback may close this link.
    std::function(options_.on_down)(failure);
    if (turn != turn_) return;
  }
  retry_.start(wait, [this] { open(); });
}

void Link::drop() {
  ++turn_;
  deadline_.stop();
  resolver_.cancel();
  ErrorNumber ignored;
  socket_.close(ignored);
  is_sending_ = false;
  unsent_.clear();
  sending_.clear();
}

void Link::close() {
  if (phase_ == Phase::kClosed) return;
  drop();
  retry_.stop();
  phase_ = Phase::kClosed;
  user_ = nullptr;
  options_.on_up = nullptr;
  options_.on_down = nullptr;
}

}  // namespace weir::store::redis
