#include "weir/server/tokens.h"

#include <openssl/sha.h>

#include <cstring>
#include <utility>

namespace weir::server {
namespace {

// Of all Tokens of the process, so that what a thread keeps cannot be taken for another's.
std::atomic<std::uint64_t> last_epoch{0};

}  // namespace

std::size_t Tokens::DigestHash::operator()(const Digest& digest) const noexcept {
  std::size_t hash;
  std::memcpy(&hash, digest.data(), sizeof hash);
  return hash;
}

Tokens::Digest Tokens::digest_of(std::string_view token) const {
  std::array<unsigned char, sizeof(engine::Secret) + config::kTokenBytesMax> text;
  std::memcpy(text.data(), secret_.data(), sizeof secret_);
  std::memcpy(text.data() + sizeof secret_, token.data(), token.size());
  Digest digest;
  ::SHA256(text.data(), sizeof secret_ + token.size(), digest.data());
  return digest;
}

void Tokens::set(const std::vector<config::AuthToken>& tokens) {
  auto table = std::make_shared<Table>();
  for (const config::AuthToken& token : tokens) {
    Known known{{token.role}, token.name, token.consensus};
    if (token.reach.is_bound()) {
      known.standing.reach = std::make_shared<const engine::Reach>(token.reach);
    }
    table->insert_or_assign(digest_of(token.token), std::move(known));
  }
  const std::scoped_lock lock(lock_);
  is_open_.store(table->empty(), std::memory_order_release);
  table_ = std::move(table);
  epoch_.store(last_epoch.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
}

const Tokens::Table& Tokens::table() const {
  struct Kept {
    std::uint64_t epoch = 0;
    std::shared_ptr<const Table> table{};
  };
  thread_local Kept kept;
  if (kept.epoch != epoch()) {
    const std::scoped_lock lock(lock_);
    kept = {epoch_.load(std::memory_order_relaxed), table_};
  }
  return *kept.table;
}

const Tokens::Known* Tokens::find(std::string_view token) const {
  if (token.empty() || token.size() > config::kTokenBytesMax) return nullptr;
  const Table& known = table();
  const auto found = known.find(digest_of(token));
  return found == known.end() ? nullptr : &found->second;
}

engine::Standing Tokens::standing_of(std::string_view token) const {
  if (is_open_.load(std::memory_order_acquire)) return {Role::kAdmin};
  const Known* const known = find(token);
  return known == nullptr ? engine::Standing{} : known->standing;
}

bool Tokens::speaks_for_consensus(std::string_view token) const {
  const Known* const known = find(token);
  return known != nullptr && known->consensus;
}

std::string Tokens::name_of(std::string_view token) const {
  const Known* const known = find(token);
  return known == nullptr ? std::string() : known->name;
}

}  // namespace weir::server
