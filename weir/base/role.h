// Role: what a client of the server may do.
//
// Each role may do what the ones before it may, so roles are compared: a client may
// use a command or route if `role >= needed`. A command or route names the role it
// needs. A token has one, and so has a local connection where no tokens are set.
//
// Thread safety: none needed. A role is a value.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir {

enum class Role : std::int8_t {
  kNobody = -1,  // has not said who it is: may only do so
  kObserve,      // read metrics and inspect keys
  kDecide,       // ask for decisions, end holds
  kAdmin,        // change limits and overrides
};

// What a client without a role may send as one request, and leave unread of its replies.
constexpr std::size_t kStrangerBytesMax = std::size_t{16} << 10;

// What a command or route does for a client whose token is bound (engine/reach.h).
enum class WhenBound : std::uint8_t {
  kRefuses,  // it may tell of others, or change what is theirs
  kAnswers,  // it concerns nobody else, or names what cannot be guessed, such as a hold
  kChecks,   // its handler asks the client's reach
};

// A row of a table of commands or routes that does so. Others refuse.
template <typename Row>
constexpr Row answers_when_bound(Row row) {
  row.when_bound = WhenBound::kAnswers;
  return row;
}
template <typename Row>
constexpr Row checks_when_bound(Row row) {
  row.when_bound = WhenBound::kChecks;
  return row;
}

// As configuration, documents and the log write it.
constexpr std::string_view to_string(Role role) noexcept {
  switch (role) {
    case Role::kNobody:
      return "nobody";
    case Role::kObserve:
      return "observe";
    case Role::kDecide:
      return "decide";
    case Role::kAdmin:
      return "admin";
  }
  return "unknown";
}

}  // namespace weir
