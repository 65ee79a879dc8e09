#include "weir/engine/internal/locals.h"

#include <unordered_map>

namespace weir::engine {
namespace {

std::uint64_t next_engine_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

thread_local std::unordered_map<std::uint64_t, std::shared_ptr<Local>> my_locals;

}  // namespace

constinit thread_local LastUsed last_used;

Locals::Locals(const EngineOptions& options, std::uint64_t seed)
    : heavy_places_(options.heavy_keys),
      sample_every_(options.heavy_sample_every),
      seed_(seed),
      id_(next_engine_id()),
      departed_heavy_(options.heavy_keys) {}

Locals::~Locals() {
  for (const std::shared_ptr<Local>& local : locals_) {
    local->active.reset();
    local->heavy = HeavyKeys(0);
    local->is_gone.store(true, std::memory_order_release);
  }
}

Local& Locals::find() {
  if (!my_locals.contains(id_)) {
    std::erase_if(my_locals, [](const auto& entry) {
      return entry.second->is_gone.load(std::memory_order_acquire);
    });
  }
  std::shared_ptr<Local>& mine = my_locals[id_];
  if (mine == nullptr) {
    mine = std::make_shared<Local>(heavy_places_, sample_every_, seed_);
    const std::scoped_lock lock(lock_);
    std::erase_if(locals_, [&](const std::shared_ptr<Local>& other) {
      if (other.use_count() > 1) return false;
      const std::scoped_lock sketch_lock(other->sketch_lock);  // the count orders nothing
      departed_heavy_.merge(other->heavy);
      other->tallies.add_to(departed_tallies_);
      return true;
    });
    locals_.push_back(mine);
  }
  last_used = {id_, mine.get()};
  return *mine;
}

TallySums Locals::tallies() const {
  const std::scoped_lock lock(lock_);
  TallySums sums = departed_tallies_;
  for (const std::shared_ptr<Local>& local : locals_) local->tallies.add_to(sums);
  return sums;
}

HeavyKeys Locals::heavy() const {
  HeavyKeys all(heavy_places_);
  const std::scoped_lock lock(lock_);
  all.merge(departed_heavy_);
  for (const std::shared_ptr<Local>& local : locals_) {
    const std::scoped_lock sketch_lock(local->sketch_lock);
    all.merge(local->heavy);
  }
  return all;
}

}  // namespace weir::engine
