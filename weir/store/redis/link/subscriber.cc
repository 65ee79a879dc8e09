#include "weir/store/redis/link/subscriber.h"

#include <atomic>
#include <utility>

#include "weir/store/redis/link/link.h"

namespace weir::store::redis {
namespace {

std::string_view text_at(const redisReply& reply, std::size_t index) {
  if (index >= reply.elements || reply.element[index]->type != REDIS_REPLY_STRING) return {};
  return {reply.element[index]->str, reply.element[index]->len};
}

class SubscriberCore final : public LinkUser {
 public:
  explicit SubscriberCore(SubscriberOptions options) : options_(std::move(options)) {}

  void open(Loop& loop) {
    link_ = std::make_shared<Link>(loop, static_cast<const LinkOptions&>(options_), *this);
    link_->open();
  }
  void close() {
    is_up_.store(false, std::memory_order_relaxed);
    link_->close();
  }
  void end() {
    close();
    link_.reset();
  }
  bool is_up() const noexcept { return is_up_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::string> greeting() override {
    std::vector<std::string> commands;
    for (const std::string& channel : options_.channels) {
      const std::array<std::string_view, 2> words = {"SUBSCRIBE", channel};
      commands.push_back(format(words));
    }
    return commands;
  }
  void on_open() override { is_up_.store(true, std::memory_order_relaxed); }
  void on_closed(const Failure&) override { is_up_.store(false, std::memory_order_relaxed); }

  bool on_reply(const redisReply& reply) override {
    if (reply.type != REDIS_REPLY_ARRAY) return false;
    const std::string_view kind = text_at(reply, 0);
    if (kind == "pong") return true;
    if (kind != "message" || reply.elements != 3) return false;
    options_.on_message(text_at(reply, 1), text_at(reply, 2));
    return true;
  }
  void on_batch_end() override {}
  void ask_ping() override {
    const std::array<std::string_view, 1> words = {"PING"};
    link_->write(format(words));
  }

  SubscriberOptions options_;
  std::shared_ptr<Link> link_;
  std::atomic<bool> is_up_{false};
};

class SingleSubscriber final : public Subscriber {
 public:
  SingleSubscriber(Loop& loop, SubscriberOptions options) : loop_(loop), core_(std::move(options)) {
    loop_.run([this] { core_.open(loop_); });
  }
  // On the loop, where a timer of the link may be about to look whether it is still wanted.
  ~SingleSubscriber() override {
    loop_.run([this] { core_.end(); });
  }

  bool is_up() const override { return core_.is_up(); }
  void close() override {
    loop_.run([this] { core_.close(); });
  }

 private:
  Loop& loop_;
  SubscriberCore core_;
};

}  // namespace

std::unique_ptr<Subscriber> make_subscriber(Loop& loop, SubscriberOptions options) {
  WEIR_ASSERT(!options.channels.empty());
  return std::make_unique<SingleSubscriber>(loop, std::move(options));
}

}  // namespace weir::store::redis
