#include "weir/server/account_parts.h"

namespace weir::server {
namespace {

constexpr std::string_view kPrefix = "contract/";

}  // namespace

using store::sqlite::Bytes;
using store::sqlite::Part;

std::vector<Part> AccountParts::changed(Instant now) {
  std::vector<Part> parts;
  const auto accounts = in_force_();
  if (accounts == nullptr) return parts;
  for (const auto& account : accounts->all()) {
    std::string name = std::string(kPrefix) + account->name();
    Written& written = written_[name];
    const std::uint64_t changes = account->changes();
    if (written.account.lock() == account && written.changes == changes) continue;
    // Read before it is saved: what comes in between is written once more.
    written = {account, changes};
    parts.push_back({std::move(name), account->save(now)});
  }
  return parts;
}

void AccountParts::mark_changed(const std::vector<Part>& parts) {
  for (const Part& part : parts) written_.erase(part.name);
}

Status AccountParts::restore(std::string_view name, Bytes bytes, Instant now) {
  const auto accounts = in_force_();
  if (accounts == nullptr || !name.starts_with(kPrefix)) return Done{};
  const auto account = accounts->find(name.substr(kPrefix.size()));
  return account ? (*account)->restore(bytes, now) : Status(Done{});
}

}  // namespace weir::server
