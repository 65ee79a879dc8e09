#include "weir/wire/http/contract_json.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <span>

#include "weir/base/hold_text.h"
#include "weir/engine/quantity.h"
#include "weir/system/contract/period.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace contract = system::contract;

template <auto Member, typename Into>
bool read_amount(Reader& in, std::string_view name, Into& into) {
  std::int64_t micro = 0;
  if (!read_decimal(in, name, contract::parse_micro, micro)) return false;
  into.*Member = micro;
  return true;
}
bool read_requests(Reader& in, GivenCosts& costs) {
  return read_amount<&GivenCosts::requests_micro>(in, "requests", costs);
}
bool read_processing_units(Reader& in, GivenCosts& costs) {
  return read_amount<&GivenCosts::processing_units_micro>(in, "processing_units", costs);
}

bool read_reservation_id(Reader& in, HoldId& reservation) {
  std::string_view text;
  if (!in.text("reservation", text)) return false;
  const std::optional<HoldId> read = read_hold(text);
  if (!read) {
    return in.wrong("reservation", fmt::format("'{}'", text.substr(0, 64)),
                    "the id of a reservation",
                    "the 'reservation' of an answer, such as \"00000000000004d2-17\"");
  }
  reservation = *read;
  return true;
}

struct ContractAskBody {
  GivenCosts costs{};
  contract::Ask ask{};
};

bool read_deadline(Reader& in, ContractAskBody& into) {
  std::int64_t deadline_ns = 0;
  if (!in.integer("deadline_ns", deadline_ns)) return false;
  if (deadline_ns < 0) {
    return in.wrong("deadline_ns", fmt::format("{}", deadline_ns),
                    "an instant in nanoseconds since 1970", "such as 1800000000000000000");
  }
  into.ask.deadline = Instant{deadline_ns};
  return true;
}

template <auto Field>
bool read_ask_name(Reader& in, std::string_view name, ContractAskBody& into) {
  std::string_view text;
  if (!in.text(name, text)) return false;
  into.ask.*Field = std::string(text);
  return true;
}

constexpr Member<ContractAskBody> kContractAskMembers[] = {
    {"requests", [](Reader& in, ContractAskBody& into) { return read_requests(in, into.costs); }},
    {"processing_units",
     [](Reader& in, ContractAskBody& into) { return read_processing_units(in, into.costs); }},
    {"deadline_ns", read_deadline},
    {"max_delay",
     [](Reader& in, ContractAskBody& into) {
       return in.duration("max_delay", into.ask.max_delay.emplace());
     }},
    {"hold", [](Reader& in, ContractAskBody& into) { return in.duration("hold", into.ask.hold); }},
    {"who",
     [](Reader& in, ContractAskBody& into) {
       return read_ask_name<&contract::Ask::who>(in, "who", into);
     }},
    {"key",
     [](Reader& in, ContractAskBody& into) {
       return read_ask_name<&contract::Ask::key>(in, "key", into);
     }},
};
constexpr std::size_t kConsumeMembers = 2;

constexpr Member<ReservationEnd> kEndMembers[] = {
    {"reservation",
     [](Reader& in, ReservationEnd& into) { return read_reservation_id(in, into.reservation); }},
    {"requests", [](Reader& in, ReservationEnd& into) { return read_requests(in, into.actual); }},
    {"processing_units",
     [](Reader& in, ReservationEnd& into) { return read_processing_units(in, into.actual); }},
};
constexpr std::size_t kOfARelease = 1;

struct FeedbackInto {
  FeedbackBody body{};
  contract::RetryAfterUnit unit = contract::RetryAfterUnit::kMilliseconds;
};

bool read_retry_after(Reader& in, FeedbackInto& into) {
  constexpr std::string_view kExpected = "the value of the header, or a duration";
  constexpr std::string_view kExample = R"(3398, "3398" or "3398ms")";
  std::string_view text;
  if (!in.number_text("retry_after", text)) return false;
  Duration& waits = into.body.retry_after.emplace();
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, count);
  const Duration one = into.unit == contract::RetryAfterUnit::kMilliseconds
                           ? Duration{std::chrono::milliseconds{1}}
                           : Duration{std::chrono::seconds{1}};
  if (read.ec == std::errc{} && read.ptr == end && count >= 0) {
    // Longer ones count as an hour in any case.
    waits = one * std::min(count, contract::kRetryAfterMax / one);
    return true;
  }
  const Result<Duration> span = engine::parse_span("retry_after", text);
  if (!span) {
    return in.wrong("retry_after", fmt::format("'{}'", text.substr(0, 64)), kExpected, kExample);
  }
  waits = *span;
  return true;
}

