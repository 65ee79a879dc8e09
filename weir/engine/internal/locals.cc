#include "weir/engine/internal/locals.h"
#include "weir/base/integer.h"

#include <algorithm>
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
    mine = std::make_shared<Local>(heavy_places_, seed_);
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

void Locals::keep_heavy(const std::function<bool(std::string_view)>& is_kept) {
  const std::scoped_lock lock(lock_);
  departed_heavy_.keep(is_kept);
  for (const std::shared_ptr<Local>& local : locals_) {
    const std::scoped_lock sketch_lock(local->sketch_lock);
    local->heavy.keep(is_kept);
  }
}

std::string* HeavyKeys::add(std::string_view limit, Print print, std::int64_t units) {
  if (places_ == 0) return nullptr;
  auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) found = by_limit_.emplace(limit, Places{}).first;
  auto& [counts, texts] = found->second;
  std::size_t lightest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].print == print) {
      counts[i].units = saturate(Wide{counts[i].units} + units);
      return nullptr;
    }
    lightest = counts[i].units < counts[lightest].units ? i : lightest;
  }
  if (counts.size() < places_) {
    counts.push_back({print, units});
    return &texts.emplace_back();
  }
  counts[lightest] = {print, saturate(Wide{counts[lightest].units} + units)};
  return &texts[lightest];
}

void HeavyKeys::merge(const HeavyKeys& other) {
  for (const auto& [limit, places] : other.by_limit_) {
    for (std::size_t i = 0; i < places.counts.size(); ++i) {
      const Count& count = places.counts[i];
      if (std::string* text = add(limit, count.print, count.units)) *text = places.texts[i];
    }
  }
}

std::vector<HeavyKeys::Entry> HeavyKeys::heaviest(std::string_view limit, std::size_t count) const {
  const auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) return {};
  const auto& [counts, texts] = found->second;
  std::vector<Entry> entries;
  entries.reserve(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    entries.push_back({counts[i].print, counts[i].units, texts[i]});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.units > b.units; });
  if (entries.size() > count) entries.resize(count);
  return entries;
}

}  // namespace weir::engine
