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
// Thread safety: an Outline is immutable; Outlines belong to one thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weir/base/result.h"
#include "weir/engine/names.h"
#include "weir/engine/plan.h"
#include "weir/engine/request.h"

namespace weir::engine {

// A limit that can apply, with places in the rules replaced by places in the request.
struct Candidate {
  const ActiveLimit* limit = nullptr;
  std::int16_t parent = -1;    // the candidate that it draws on too
  std::int16_t cost = -1;      // place of its cost; -1: none is given, so it is 1
  bool applies_alone = false;  // false: only as somebody's ancestor
  bool continues_key = false;  // its key is that of the candidate before it
  std::uint8_t per_count = 0;
  std::array<std::uint8_t, kKeyAttributesMax> per{};  // places of the key's values
};

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
  // Every candidate applies whatever the values are.
  bool is_plain() const noexcept { return plain_; }
  // Of the most common kind, whose only attribute is the key of the one limit that
  // applies: that limit, if it is decided directly and has no log; else nullptr.
  const ActiveLimit* sole_limit() const noexcept;
  // Of all candidates together, as a plan has them.
  bool has_gates() const noexcept { return has_gates_; }
  bool has_slots() const noexcept { return has_slots_; }
  bool has_shared() const noexcept { return has_shared_; }
  bool is_direct() const noexcept { return direct_; }
  // Where in the request the attribute with this place in the rules stands, or -1.
  int place_of(std::size_t attribute) const noexcept { return places_[attribute]; }

 private:
  std::vector<Name> attributes_;
  std::vector<Name> units_;
  std::vector<Candidate> candidates_;
  std::array<std::int8_t, kAttributesMax> places_{};
  bool plain_ = true;
  bool has_gates_ = false;
  bool has_slots_ = false;
  bool has_shared_ = false;
  bool direct_ = true;
};

// Plans `request`, which `outline` describes, or says what is wrong with its values.
std::unique_ptr<Error> make_plan(const Active& active, const Outline& outline,
                                 const Request& request, Plan& plan);

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

  std::unique_ptr<Error> make_plan(const Active& active, const Request& request, Plan& plan);

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
  const Outline* last_ = nullptr;
  const ActiveLimit* sole_ = nullptr;
  Name sole_name_{""};
  std::size_t oldest_ = 0;  // the next to be replaced
};

}  // namespace weir::engine
