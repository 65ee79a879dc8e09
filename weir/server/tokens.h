// Tokens: who may do what, changed by a reload while connections ask.
//
// A token is looked up by its digest, SHA-256 over a secret of this process and the token. So
// how long a look-up takes says nothing about the tokens there are: what is compared cannot be
// computed outside, and depends on every byte that was presented. The tokens themselves are
// not kept.
//
// Where no tokens are set, every client is an administrator. The configuration allows that
// only on listeners that cannot be reached from outside.
//
// Thread safety: every function may be called from any thread. Each thread keeps the table
// that it saw last, so a look-up takes a lock only after a change.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weir/base/role.h"
#include "weir/config/config.h"
#include "weir/engine/print.h"
#include "weir/engine/reach.h"

namespace weir::server {

class Tokens {
 public:
  explicit Tokens(const std::vector<config::AuthToken>& tokens) { set(tokens); }

  void set(const std::vector<config::AuthToken>& tokens);

  // Another with every set(): who remembers a role looks it up again then. Never 0.
  std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }

  // What a client with this token may do; empty: it has presented none.
  engine::Standing standing_of(std::string_view token) const;
  Role role_of(std::string_view token) const { return standing_of(token).role; }

  // Whether a client with this token speaks for consensus; administrators do in any case.
  bool speaks_for_consensus(std::string_view token) const;

  // What it is called; empty: it is not known, or has no name.
  std::string name_of(std::string_view token) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct DigestHash {
    std::size_t operator()(const Digest& digest) const noexcept;
  };
  struct Known {
    engine::Standing standing{};
    std::string name{};
    bool consensus = false;
  };
  using Table = std::unordered_map<Digest, Known, DigestHash>;

  Digest digest_of(std::string_view token) const;
  const Table& table() const;
  const Known* find(std::string_view token) const;  // nullptr: it is not known

  const engine::Secret secret_ = engine::random_secret();
  mutable std::mutex lock_;
  std::shared_ptr<const Table> table_;  // never changed, only replaced
  std::atomic<bool> is_open_{true};
  std::atomic<std::uint64_t> epoch_{0};
};

}  // namespace weir::server
