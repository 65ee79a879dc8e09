// Script: a Lua script that Redis runs by its SHA-1, which is computed once.
//
// Redis names a script so in SCRIPT LOAD and EVALSHA: 40 hex digits over its text.
//
// Thread safety: a script does not change.

#pragma once

#include <string>
#include <string_view>

namespace weir::store::redis {

class Script {
 public:
  // `name` is for messages.
  Script(std::string_view name, std::string_view text);

  const std::string& name() const noexcept { return name_; }
  const std::string& text() const noexcept { return text_; }
  const std::string& sha() const noexcept { return sha_; }  // 40 hex digits

 private:
  std::string name_;
  std::string text_;
  std::string sha_;
};

}  // namespace weir::store::redis
