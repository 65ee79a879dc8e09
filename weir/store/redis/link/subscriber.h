// Subscriber: hears what is published on channels of a Redis.
//
// A message published while there is no connection is lost, as Redis has it: on_up runs
// each time the channels are subscribed, and a user that needs what was missed asks for it
// there.
//
// Thread safety: callbacks run on the loop's thread. They may close the subscriber, but
// not destroy it.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/loop.h"

namespace weir::store::redis {

struct SubscriberOptions : LinkOptions {
  std::vector<std::string> channels{};  // at least one
  std::function<void(std::string_view channel, std::string_view message)> on_message{};
};

class Subscriber {
 public:
  virtual ~Subscriber() = default;

  virtual bool is_up() const = 0;
  // No callback runs afterwards. The destructor does it, too.
  virtual void close() = 0;
};

std::unique_ptr<Subscriber> make_subscriber(Loop& loop, SubscriberOptions options);

}  // namespace weir::store::redis
