#include "weir/server/throttle_parts.h"

#include <iterator>
#include <span>

namespace weir::server {
namespace {

namespace throttle = system::throttle;
using store::sqlite::Bytes;
using store::sqlite::Part;
using throttle::Role;

struct Kept {
  std::string_view name;
  Role role;
};
constexpr Kept kKept[] = {{"throttle/front_end", Role::kFrontEnd},
                          {"throttle/consensus", Role::kConsensus}};

}  // namespace

std::vector<Part> ThrottleParts::changed(Instant) {
  std::vector<Part> parts;
  const auto throttles = in_force_();
  if (throttles == nullptr) return parts;
  for (const Kept& kept : kKept) {
    std::string snapshot = throttles->snapshot(kept.role);
    std::string& written = written_[std::string(kept.name)];
    if (written == snapshot) continue;
    const auto bytes = std::as_bytes(std::span(snapshot));
    parts.push_back({std::string(kept.name), {bytes.begin(), bytes.end()}});
    written = std::move(snapshot);
  }
  return parts;
}

void ThrottleParts::mark_changed(const std::vector<Part>& parts) {
  for (const Part& part : parts) written_.erase(part.name);
}

Status ThrottleParts::restore(std::string_view name, Bytes bytes, Instant) {
  const auto throttles = in_force_();
  if (throttles == nullptr) return Done{};
  for (const Kept& kept : kKept) {
    if (kept.name != name) continue;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // Our own clock: should it have been set back, no time has passed until it is there again.
    const auto report = throttles->restore(kept.role, text, kForever);
    if (!report) return report.error();
  }
  return Done{};
}

std::vector<Part> AllParts::changed(Instant now) {
  std::vector<Part> all;
  for (store::sqlite::Parts* each : of_) {
    std::vector<Part> parts = each->changed(now);
    all.insert(all.end(), std::make_move_iterator(parts.begin()),
               std::make_move_iterator(parts.end()));
  }
  return all;
}

void AllParts::mark_changed(const std::vector<Part>& parts) {
  for (store::sqlite::Parts* each : of_) each->mark_changed(parts);
}

Status AllParts::restore(std::string_view name, Bytes bytes, Instant now) {
  for (store::sqlite::Parts* each : of_) {
    if (Status status = each->restore(name, bytes, now); !status) return status;
  }
  return Done{};
}

}  // namespace weir::server