constexpr Member<FeedbackInto> kFeedbackMembers[] = {
    {"reservation",
     [](Reader& in, FeedbackInto& into) { return read_reservation_id(in, into.body.reservation); }},
    {"requests", [](Reader& in, FeedbackInto& into) { return read_requests(in, into.body.costs); }},
    {"processing_units",
     [](Reader& in, FeedbackInto& into) { return read_processing_units(in, into.body.costs); }},
    {"retry_after", read_retry_after},
    {"policy", [](Reader& in, FeedbackInto& into) { return in.text("policy", into.body.policy); }},
};

Result<ReservationEnd> read_end(std::string_view body,
                                std::span<const Member<ReservationEnd>> members, Texts& texts) {
  ReservationEnd into;
  if (Status status = read_object(body, members, texts, into); !status) {
    return std::move(status).error();
  }
  if (!into.reservation) {
    return bad_argument(
        "body: the member 'reservation' is missing; write "
        "\"reservation\":\"00000000000004d2-17\"");
  }
  return into;
}

void append_reservation(std::string& out, HoldId reservation) {
  out += R"("reservation":)";
  if (!reservation) {
    out += "null";
    return;
  }
  out += '"';
  append_hold(out, reservation);
  out += '"';
}

void append_costs(std::string& out, const contract::Costs& costs) {
  out += R"({"requests":)";
  append_units(out, costs.requests_micro);
  out += R"(,"processing_units":)";
  append_units(out, costs.processing_units_micro);
  out += '}';
}

void append_policy(std::string& out, const contract::PolicyView& row) {
  const contract::Policy& policy = row.policy;
  fmt::format_to(
      std::back_inserter(out),
      R"({{"policy":"{}","type":"{}","capacity":{},"period":"{}","refill_ns":{},"left":)",
      policy_id(policy), type_name(policy.resource), policy.capacity,
      contract::period_text(policy.period), policy.refill_ns);
  append_units(out, row.left_micro);
  out += R"(,"full_in_ns":)";
  if (row.full_in_ns < 0) {
    out += "null";  // not by waiting
  } else {
    fmt::format_to(std::back_inserter(out), "{}", row.full_in_ns);
  }
  out += '}';
}

// How old what was fetched is.
void append_age(std::string& out, std::optional<Instant> at, Instant now) {
  if (at) {
    append_duration(out, std::max(Duration{0}, now - *at));
  } else {
    out += "null";
  }
}

void append_followed(std::string& out, const std::optional<contract::Followed>& followed,
                     Instant now) {
  if (!followed) {
    out += "null";
    return;
  }
  out += R"({"contract_age":)";
  append_age(out, followed->contract_at, now);
  out += R"(,"counts_age":)";
  append_age(out, followed->counts_at, now);
  out += R"(,"left_out":[)";
  for (const std::string& type : followed->left_out) {
    if (out.back() != '[') out += ',';
    append_quoted(out, type);
  }
  fmt::format_to(std::back_inserter(out), R"(],"fetches":{},"failures":{},"error":)",
                 followed->fetches, followed->failures);
  if (followed->error.empty()) {
    out += "null}";
    return;
  }
  append_quoted(out, followed->error);
  out += '}';
}

}  // namespace

contract::Costs GivenCosts::over(const contract::Costs& otherwise) const noexcept {
  return {requests_micro.value_or(otherwise.requests_micro),
          processing_units_micro.value_or(otherwise.processing_units_micro)};
}

Result<contract::Ask> read_reservation(std::string_view body, Texts& texts) {
  ContractAskBody into;
  if (Status status = read_object<ContractAskBody>(body, kContractAskMembers, texts, into);
      !status) {
    return std::move(status).error();
  }
  into.ask.costs = into.costs.over({});
  return into.ask;
}

Result<contract::Costs> read_consumption(std::string_view body, Texts& texts) {
  ContractAskBody into;
  const auto members = std::span(kContractAskMembers).first(kConsumeMembers);
  if (Status status = read_object<ContractAskBody>(body, members, texts, into); !status) {
    return std::move(status).error();
  }
  return into.costs.over({});
}

Result<ReservationEnd> read_commit(std::string_view body, Texts& texts) {
  return read_end(body, kEndMembers, texts);
}

Result<ReservationEnd> read_release(std::string_view body, Texts& texts) {
  return read_end(body, std::span(kEndMembers).first(kOfARelease), texts);
}

Result<FeedbackBody> read_feedback(std::string_view body, contract::RetryAfterUnit unit,
                                   Texts& texts) {
  FeedbackInto into{.unit = unit};
  if (Status status = read_object<FeedbackInto>(body, kFeedbackMembers, texts, into); !status) {
    return std::move(status).error();
  }
  return into.body;
}

