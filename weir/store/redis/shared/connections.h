// Connections: over which connection a thread asks Redis.
//
// A loop may be handed a desk: a connection of its own, served on the loop's thread, and what that
// thread gathers to send together. Threads without a desk share a few connections, and each keeps
// to one of them, so that what a thread asks is heard in that order.
//
//   connections.open(on_up);
//   connections.attach(loop);              // a desk for it
//   connections.client().call(...);        // over the desk's connection on the loop's thread
//   if (Desk* desk = connections.here()) ...
//
// Thread safety: client() and here() from any thread, without a lock; attach() and detach() from
// any thread, for one loop by one thread at a time; the rest by the owner.

#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/loop.h"

namespace weir::store::redis {

constexpr unsigned kConnectionsMax = 64;
constexpr std::size_t kSeatsMax = 1024;  // threads that are told apart; further ones have no desk

struct Gathered;  // decisions that leave together (decisions.cc)

// What one loop asks with. Used on its thread only.
struct Desk {
  Loop& loop;
  std::unique_ptr<Client> client;
  std::shared_ptr<Gathered> gathered{};  // nullptr: nothing yet
};

using ClientMaker = std::function<std::unique_ptr<Client>(Loop& loop, ClientOptions options)>;

class Connections {
 public:
  // `count` of them are shared, at least one and at most kConnectionsMax. `make`: for tests that
  // play a Redis.
  Connections(Loop& loop, ClientOptions options, unsigned count, ClientMaker make = make_client);

  // Opens the shared ones; the functions are told of the first. On the loop's thread.
  void open(std::function<void()> on_up, std::function<void(const Failure&)> on_down = {});
  // Waits until the first of them is up or has failed, or `deadline` has come. An error if it has
  // failed for the topology.
  Status first_word(Clock& clock, Instant deadline);
  // Answers what is in flight over the shared ones, and ends them. Requires that no loop is
  // attached.
  void close();

  // Each waits for the loop's thread, which must be running. Before the desk goes, `last` is run
  // on that thread; what is in flight over it is answered.
  void attach(Loop& loop);
  void detach(Loop& loop, const std::function<void(Desk&)>& last);

  // The desk of this thread; nullptr: it has none.
  Desk* here() noexcept;
  // The connection of this thread.
  Client& client() noexcept;
  // The shared one that is there first.
  Client& first() noexcept { return *clients_.front(); }
  std::span<const std::unique_ptr<Client>> shared() const noexcept { return clients_; }

 private:
  struct Seat {
    std::atomic<std::thread::id> thread{};
    std::atomic<Desk*> desk{nullptr};
  };

  // The place of this thread's seat, which it takes when it first asks; kSeatsMax: none is left.
  std::size_t seat() noexcept;

  Loop& loop_;
  const ClientOptions options_;
  const ClientMaker make_;
  std::vector<std::unique_ptr<Client>> clients_;
  const unsigned count_;
  std::array<Seat, kSeatsMax> seats_{};
  std::mutex lock_;
  std::condition_variable said_;
  std::optional<Status> first_word_;              // guarded by lock_
  std::map<Loop*, std::unique_ptr<Desk>> desks_;  // guarded by lock_
};

}  // namespace weir::store::redis
