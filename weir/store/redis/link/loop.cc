#include "weir/store/redis/link/loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <utility>

#include "weir/base/assert.h"
#include "weir/store/redis/link/loop_impl.h"

namespace weir::store::redis {

Loop::Loop() {
  auto own = std::make_unique<boost::asio::io_context>(1);
  boost::asio::io_context& context = *own;
  impl_.reset(new Impl{std::move(own), context});
  impl_->thread = std::thread([&context] { context.run(); });
}

Loop::Loop(boost::asio::io_context& context) : impl_(new Impl{nullptr, context}) {}

Loop::~Loop() {
  if (impl_->own == nullptr) return;
  WEIR_ASSERT(!is_here());
  impl_->context.stop();
  impl_->thread.join();
}

void Loop::post(std::function<void()> work) { boost::asio::post(impl_->context, std::move(work)); }

void Loop::run(const std::function<void()>& work) {
  if (is_here()) return work();
  std::promise<void> done;
  boost::asio::post(impl_->context, [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

bool Loop::is_here() const { return impl_->context.get_executor().running_in_this_thread(); }

struct Timer::Impl {
  explicit Impl(Loop& loop) : timer(loop.impl().context) {}

  boost::asio::steady_timer timer;
  std::uint64_t turn = 0;  // of the last start or stop
};

Timer::Timer(Loop& loop) : impl_(std::make_shared<Impl>(loop)) {}

Timer::~Timer() { stop(); }

void Timer::start(Duration span, std::function<void()> work) {
  stop();
  impl_->timer.expires_after(span);
  // A timer that has expired cannot be cancelled any more, only passed over.
  impl_->timer.async_wait([impl = impl_, turn = impl_->turn,
                           work = std::move(work)](const boost::system::error_code& error) {
    if (!error && impl->turn == turn) work();
  });
}

void Timer::stop() {
  ++impl_->turn;
  impl_->timer.cancel();
}

}  // namespace weir::store::redis