void append_units(std::string& out, std::int64_t micro) {
  if (micro < 0) out += '-';
  // The lowest there is has no opposite; it is off by a millionth of a unit then.
  const std::int64_t size = micro < 0 ? -std::max(micro, -kForever.ns) : micro;
  out += engine::amount_text(size, engine::UnitScale::kMicro);
}

void append_reserved(std::string& out, const contract::Reserved& reserved) {
  const bool is_never = reserved.verdict == Verdict::kNever;
  out += R"({"verdict":")";
  out += to_string(reserved.verdict);
  out += R"(","reason":)";
  if (is_never) {
    append_quoted(out, to_string(reserved.never));
  } else {
    out += "null";
  }
  out += R"(,"policy":)";
  if (reserved.binding) {
    append_quoted(out, policy_id(*reserved.binding));
  } else {
    out += "null";
  }
  out += R"(,"start":)";
  append_instant(out, reserved.start);
  out += R"(,"start_ns":)";
  append_instant_ns(out, reserved.start);
  if (is_never) {
    out += R"(,"delay_ns":null,"delay_ms":null,)";
  } else {
    // Rounded up: a worker that waits so long is not early.
    fmt::format_to(std::back_inserter(out), R"(,"delay_ns":{},"delay_ms":{},)", reserved.delay_ns,
                   ceil_div(reserved.delay_ns, 1'000'000));
  }
  append_reservation(out, reserved.reservation);
  out += R"(,"expires":)";
  if (reserved.reservation) {
    append_instant(out, reserved.expires);
  } else {
    out += "null";
  }
  out += R"(,"debited":)";
  append_costs(out, reserved.debited);
  out += '}';
}

void append_consumed(std::string& out, const contract::Consumed& consumed) {
  out += '{';
  append_reservation(out, consumed.reservation);
  out += R"(,"debited":)";
  append_costs(out, consumed.debited);
  out += '}';
}

void append_committed(std::string& out, engine::HoldState state, const contract::Costs& debited) {
  fmt::format_to(std::back_inserter(out), R"({{"state":"{}","debited":)", to_string(state));
  append_costs(out, debited);
  out += '}';
}

void append_listed(std::string& out, const contract::Listing& listing) {
  out += R"({"reservations":[)";
  for (const contract::Listed& row : listing.rows) {
    out += out.back() == '[' ? "{" : ",{";
    append_reservation(out, row.reservation);
    out += R"(,"who":)";
    if (row.who.empty()) {
      out += "null";
    } else {
      append_quoted(out, row.who);
    }
    out += R"(,"start":)";
    append_instant(out, row.start);
    out += R"(,"start_ns":)";
    append_instant_ns(out, row.start);
    out += R"(,"expires":)";
    append_instant(out, row.expires);
    out += R"(,"costs":)";
    append_costs(out, row.costs);
    out += '}';
  }
  out += R"(],"next":)";
  out += listing.next ? fmt::format(R"("{}")", *listing.next) : "null";
  out += '}';
}

void append_account(std::string& out, const contract::Account& account, std::string_view user_id,
                    const contract::AccountView& view, Instant now) {
  const contract::AccountOptions options = account.options();
  out += R"({"account":)";
  append_quoted(out, account.name());
  out += R"(,"user_id":)";
  append_quoted(out, user_id);
  fmt::format_to(std::back_inserter(out), R"(,"role":"{}","rule":"{}","jitter":)",
                 options.role == contract::AccountRole::kGuard ? "guard" : "service",
                 options.rule == contract::Rule::kReservation ? "reservation" : "published");
  append_duration(out, options.jitter);
  out += R"(,"policies":[)";
  for (const contract::PolicyView& row : view.policies) {
    if (out.back() != '[') out += ',';
    append_policy(out, row);
  }
  fmt::format_to(std::back_inserter(out), R"(],"outstanding":{},"outstanding_costs":)",
                 view.outstanding);
  append_costs(out, view.outstanding_costs);
  out += R"(,"booked_until":)";
  append_instant(out, view.last_start > now ? view.last_start : kForever);
  out += R"(,"refreshed_at":)";
  append_instant(out, view.refreshed_at.value_or(kForever));
  fmt::format_to(std::back_inserter(out), R"(,"overages_clipped":{})", view.overages_clipped);
  fmt::format_to(std::back_inserter(out),
                 R"(,"granted":{},"refused":{},"refusals_met":{},"mark":"{}","sync":)",
                 view.granted, view.refused, view.refusals_met, contract_mark(view.finals));
  append_followed(out, view.followed, now);
  out += '}';
}

}  // namespace weir::wire::http
