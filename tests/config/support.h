// What the tests of weir/config share.

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "weir/config/config.h"

namespace weir::config {

// The mistakes of a file called `f`; empty if it has none.
inline std::string mistakes_of(std::string_view text, const ReadFile& read_file = {}) {
  const Result<Config> config = parse(text, "f", read_file);
  if (config) return "";
  EXPECT_EQ(config.error().code, ErrorCode::kBadArgument);
  return config.error().message;
}

// The configuration of a file without mistakes.
inline Config config_of(std::string_view text, const ReadFile& read_file = {}) {
  Result<Config> config = parse(text, "f", read_file);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config ? std::move(*config) : Config{};
}

// Every file says this.
inline ReadFile saying(std::string text) {
  return [text = std::move(text)](const std::string&) { return Result<std::string>(text); };
}

// The only limit of a file, given without its name.
inline engine::LimitSpec limit_of(const std::string& rest, const std::string& before = "") {
  const Config config = config_of(before + "limits:\n  - { name: a, " + rest + " }\n");
  EXPECT_EQ(config.limits_spec.limits.size(), 1u);
  return config.limits_spec.limits.empty() ? engine::LimitSpec{} : config.limits_spec.limits[0];
}

inline std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

}  // namespace weir::config
