// Plan: which limits one request meets, at which keys and costs.
//
// Planning reads the request and the rules; it touches no meter and takes no
// lock. A plan belongs to the generation of rules it was made under: a decision by it
// first asks, under its locks, whether these rules are still in force.
//
//   Plan plan;
//   if (auto error = make_plan(active, request, plan)) return std::move(*error);
//   for (const PlanItem& item : plan.limits()) ...   // in the order of the rules
//
// Thread safety: a plan is a value; Active is immutable.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/engine/internal/rows.h"
#include "weir/engine/options.h"
#include "weir/engine/print.h"
#include "weir/engine/request.h"
#include "weir/engine/rule_set.h"

namespace weir::engine {

// A gate of one of the systems, with what the engine needs to lock it in order
// and to queue at it.
struct GateSeat {
  void lock() {
    seat_lock.lock();
    gate->lock();
  }
  void unlock() {
    gate->unlock();
    seat_lock.unlock();
  }

  std::shared_ptr<Gate> gate;
  std::uint64_t order = 0;  // gates are locked in this order, after all shards
  std::mutex seat_lock;
  Print print;              // of the limit that it is
  std::size_t waiters = 0;  // requests that have a place here
};

// A limit in force. What planning and deciding read of every request stands first,
// together, in two cache lines.
struct alignas(64) ActiveLimit {
  std::uint64_t attributes = 0;  // bits of the attributes that must be present
  Print seed;                    // of the name, for the prints of its keys
  RowId row = 0;                 // 0 for a gate
  std::uint8_t unit_place = 0;
  bool is_simple = false;  // no condition, exemption, weight or parent
  bool is_direct = false;  // neither gate nor slots nor shadow: may go the short way
  bool is_log = false;
  bool is_slots = false;
  bool is_shared = false;
  bool is_leased = false;  // shared, and units of it are drawn ahead
  bool shadow = false;
  std::uint32_t tally = 0;  // its place in tallies
  const Rule* rule = nullptr;
  GateSeat* seat = nullptr;   // of a gate
  std::string_view name;      // interned: outlives the rule set
  std::int64_t capacity = 0;  // the most the shape can hold
  MeterShape shape;

  std::string_view unit;     // interned
  std::uint64_t any_of = 0;  // bits of attributes of which one must be present; 0: none need be
  std::shared_ptr<GateSeat> owned_seat;
};

// A rule set in force.
struct Active {
  std::uint64_t generation = 0;
  std::shared_ptr<const RuleSet> rules;
  std::vector<ActiveLimit> limits;  // in the order of the rules
  Secret secret{};
  SettingNames names{};

  // The named limit, or nullptr.
  const ActiveLimit* find(std::string_view name) const noexcept {
    for (const ActiveLimit& limit : limits) {
      if (limit.name == name) return &limit;
    }
    return nullptr;
  }
};

// One limit of a plan.
struct PlanItem {
  const ActiveLimit* limit;
  Print print;
  std::int64_t cost;    // weight applied
  std::int64_t weight;  // cost of one unit of the request
};

struct Plan {
  // The items beyond count are neither written nor copied.
  Plan() noexcept {}
  Plan(const Plan& other) noexcept { *this = other; }
  Plan& operator=(const Plan& other) noexcept {
    generation = other.generation;
    count = other.count;
    has_gates = other.has_gates;
    has_slots = other.has_slots;
    has_shared = other.has_shared;
    is_direct = other.is_direct;
    is_unmatched = other.is_unmatched;
    logs = other.logs;
    std::copy_n(other.items.begin(), other.count, items.begin());
    return *this;
  }

  std::span<const PlanItem> limits() const noexcept { return std::span(items).first(count); }

  // A plan of no rules, which points at nothing of theirs.
  void clear() noexcept {
    begin(0);
    is_direct = false;
  }
  // Without items, for rules of this generation.
  void begin(std::uint64_t of) noexcept {
    generation = of;
    count = 0;
    has_gates = has_slots = has_shared = is_unmatched = false;
    is_direct = true;
    logs = 0;
  }
  // Requires room.
  PlanItem& add(const ActiveLimit& limit) noexcept {
    has_gates |= limit.seat != nullptr;
    has_slots |= limit.is_slots;
    has_shared |= limit.is_shared;
    is_direct &= limit.is_direct;
    logs |= std::uint32_t{limit.is_log} << count;
    PlanItem& item = items[count++];
    item.limit = &limit;
    return item;
  }

  std::uint64_t generation = 0;
  std::uint8_t count = 0;
  bool has_gates = false;
  bool has_slots = false;
  bool has_shared = false;
  bool is_direct = false;     // all its limits are
  bool is_unmatched = false;  // no limit reads what the request carries; then not direct
  std::uint32_t logs = 0;     // bit i: item i is one
  union {
    std::array<PlanItem, kLimitsPerRequestMax> items;
  };
};

// How long work lasts that is not ended: as long as the shortest of its slots says. Those in
// shadow have a say only if there are no others.
class ShortestHold {
 public:
  void add(const MeterShape& shape, bool shadow) noexcept {
    const auto* slots = std::get_if<meter::SlotsShape>(&shape);
    if (slots == nullptr) return;
    std::int64_t& shortest_ns = shadow ? in_shadow_ns_ : enforced_ns_;
    shortest_ns = std::min(shortest_ns, slots->hold_ns);
  }
  // kForever's if there are no slots.
  Duration length() const noexcept {
    return Duration{enforced_ns_ != kForever.ns ? enforced_ns_ : in_shadow_ns_};
  }

 private:
  std::int64_t enforced_ns_ = kForever.ns;
  std::int64_t in_shadow_ns_ = kForever.ns;
};

// Fills `plan`, or says what is wrong with the request and leaves it as it is. The error is
// behind a pointer because there almost never is one, and null fits in a register.
std::unique_ptr<Error> make_plan(const Active& active, const Request& request, Plan& plan);
std::unique_ptr<Error> bad_request(std::string message);

// The print of one key of one limit. Requires as many values as the limit has
// key attributes, in their order.
Print print_of(const Active& active, const ActiveLimit& limit,
               std::span<const std::string_view> values);

// Makes `packed` the values of the request's key of a limit: each behind its length in two bytes.
void pack_key(const Active& active, const ActiveLimit& limit, const Request& request,
              std::string& packed);
std::vector<std::string> unpack_key(std::string_view packed);

}  // namespace weir::engine
