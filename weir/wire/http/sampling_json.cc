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

constexpr Member<sampling::Work> kPassWorkMembers[] = {
    {"environment",
     [](Reader& in, sampling::Work& into) {
       return in.text({"work", "environment"}, into.environment);
     }},
    {"active",
     [](Reader& in, sampling::Work& into) {
       return read_between(in, {"work", "active"}, 0, sampling::kTasksMax, into.active);
     }},
    {"missing",
     [](Reader& in, sampling::Work& into) {
       return read_between(in, {"work", "missing"}, 0, sampling::kTasksMax, into.missing);
     }},
};

bool read_pass_work(Reader& in, PassBody& into) {
  return in.list("work", [&] {
    if (into.work.size() == sampling::kEnvironmentsMax) {
      return in.wrong("work", fmt::format("a list of more than {}", sampling::kEnvironmentsMax),
                      "one of at most as many environments as there may be", "each of them once");
    }
    return in.object<sampling::Work>("an element of work", kPassWorkMembers,
                                     into.work.emplace_back());
  });
}

constexpr Member<PassBody> kPassMembers[] = {
    {"hotkey", [](Reader& in, PassBody& into) { return in.text("hotkey", into.miner.hotkey); }},
    {"revision",
     [](Reader& in, PassBody& into) { return in.text("revision", into.miner.revision); }},
    {"uid", [](Reader& in, PassBody& into) { return in.integer("uid", into.miner.id.emplace()); }},
    {"slots",
     [](Reader& in, PassBody& into) {
       return read_between(in, "slots", 1, kPassSlotsMax, into.slots);
     }},
    {"work", read_pass_work},
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
  out += R"(,"burst":)";
  append_optional(out, environment.burst);
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

Result<PassBody> read_pass(std::string_view body, Texts& texts) {
  Result<PassBody> read = read_object<PassBody>(body, kPassMembers, texts);
  if (read && read->slots == 0) {
    return bad_argument(
        "body: slots is missing; write how many tasks the miner may have at once, such as "
        "\"slots\":6");
  }
  return read;
}

void append_pass(std::string& out, std::span<const sampling::Planned> planned, Instant now) {
  std::int64_t granted = 0;
  for (const sampling::Planned& each : planned) granted += each.grant.granted;
  out += R"({"granted":)";
  append_int(out, granted);
  out += R"(,"environments":)";
  append_list(out, planned, [&](const sampling::Planned& each) {
    out += R"({"environment":)";
    append_quoted(out, each.environment);
    out += R"(,"grant":)";
    append_grant(out, each.grant, now);
    out += '}';
  });
  out += '}';
}

void append_refused(std::string& out, const sampling::RefusedMiner& miner,
                    const sampling::Grant& said) {
  out += R"({"hotkey":)";
  append_quoted(out, miner.hotkey);
  out += R"(,"revision":)";
  append_quoted(out, miner.revision);
  out += R"(,"environment":)";
  append_quoted(out, miner.environment);
  out += R"(,"uid":)";
  append_optional(out, miner.id);
  out += R"(,"refusals":)";
  append_unsigned(out, miner.refusals);
  out += R"(,"beyond":)";
  append_unsigned(out, miner.beyond);
  out += R"(,"tasks":)";
  append_unsigned(out, miner.tasks);
  out += R"(,"last":)";
  append_instant(out, miner.last);
  out += R"(,"count":)";
  append_int(out, said.count);
  out += R"(,"limit":)";
  append_optional(out, said.limit);
  out += R"(,"remaining":)";
  append_optional(out, said.remaining);
  out += R"(,"next_free":)";
  append_instant(out, said.next_free);
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
