// Reply: what Redis answered, and Answer: a reply, or the failure that stands for it.
//
// Both are views, valid during the callback they are given to. Reading a reply as
// something it is not gives nothing, so that a reply of the wrong form is found where it
// is read:
//
//   const auto count = answer.reply().at(0).integer();   // std::optional
//   if (!count) return wrong_form(...);
//
// Thread safety: none needed, a reply does not change.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/base/assert.h"
#include "weir/store/redis/link/failure.h"

struct redisReply;

namespace weir::store::redis {

class Reply {
 public:
  Reply() = default;  // nothing was answered there
  explicit Reply(const redisReply* raw) : raw_(raw) {}

  bool is_nil() const noexcept;
  std::optional<std::int64_t> integer() const noexcept;   // of an integer reply only
  std::optional<std::string_view> text() const noexcept;  // of a string or a status
  // A whole number in decimal digits, sent as a string or as an integer.
  std::optional<std::int64_t> number() const noexcept;

  bool is_array() const noexcept;
  std::size_t size() const noexcept;  // of an array, else 0
  // The element, or a reply that is nothing beyond the end.
  Reply at(std::size_t index) const noexcept;

 private:
  const redisReply* raw_ = nullptr;
};

class Answer {
 public:
  explicit Answer(Reply reply) : reply_(reply) {}
  explicit Answer(const Failure& failure) : failure_(&failure) {}

  bool ok() const noexcept { return failure_ == nullptr; }
  const Reply& reply() const {
    WEIR_ASSERT(ok());
    return reply_;
  }
  const Failure& failure() const {
    WEIR_ASSERT(!ok());
    return *failure_;
  }

 private:
  Reply reply_;
  const Failure* failure_ = nullptr;
};

}  // namespace weir::store::redis
