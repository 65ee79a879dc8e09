// Told: the answer to a call that calls back, taken on the stack if it is there by then.
//
//   const auto told = Told<Result<HoldState>>::make();
//   engine.settle(hold, actual, now, told->callback());
//   if (const auto state = told->answer_or(later)) write(*state);   // else `later` is told
//
// The answer goes one way only: returned by answer_or() if it has come, else given to what
// `make_late` made. answer_or() is called once. The callback keeps this object alive, so the
// call may answer long after the caller is gone.
//
// Thread safety: the callback may come from any thread, at any time.

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "weir/base/recycled.h"

namespace weir {

template <typename Answer>
class Told : public std::enable_shared_from_this<Told<Answer>> {
 public:
  using Callback = std::function<void(const Answer&)>;

  static std::shared_ptr<Told> make() { return std::allocate_shared<Told>(Recycled<Told>()); }

  Callback callback() {
    return [self = this->shared_from_this()](const Answer& answer) { self->tell(answer); };
  }

  // The answer, if it has come. If not, what `make_late` returns is called with it once.
  template <typename MakeLate>
  std::optional<Answer> answer_or(MakeLate&& make_late) {
    const std::scoped_lock lock(lock_);
    if (!answer_) late_ = make_late();
    return std::move(answer_);
  }

 private:
  void tell(const Answer& answer) {
    Callback late;
    {
      const std::scoped_lock lock(lock_);
      if (!late_) {
        answer_.emplace(answer);
        return;
      }
      late = std::move(late_);
    }
    late(answer);
  }

  std::mutex lock_;
  std::optional<Answer> answer_{};
  Callback late_;
};

}  // namespace weir
