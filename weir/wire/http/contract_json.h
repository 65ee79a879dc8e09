// Contracts as JSON: what accounts are asked, and what they answer.
//
// Amounts are decimals in units, read exactly: a number, or a text with one in it.
//
//   {"requests":1,"processing_units":0.64,"max_delay":"30s"}
//
// Thread safety: none needed. Nothing is shared.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/fraction.h"
#include "weir/system/contract/processing_units.h"
#include "weir/wire/http/json.h"

namespace weir::wire::http {

// Costs as far as they were given, in millionths.
struct GivenCosts {
  std::optional<std::int64_t> requests_micro{};
  std::optional<std::int64_t> processing_units_micro{};

  bool empty() const noexcept { return !requests_micro && !processing_units_micro; }
  // Those that were not given are those of `otherwise`.
  system::contract::Costs over(const system::contract::Costs& otherwise) const noexcept;
};

// The body of POST /v1/contract/{account}/reserve.
Result<system::contract::Ask> read_reservation(std::string_view body, Texts& texts);

// The body of consume.
Result<system::contract::Costs> read_consumption(std::string_view body, Texts& texts);

// The body of commit, and of release, which gives no costs.
struct ReservationEnd {
  HoldId reservation{};
  GivenCosts actual{};
};
Result<ReservationEnd> read_commit(std::string_view body, Texts& texts);
Result<ReservationEnd> read_release(std::string_view body, Texts& texts);

// The body of feedback. `retry_after` is what the header said, in the account's unit, or a
// duration with a unit of its own.
struct FeedbackBody {
  HoldId reservation{};
  GivenCosts costs{};
  std::optional<Duration> retry_after{};
  std::string_view policy{};  // empty: none was named
};
Result<FeedbackBody> read_feedback(std::string_view body, system::contract::RetryAfterUnit unit,
                                   Texts& texts);

// The body of POST /v1/contract/processing-units. In contract_work.cc.
Result<system::contract::Work> read_work(std::string_view body, Texts& texts);

// A decimal of 0 or more, as a number or as a text; `read` makes something of it, or names
// what is wrong.
template <typename Value>
bool read_decimal(Reader& in, std::string_view name,
                  Result<Value> (*read)(std::string_view what, std::string_view text),
                  Value& value) {
  std::string_view text;
  if (!in.number_text(name, text)) return false;
  const Result<Value> made = read(name, text);
  if (!made) return in.fail(made.error().message);
  value = *made;
  return true;
}

void append_reserved(std::string& out, const system::contract::Reserved& reserved);
void append_consumed(std::string& out, const system::contract::Consumed& consumed);
void append_committed(std::string& out, engine::HoldState state,
                      const system::contract::Costs& debited);
// `has_more`: there may be others after the last of them.
void append_listed(std::string& out, const system::contract::Listing& listing);
void append_account(std::string& out, const system::contract::Account& account,
                    std::string_view user_id, const system::contract::AccountView& view,
                    Instant now);
// What to give back with counts of the service: what it may not have counted started or
// became final after this. In contract_sync_calls.cc.
std::string contract_mark(const system::contract::Totals& finals);
// A number of units: `-0.64`.
void append_units(std::string& out, std::int64_t micro);

}  // namespace weir::wire::http
