#include "weir/system/pool/wakeup.h"

#include <utility>

namespace weir::system::pool {

void Wakeup::set(std::unique_lock<std::mutex>& lock, Hook hook) {
  hook_ = hook ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
  told_ = kForever;
  returned_.wait(lock, [this] { return calls_ == 0; });
}

std::shared_ptr<const Wakeup::Hook> Wakeup::begin(Instant next) {
  const bool is_earlier = next < told_;
  told_ = next;
  if (!is_earlier || hook_ == nullptr) return nullptr;
  calls_ += 1;
  return hook_;
}

void Wakeup::end() {
  calls_ -= 1;
  if (calls_ == 0) returned_.notify_all();
}

}  // namespace weir::system::pool
