// Rules: limits, written down, and compiled for good.
//
// A limit says which requests it applies to (`when`, `exempt`), which attributes
// form its key (`per`), which unit it counts, how it weighs the cost, and the
// meter with its parameters. These are plain descriptions, in which nothing is checked:
//
//   LimitSpec{.name = "per-client",
//             .per = {"client"},
//             .meter = BucketSpec{.amount = 100, .period = 1s, .burst = 200}}
//
// compile() checks them and makes a rule set of them. It reports every mistake of a specification
// in one error, a line each, naming the limit. A rule set never changes; an engine swaps one for
// another, and several engines may share one.
//
//   auto rules = compile({.limits = {...}});
//   if (!rules) return complain(rules.error().message);
//   engine->swap(*rules, clock.now());
//
// What a field must be, compile() says in its errors; the bounds are below and in
// docs/reference/library.md.
//
// Thread safety: descriptions are values, and a rule set is immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weir/base/export.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/gate.h"
#include "weir/meter/calendar.h"
#include "weir/meter/ticker.h"

namespace weir::engine {

constexpr std::size_t kLimitsMax = 1024;      // limits of one rule set
constexpr std::size_t kKeyAttributesMax = 8;  // attributes that form one limit's key
constexpr std::size_t kNameBytesMax = 128;    // of limits, attributes and units
constexpr std::size_t kPatternsMax = 4096;    // patterns of one condition, weights of one table
constexpr std::int64_t kWeightMax = std::int64_t{1} << 32;

// An average rate with a bounded burst, refilled evenly: 100 a second, 200 at once.
struct BucketSpec {
  std::int64_t amount = 0;  // units gained ...
  Duration period{};        // ... in this time
  std::int64_t burst = 0;   // 0: as many as `amount`
};

// Whole units that come back tick by tick, and nothing between two ticks.
struct TickerSpec {
  std::int64_t per_tick = 1;
  Duration interval{};     // from one tick to the next
  std::int64_t burst = 0;  // the most there can be; 0: as many as `per_tick`
  meter::TickerStart start = meter::TickerStart::kFull;
};

// So many in each window; all are back when the next one begins. Windows begin at
// multiples of `every` since 1970.
struct WindowSpec {
  std::int64_t limit = 0;
  Duration every{};
};

// The same in each day, week, month or year, in UTC.
struct CalendarSpec {
  std::int64_t limit = 0;
  meter::CalendarUnit every = meter::CalendarUnit::kDay;
};

// Never more than so many in any window of this length, wherever it begins.
struct LogSpec {
  std::int64_t limit = 0;
  Duration window{};
};

// So many at once: a slot comes back when the work's hold ends.
struct SlotsSpec {
  std::int64_t limit = 0;
  std::int64_t queue = 0;                   // requests that may wait here
  Duration hold = std::chrono::minutes{1};  // how long an admission lasts that is not ended
};

// The name of a gate. compile() is given the gate itself.
struct GateRef {
  std::string name;

  friend bool operator==(const GateRef&, const GateRef&) = default;
};

// The parameters of one meter, or a gate of one of the systems: by its name, as in a file, or
// the gate itself, as a program that has just made one writes it.
using MeterSpec = std::variant<BucketSpec, TickerSpec, WindowSpec, CalendarSpec, LogSpec, SlotsSpec,
                               GateRef, std::shared_ptr<Gate>>;

// True when the attribute is present and one of the patterns matches its value.
// `*` stands for any characters and `?` for one; a pattern without them is equality.
struct Condition {
  std::string attribute;
  std::vector<std::string> patterns;

  friend bool operator==(const Condition&, const Condition&) = default;
};

// How much a unit of the request's cost counts here, by the value of an attribute.
struct Weights {
  std::string attribute;
  std::vector<std::pair<std::string, std::int64_t>> table;  // value to weight; others weigh 1
};

// What becomes of requests while the store of a shared limit cannot be asked.
enum class Outage : std::uint8_t {
  kDeny,   // they fail: nothing is admitted on a guess
  kAllow,  // the limit does not count
  kLocal,  // each server decides alone, with its last share of the limit
};

constexpr Duration kLeaseLengthLeast = std::chrono::milliseconds{100};
constexpr Duration kLeaseLengthMost = std::chrono::hours{1};

// Units of a shared limit that one engine draws ahead, to decide by itself.
struct LeaseSpec {
  std::int64_t most = 0;                      // of one key; 0: a tenth of the limit, at least 1
  Duration length = std::chrono::seconds{1};  // how long they may be used

  friend bool operator==(const LeaseSpec&, const LeaseSpec&) = default;
};

// One limit for all engines that use the same store.
struct SharedSpec {
  Outage outage = Outage::kDeny;
  std::optional<LeaseSpec> lease{};  // none: the store is asked each time

  friend bool operator==(const SharedSpec&, const SharedSpec&) = default;
};

// One limit. It applies to a request that has its attributes, meets `when`, and is not exempt.
struct LimitSpec {
  std::string name;
  std::vector<Condition> when{};   // all must hold; none: applies to every request
  std::vector<std::string> per{};  // none: one meter for all
  std::string unit{"requests"};
  Weights weigh{};
  std::vector<std::vector<Condition>> exempt{};  // any group whose conditions all hold
  bool shadow = false;                           // counted and reported, never enforced
  std::string parent{};                          // a limit that is drawn on too
  std::int64_t queue_max = 1024;  // requests that may wait here (slots have their own)
  // The most that settling may leave it to owe. None: ten times what it can hold.
  std::optional<std::int64_t> overage{};
  std::int64_t keys = 0;  // that it may have in the table; 0: a fair share
  MeterSpec meter{};
  std::optional<SharedSpec> shared{};  // none: kept in this process
};

enum class UnitScale : std::uint8_t {
  kWhole,  // amounts are whole units
  kMicro,  // amounts are whole millionths
};

struct UnitSpec {
  std::string name;
  UnitScale scale = UnitScale::kWhole;
};

// What a request is answered that meets no limit because of what it carries: no limit reads
// these attributes and units. One that a limit exempts, or whose values a limit does not mean,
// is admitted in any case.
enum class Unmatched : std::uint8_t {
  kAllow,
  kDeny,   // denied, by no limit
  kError,  // ErrorCode::kUnmatched
};

// What compile() makes a rule set of.
struct RuleSetSpec {
  std::vector<LimitSpec> limits{};
  std::vector<UnitSpec> units{};          // besides `requests`
  std::vector<std::string> attributes{};  // that requests may carry though no limit reads them
  Unmatched unmatched = Unmatched::kAllow;
};

class RuleSet;

// The gates that limits may name (GateRef).
using Gates = std::map<std::string, std::shared_ptr<Gate>, std::less<>>;

// The limits, ready to decide by. An error is kBadArgument and names all mistakes. A limit that
// names a gate which is not in `gates` is one; limits that name no gate need no `gates`.
WEIR_EXPORT Result<std::shared_ptr<const RuleSet>> compile(const RuleSetSpec& spec,
                                                           const Gates& gates = {}) noexcept;

}  // namespace weir::engine
