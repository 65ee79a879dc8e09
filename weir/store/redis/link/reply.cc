#include "weir/store/redis/link/reply.h"

#include <hiredis/hiredis.h>

#include <charconv>

namespace weir::store::redis {

bool Reply::is_nil() const noexcept { return raw_ != nullptr && raw_->type == REDIS_REPLY_NIL; }

std::optional<std::int64_t> Reply::integer() const noexcept {
  if (raw_ == nullptr || raw_->type != REDIS_REPLY_INTEGER) return std::nullopt;
  return raw_->integer;
}

std::optional<std::string_view> Reply::text() const noexcept {
  if (raw_ == nullptr) return std::nullopt;
  if (raw_->type != REDIS_REPLY_STRING && raw_->type != REDIS_REPLY_STATUS) return std::nullopt;
  return std::string_view(raw_->str, raw_->len);
}

std::optional<std::int64_t> Reply::number() const noexcept {
  if (const auto whole = integer()) return whole;
  const auto digits = text();
  if (!digits) return std::nullopt;
  std::int64_t value = 0;
  const char* end = digits->data() + digits->size();
  const auto [stop, error] = std::from_chars(digits->data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

bool Reply::is_array() const noexcept { return raw_ != nullptr && raw_->type == REDIS_REPLY_ARRAY; }

std::size_t Reply::size() const noexcept { return is_array() ? raw_->elements : 0; }

Reply Reply::at(std::size_t index) const noexcept {
  return index < size() ? Reply(raw_->element[index]) : Reply();
}

}  // namespace weir::store::redis
