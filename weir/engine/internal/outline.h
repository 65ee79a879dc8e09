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
// An outline has a plan too, in which all that names settle is written once.
//
// Thread safety: none; they belong to one thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/request.h"

namespace weir::engine {

// Name: a text to compare others with.
//
// A request names its attributes and units in plain text, and most decisions compare them.
// A name carries its first eight bytes as a number: they and the length settle almost
// every comparison without a call.
//
// Thread safety: immutable.

// A name to compare others with. A view: what it points to must outlive it.
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
