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
// What the names in a request settle is worked out once for a kind of request (Outline).
//
// Thread safety: a plan is a value; Active is immutable; outlines belong to one thread.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/engine/internal/table.h"
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

// Owned request: a request that keeps its own copies of everything, for plans that are made again:
// of requests that wait, those that a store is asked for, and prepared ones. The view refers to
// this object, so it is neither copied nor moved. Immutable.
class OwnedRequest {
 public:
  explicit OwnedRequest(const Request& request);
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;

  const Request& view() const noexcept { return view_; }

 private:
  std::vector<std::string> texts_;
  std::vector<Attribute> attributes_;
  std::vector<Cost> costs_;
  Request view_;
};

// A name to compare others with. A request names its attributes and units in plain text, and most
// decisions compare them. A name carries its first eight bytes as a number: they and the length
// settle almost every comparison without a call. A view: what it points to must outlive it.
class Name {
 public:
  explicit Name(std::string_view text) noexcept : head_(head_of(text)), text_(text) {}

  // Whether the texts are equal.
  bool is(std::string_view other) const noexcept {
    return text_.size() == other.size() && head_ == head_of(other) &&
           (other.size() <= 8 ||
            std::memcmp(text_.data() + 8, other.data() + 8, other.size() - 8) == 0);
  }

 private:
  // The first eight bytes, or all of a shorter name; read without a loop.
  static std::uint64_t head_of(std::string_view name) noexcept {
    const char* bytes = name.data();
    const std::size_t size = name.size();
    std::uint64_t head = 0;
    if (size >= 8) {
      std::memcpy(&head, bytes, 8);
    } else if (size >= 4) {
      std::uint32_t first;
      std::uint32_t last;
      std::memcpy(&first, bytes, 4);
      std::memcpy(&last, bytes + size - 4, 4);
      head = (std::uint64_t{last} << 32) | first;
    } else if (size > 0) {
      const auto byte = [&](std::size_t i) {
        return std::uint64_t{static_cast<unsigned char>(bytes[i])};
      };
      head = byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
    }
    return head;
  }

  std::uint64_t head_;
  std::string_view text_;
};

// A limit that can apply, with places in the rules replaced by places in the request.
struct Candidate {
  const ActiveLimit* limit = nullptr;
  std::int16_t parent = -1;    // the candidate that it draws on too
  std::int16_t cost = -1;      // place of its cost; -1: none is given, so it is 1
  bool applies_alone = false;  // false: only as the ancestor of another
  bool continues_key = false;  // its key is that of the candidate before it
  std::uint8_t per_count = 0;
  std::array<std::uint8_t, kKeyAttributesMax> per{};  // places of the key's values
};

// Outline: what the names in a request settle, before its values are looked at.
//
// Requests of one kind name the same attributes and units in the same order. From
// these alone follows which limits can apply, where in the request the values of
// each key stand, and whether a name is unknown. So that is worked out once for a
// kind; each thread remembers the kinds it has met last, and planning one more
// request reads only its values.
//
//   names:   client, operation            costs: bytes
//   limits:  per-client  key (client)                 cost 1
//            put-bytes   key (client, operation)      cost of `bytes`, when operation=put
//
// An outline has a plan too, in which all that names settle is written once. It belongs to one
// thread.
class Outline {
 public:
  // Works out the outline of `request`, or says which of its names is wrong.
  static std::unique_ptr<Error> make(const Active& active, const Request& request,
                                     Outline& outline);

  // Whether `request` has exactly these names.
  bool describes(const Request& request) const noexcept {
    if (request.attributes.size() != attributes_.size() || request.costs.size() != units_.size()) {
      return false;
    }
    for (std::size_t i = 0; i < attributes_.size(); ++i) {
      if (!attributes_[i].is(request.attributes[i].name)) return false;
    }
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (!units_[i].is(request.costs[i].unit)) return false;
    }
    return true;
  }

  const std::vector<Name>& attributes() const noexcept { return attributes_; }
  // In the order of the rules.
  const std::vector<Candidate>& candidates() const noexcept { return candidates_; }
  // Of the most common kind, whose only attribute is the key of the one limit that
  // applies: that limit, if it is decided directly and has no log; else nullptr.
  const ActiveLimit* sole_limit() const noexcept;
  // Where in the request the attribute with this place in the rules stands, or -1.
  int place_of(std::size_t attribute) const noexcept { return places_[attribute]; }

  // Plans `request`, which the outline describes, or says what is wrong with its values.
  std::unique_ptr<Error> fill_plan(const Active& active, const Request& request);
  // Of the request that was planned last.
  const Plan& plan() const noexcept { return plan_; }

 private:
  void begin_plan(std::uint64_t generation);

  std::vector<Name> attributes_;
  std::vector<Name> units_;
  std::vector<Candidate> candidates_;
  std::array<std::int8_t, kAttributesMax> places_{};
  bool plain_ = true;  // every candidate applies whatever the values are
  Plan plan_;
};

// The outlines one thread has met last, all of the same rules.
class Outlines {
 public:
  Outlines() { known_.reserve(kKept); }

  // Rules have changed.
  void clear() noexcept {
    known_.clear();
    last_ = nullptr;
    sole_ = nullptr;
    oldest_ = 0;
  }

  // Plans `request`, or says what is wrong with it.
  std::unique_ptr<Error> make_plan(const Active& active, const Request& request);
  // The plan made last, until the next. Requires one.
  const Plan& plan() const noexcept { return last_->plan(); }

  // The limit of a request that is of the kind met last, if that has a sole limit;
  // else nullptr.
  const ActiveLimit* sole_limit(const Request& request) const noexcept {
    return sole_ != nullptr && request.attributes.size() == 1 && request.costs.empty() &&
                   sole_name_.is(request.attributes[0].name)
               ? sole_
               : nullptr;
  }

 private:
  static constexpr std::size_t kKept = 16;

  std::vector<Outline> known_;
  Outline draft_;  // the next one; its memory is used again
  Outline* last_ = nullptr;
  const ActiveLimit* sole_ = nullptr;
  Name sole_name_{""};
  std::size_t oldest_ = 0;  // the next to be replaced
};

}  // namespace weir::engine
