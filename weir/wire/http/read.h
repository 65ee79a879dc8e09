// Bodies: JSON to what the engine is asked.
//
//   {"attributes":{"client":"acme"},"costs":{"tokens":1200},"hold":"60s"}
//
// A member that is not known is an error that names it and the known ones; so is one
// that is written twice. Everything that was read points into the body, which must
// outlive it.
//
// Thread safety: none needed; nothing is shared.

#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/engine/request.h"
#include "weir/engine/rules.h"
#include "weir/wire/http/json.h"

namespace weir::wire::http {

constexpr std::size_t kBodyBytesMax = std::size_t{1} << 20;

// How the units of an engine's rules are counted, for reading amounts of them: whole, or
// decimal where a unit is counted in millionths. What no rule knows is read as whole.
class Scales {
 public:
  Scales() = default;  // everything whole
  explicit Scales(const engine::Engine& engine) noexcept : engine_(&engine) {}

  engine::UnitScale of_unit(std::string_view unit) const;
  engine::UnitScale of_limit(std::string_view limit) const;

 private:
  const engine::Engine* engine_ = nullptr;
};

// A whole number, or a decimal in millionths: 0.64 is 640,000.
bool read_amount(Reader& in, const What& what, engine::UnitScale scale, std::int64_t& value);

bool read_between(Reader& in, const What& what, std::int64_t least, std::int64_t most,
                  std::int64_t& value);
bool read_natural(Reader& in, const What& what, std::int64_t& value);

using Costs = boost::container::small_vector<engine::Cost, 4>;

// One ask as it was written; options of zero or nothing were not given.
struct AskBody {
  boost::container::small_vector<engine::Attribute, 8> attributes{};
  Costs costs{};
  std::string_view up_to{};
  Duration hold{};
  Duration wait{};
  Duration book_within{};
  Scales scales{};  // for the costs

  // What the engine is asked at `now`. Good as long as this is, and not moved.
  engine::Ask at(Instant now) const noexcept {
    return {.request = {attributes, costs},
            .hold = hold,
            .up_to = up_to,
            .book_within = book_within,
            .wait_until = wait.count() > 0 ? now + wait : Instant{}};
  }
};

enum class Options : bool { kNone, kAll };

Result<AskBody> read_ask(std::string_view body, Options options, Texts& texts, Scales scales = {});

struct Batch {
  std::vector<AskBody> asks{};
  bool is_too_long = false;  // more than asks_max; the rest was not read
};
Result<Batch> read_batch(std::string_view body, std::size_t asks_max, Texts& texts,
                         Scales scales = {});

// An id as hold_text() writes it: of a hold, or of what is given out likewise. `of` says of what,
// and `from` where the member is found, for the error.
bool read_id(Reader& in, std::string_view name, std::string_view of, std::string_view from,
             HoldId& into);

struct Settlement {
  HoldId hold{};
  Costs costs{};
  Scales scales{};
};
Result<Settlement> read_settlement(std::string_view body, Texts& texts, Scales scales = {});

Result<HoldId> read_cancellation(std::string_view body, Texts& texts);

struct Renewal {
  HoldId hold{};
  Duration ttl{-1};
};
Result<Renewal> read_renewal(std::string_view body, Texts& texts);

struct KeyName {
  std::string_view limit{};
  std::vector<std::string_view> key{};
  bool and_holds = false;  // its holds end, too
};
Result<KeyName> read_key_name(std::string_view body, Texts& texts);

// The parameters of a meter: {"kind":"bucket","amount":100,"period":"1s","burst":200}.
// Whether they make sense is for the engine to say. In read_meter.cc. `scale`: of the
// limit's unit.
Result<engine::MeterSpec> read_meter(std::string_view body, Texts& texts,
                                     engine::UnitScale scale = engine::UnitScale::kWhole);

// What every reader checks first: neither empty nor too long, and UTF-8.
Status check_body(std::string_view body);
Status check_utf8(std::string_view what, std::string_view text);

// A body that is an object with members out of `members`.
template <typename Into>
Status read_object(std::string_view body, std::span<const Member<Into>> members, Texts& texts,
                   Into& into) {
  if (Status status = check_body(body); !status) return status;
  Reader in(body, texts);
  if (!in.object("the body", members, into) || !in.end()) return in.error();
  return Done{};
}
template <typename Into>
Result<Into> read_object(std::string_view body, std::span<const Member<Into>> members,
                         Texts& texts) {
  Into into;
  if (Status status = read_object(body, members, texts, into); !status) {
    return std::move(status).error();
  }
  return into;
}

}  // namespace weir::wire::http
