#include "weir/wire/http/sampling_json.h"

#include <fmt/format.h>

#include "weir/base/integer.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace sampling = system::sampling;

constexpr Member<GrantBody> kGrantMembers[] = {
    {"hotkey", [](Reader& in, GrantBody& into) { return in.text("hotkey", into.who.hotkey); }},
    {"revision",
     [](Reader& in, GrantBody& into) { return in.text("revision", into.who.revision); }},
    {"environment",
     [](Reader& in, GrantBody& into) { return in.text("environment", into.who.environment); }},
    {"uid", [](Reader& in, GrantBody& into) { return in.integer("uid", into.who.id.emplace()); }},
    {"want",
     [](Reader& in, GrantBody& into) {
       return read_between(in, "want", 0, sampling::kWantMax, into.want);
     }},
    {"dry_run", [](Reader& in, GrantBody& into) { return in.flag("dry_run", into.dry_run); }},
};

bool read_number(Reader& in, TaskReservationBody& into) {
  return read_id(in, "reservation", "a reservation", "a grant", into.reservation);
}

constexpr Member<TaskReservationBody> kCommitMembers[] = {
    {"reservation", read_number},
    {"created",
     [](Reader& in, TaskReservationBody& into) {
       return read_between(in, "created", 0, sampling::kWantMax, into.created.emplace());
     }},
};

Result<TaskReservationBody> named(Result<TaskReservationBody> read) {
  if (read && !read->reservation) {
    return bad_argument(
        "body: reservation is missing; write the one that the grant was answered with");
  }
  return read;
}

void append_environment(std::string& out, const sampling::EnvironmentReading& environment) {
  out += R"({"environment":)";
  append_quoted(out, environment.name);
  out += R"(,"rotation_count":)";
  out += sampling::decimal_text(environment.rotation.rotation_count_micro);
  out += R"(,"rotation_interval":)";
  out += sampling::decimal_text(environment.rotation.rotation_interval_micro);
  out += R"(,"sampling_count":)";
  out += sampling::decimal_text(environment.rotation.sampling_count_micro);
  out += R"(,"limit":)";
  append_optional(out, environment.limit);
  out += R"(,"parent_limit":)";
  append_optional(out, environment.parent_limit);
  out += R"(,"grants":)";
  append_unsigned(out, environment.grants);
  out += R"(,"granted":)";
  append_unsigned(out, environment.granted);
  out += R"(,"refused":)";
  append_unsigned(out, environment.refused);
  out += '}';
}

}  // namespace

Result<GrantBody> read_grant(std::string_view body, Texts& texts) {
  return read_object<GrantBody>(body, kGrantMembers, texts);
}

Result<TaskReservationBody> read_task_commit(std::string_view body, Texts& texts) {
  return named(read_object<TaskReservationBody>(body, kCommitMembers, texts));
}

Result<TaskReservationBody> read_task_release(std::string_view body, Texts& texts) {
  return named(read_object<TaskReservationBody>(body, std::span(kCommitMembers).first(1), texts));
}

void append_grant(std::string& out, const sampling::Grant& grant, Instant now) {
  out += R"({"granted":)";
  append_int(out, grant.granted);
  out += R"(,"wanted":)";
  append_int(out, grant.wanted);
  out += R"(,"reason":")";
  out += to_string(grant.reason);
  out += R"(","count":)";
  append_int(out, grant.count);
  out += R"(,"limit":)";
  append_optional(out, grant.limit);
  out += R"(,"remaining":)";
  append_optional(out, grant.remaining);
  out += R"(,"parent":)";
  if (grant.parent_limit) {
    out += R"({"count":)";
    append_int(out, grant.parent_count);
    out += R"(,"limit":)";
    append_int(out, *grant.parent_limit);
    out += '}';
  } else {
    out += "null";
  }
  out += R"(,"next_free":)";
  append_instant(out, grant.next_free);
  out += R"(,"next_free_ns":)";
  append_instant_ns(out, grant.next_free);
  out += R"(,"retry_after_ms":)";
  // Both are instants from 1970 on, so the difference fits; rounded up.
  append_int(out, grant.next_free <= now
                      ? 0
                      : saturate(ceil_div(Wide{grant.next_free.ns} - Wide{now.ns}, 1'000'000)));
  out += R"(,"reservation":)";
  append_id(out, grant.reservation);
  out += '}';
}

void append_sampling(std::string& out, const sampling::Reading& reading) {
  out += R"({"mode":")";
  out += reading.mode == sampling::Mode::kStrict ? "strict" : "published";
  out += R"(","grants":")";
  out += reading.granting == sampling::Granting::kCapped ? "capped" : "gate";
  out += R"(","window_s":)";
  append_int(out, reading.formula.window_s);
  out += R"(,"keys":)";
  append_unsigned(out, reading.keys);
  out += R"(,"reservations":)";
  append_unsigned(out, reading.reservations);
  out += R"(,"environments":[)";
  for (const sampling::EnvironmentReading& environment : reading.environments) {
    if (out.back() != '[') out += ',';
    append_environment(out, environment);
  }
  out += ']';
}

}  // namespace weir::wire::http
