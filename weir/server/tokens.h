// Tokens: who may do what, changed by a reload while connections ask.
//
// Where no tokens are set, every client is an administrator. The configuration allows that
// only on listeners that cannot be reached from outside.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/role.h"
#include "weir/config/config.h"

namespace weir::server {

class Tokens {
 public:
  explicit Tokens(std::vector<config::AuthToken> tokens) { set(std::move(tokens)); }

  void set(std::vector<config::AuthToken> tokens) {
    const std::scoped_lock lock(lock_);
    tokens_ = std::move(tokens);
    is_open_.store(tokens_.empty(), std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_release);
  }

  // Grows with every set(): who remembers a role looks it up again then. Never 0.
  std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }

  // The role of a client with this token; empty: it has presented none.
  Role role_of(std::string_view token) const {
    if (is_open_.load(std::memory_order_acquire)) return Role::kAdmin;
    if (token.empty()) return Role::kNobody;
    const std::scoped_lock lock(lock_);
    Role role = Role::kNobody;
    for (const config::AuthToken& known : tokens_) {
      if (is_same(token, known.token)) role = known.role;
    }
    return role;
  }

  // Whether a client with this token speaks for consensus; administrators do in any case.
  bool speaks_for_consensus(std::string_view token) const {
    const std::scoped_lock lock(lock_);
    bool may = false;
    for (const config::AuthToken& known : tokens_) {
      if (is_same(token, known.token)) may = known.consensus;
    }
    return may;
  }

  // What it is called; empty: it is not known, or has no name.
  std::string name_of(std::string_view token) const {
    const std::scoped_lock lock(lock_);
    std::string name;
    for (const config::AuthToken& known : tokens_) {
      if (is_same(token, known.token)) name = known.name;
    }
    return name;
  }

 private:
  // Equal in a time that does not tell where they differ.
  static bool is_same(std::string_view a, std::string_view b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    }
    return difference == 0;
  }

  mutable std::mutex lock_;
  std::vector<config::AuthToken> tokens_;
  std::atomic<bool> is_open_{true};
  std::atomic<std::uint64_t> epoch_{0};
};

}  // namespace weir::server
