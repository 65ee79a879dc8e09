#include "weir/store/redis/link/timers.h"

#include <list>
#include <utility>

namespace weir::store::redis {

struct Timers::Running {
  std::list<Timer> timers;
  bool is_over = false;
};

Timers::Timers(Loop& loop) : loop_(loop), running_(std::make_shared<Running>()) {}

void Timers::end() {
  loop_.run([this] {
    running_->is_over = true;
    running_->timers.clear();
  });
}

void Timers::after(Duration span, std::function<void()> work) {
  loop_.post([&loop = loop_, running = running_, span, work = std::move(work)] {
    if (running->is_over) return;
    running->timers.emplace_front(loop);
    const auto mine = running->timers.begin();
    mine->start(span, [running, mine, work] {
      // Destroyed after it has run, not while it runs.
      std::list<Timer> done;
      done.splice(done.begin(), running->timers, mine);
      work();
    });
  });
}

}  // namespace weir::store::redis
