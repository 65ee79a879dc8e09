// Routes: everything the interface can be asked, as the rows of tables.
//
// One table has what the engine and the server are asked (routes.cc). Each system has one beside
// its handlers, such as throttle_routes.h; the server gives the Api those of its systems.
// Dispatch, 404 and 405, the check of roles, /openapi.json and the tables in docs/reference are
// all made from these rows (a test compares the pages).
//
// Thread safety: immutable.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "weir/base/role.h"
#include "weir/wire/http/headers.h"

namespace weir::wire::http {

struct Exchange;

// What a parameter of a query is for, as /openapi.json tells it.
struct QueryParameter {
  std::string_view name;
  bool required = false;
  bool repeats = false;
  std::string_view summary;
};

struct Route {
  std::string_view method;
  std::string_view path;  // one segment may be a parameter, such as `{limit}`
  Role role;              // needed
  void (*handle)(Exchange&);
  std::string_view name;  // unique
  std::string_view summary;
  std::string_view body{};    // schema of the request in /openapi.json; empty: none is read
  std::string_view answer{};  // schema of the answer, or its type: `text/plain`; empty: untold
  std::span<const QueryParameter> query{};
  bool takes_head = true;  // of a GET: whether HEAD is answered like it; not if it charges

  WhenBound when_bound = WhenBound::kRefuses;

  // The names in `query`, at most four.
  std::span<const std::string_view> query_names() const noexcept {
    return {names.data(), query.size()};
  }

  std::array<std::string_view, 4> names{};
};

// A row with parameters of a query.
constexpr Route with_names(Route route) {
  for (std::size_t i = 0; i < route.query.size(); ++i) route.names[i] = route.query[i].name;
  return route;
}

// An answer with another status than 200 that is no problem, as /openapi.json tells it.
struct Refusal {
  std::string_view answer;  // of the routes that may refuse so
  unsigned status;
  std::string_view description;
  std::string_view schema;   // empty: it has no body
  std::string_view route{};  // only of the one that has this name
};

// A header of an answer, as /openapi.json tells it. It may always be missing.
struct AnswerHeader {
  enum class On : std::uint8_t { kEvery, kSuccess, kRefusal };  // of status 200, or of another

  std::string_view answer;  // of the routes whose answers may have it
  On on;
  std::string_view name;
  std::string_view summary;
  std::string_view type = "string";    // of its value
  std::optional<HeaderStyle> style{};  // only where the server is set to this
};

// The schemas that the rows of a table name, and what these refer to.
struct Schemas {
  std::string_view json{};  // members of an object, without its braces: "Name":{...},...
  std::span<const Refusal> refusals{};
  std::span<const AnswerHeader> headers{};
};

// A table of routes. It outlives the Api that it is given to.
class RouteTable {
 public:
  explicit RouteTable(std::span<const Route> rows, const Schemas& schemas = {}) noexcept
      : rows_(rows), schemas_(schemas) {}
  virtual ~RouteTable() = default;

  std::span<const Route> rows() const noexcept { return rows_; }
  const Schemas& schemas() const noexcept { return schemas_; }

 private:
  const std::span<const Route> rows_;
  const Schemas schemas_;
};

// The table of a system. Its handlers speak to what is in force there when they are called:
// a `Part`, of which a handler gets one by Exchange::in_force<Part>().
template <typename Part>
class SystemRoutes final : public RouteTable {
 public:
  using InForce = std::function<Part()>;

  SystemRoutes(std::span<const Route> rows, InForce in_force, const Schemas& schemas = {})
      : RouteTable(rows, schemas), in_force_(std::move(in_force)) {}

  Part in_force() const { return in_force_(); }

 private:
  const InForce in_force_;
};

// What the engine and the server are asked. The hot route comes first.
const RouteTable& engine_routes() noexcept;

// The name of the route's parameter, such as `limit`; empty: it has none.
std::string_view parameter_of(const Route& route) noexcept;

// Whether `path`, as it came, is one of the route's. `parameter` becomes what stands for
// the parameter, which is never empty, or nothing. A path is compared byte by byte: an
// escaped letter of a fixed part is another path.
bool matches(const Route& route, std::string_view path, std::string_view& parameter) noexcept;

// The handlers of engine_routes(), by what they are about.
void acquire(Exchange& exchange);  // decide_calls.cc
void peek(Exchange& exchange);
void batch(Exchange& exchange);
void authorize(Exchange& exchange);
void settle(Exchange& exchange);  // hold_calls.cc
void cancel(Exchange& exchange);
void renew(Exchange& exchange);
void show_limits(Exchange& exchange);  // limit_calls.cc
void show_meters(Exchange& exchange);
void reset(Exchange& exchange);
void set_override(Exchange& exchange);
void clear_override(Exchange& exchange);
void reload(Exchange& exchange);  // server_calls.cc
void show_metrics(Exchange& exchange);
void show_health(Exchange& exchange);
void show_readiness(Exchange& exchange);
void stream_events(Exchange& exchange);
void show_openapi(Exchange& exchange);

}  // namespace weir::wire::http
