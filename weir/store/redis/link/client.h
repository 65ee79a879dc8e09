// Client: asks a Redis, many requests in flight on one connection.
//
//   Loop loop;
//   const Script script("count", "return redis.call('incrby', KEYS[1], ARGV[1])");
//   auto client = make_client(loop, {.address = *parse_address("redis://localhost"),
//                                    .scripts = {&script}});
//   client->call(script, {{"{acme}:n"}}, {{"1"}}, [](const Answer& answer) {
//     if (!answer.ok()) return outage(answer.failure());
//     use(answer.reply().integer());
//   });
//
// Requests from any thread are written in batches and answered in the order in which they
// were sent. Each is answered once: by its reply, or by a failure when its timeout is over by
// the client's clock, which a timer looks at. The reply to a request that has timed out is
// discarded, or given to the callback that was left for it.
//
// The connection is opened again when it breaks or goes silent, at jittered distances.
// Requests wait, within their timeout, for the first attempt to open it; once an attempt
// has failed they are answered at once, with the reason, until one succeeds. A request is
// never sent twice, unless Redis said that it did not run it (NOSCRIPT): then the script
// is loaded and the request sent once more, in its place in the order.
//
// This interface is the seam for Sentinel, Cluster and TLS: the keys say where a script
// belongs, and nothing above it knows what a connection is.
//
// Thread safety: send() and call() from any thread; callbacks run on the loop's thread.
// They may close the client, but not destroy it.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/clock.h"
#include "weir/base/time.h"
#include "weir/store/redis/link/address.h"
#include "weir/store/redis/link/failure.h"
#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/link/reply.h"
#include "weir/store/redis/link/script.h"

namespace weir::store::redis {

constexpr std::size_t kRequestsMax = 65536;  // in flight, timed out or not, or waiting
constexpr std::size_t kReplyBytesMax = std::size_t{64} << 20;
constexpr int kVersionLeast = 7;

// How a connection behaves, of a client or a subscriber.
struct LinkOptions {
  Address address{};
  Duration connect_timeout = std::chrono::seconds{1};  // to connect and be let in
  // With requests in flight and no byte for this long, the connection is taken for
  // half-open and opened again. An idle connection is asked PING as often.
  Duration silence = std::chrono::seconds{1};
  Duration retry_least = std::chrono::milliseconds{20};
  Duration retry_most = std::chrono::seconds{1};
  std::function<void()> on_up{};                  // each time it is open, on the loop's thread
  std::function<void(const Failure&)> on_down{};  // lost, or an attempt failed for a new reason
};

struct ClientOptions : LinkOptions {
  Duration timeout = std::chrono::milliseconds{20};  // of a request that says none
  Clock* clock = &monotonic_clock();                 // of deadlines; it outlives the client
  // Loaded whenever a connection is opened. They outlive the client.
  std::vector<const Script*> scripts{};
};

using AnswerCallback = std::function<void(const Answer&)>;

struct RequestOptions {
  std::optional<Duration> timeout{};
  // Given the reply if it comes after the timeout: a failure only if it is an error, so that
  // the caller who has to do it again knows that it was not done.
  AnswerCallback late{};
};

struct ClientCounts {
  std::uint64_t sent = 0;
  std::uint64_t replies = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t connections = 0;  // opened
  std::uint64_t reloads = 0;      // of scripts, for NOSCRIPT
};

class Client {
 public:
  using Words = std::span<const std::string_view>;

  virtual ~Client() = default;

  // Sends a command, its words as they are. At the bound kRequestsMax `done` is called
  // before this returns, with kTooMany. Requires at least one word.
  virtual void send(Words words, AnswerCallback done, RequestOptions options = {}) = 0;

  // Runs a script. In `keys` is every key it touches, all of one hash tag.
  virtual void call(const Script& script, Words keys, Words arguments, AnswerCallback done,
                    RequestOptions options = {}) = 0;

  // Writes what was asked on the loop's thread at once, not when that thread has done what
  // it does. On that thread only.
  virtual void flush() = 0;

  virtual bool is_up() const = 0;
  virtual ClientCounts counts() const = 0;

  // Answers all that is in flight, and all that is asked later, with kDisconnected. The
  // destructor does it, too.
  virtual void close() = 0;
};

std::unique_ptr<Client> make_client(Loop& loop, ClientOptions options);

}  // namespace weir::store::redis
