#include "weir/wire/http/throttle_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>

#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace throttle = system::throttle;
using throttle::Transaction;

// --- reading

bool read_natural(Reader& in, const What& what, std::int32_t& value, std::int64_t least = 0) {
  std::int64_t wide = value;
  const bool ok = read_between(in, what, least, std::numeric_limits<std::int32_t>::max(), wide);
  value = static_cast<std::int32_t>(wide);
  return ok;
}

bool read_role(Reader& in, SubmissionBody& into) {
  std::string_view word;
  if (!in.text("role", word)) return false;
  const std::optional<throttle::SetRole> role = throttle_role_of(word);
  if (!role) {
    return in.wrong("role", fmt::format("'{}'", word.substr(0, 64)), "'front_end' or 'consensus'",
                    "one of the two");
  }
  into.role = *role;
  return true;
}

constexpr Member<SubmissionBody> kScheduledMembers[] = {
    {"operation",
     [](Reader& in, SubmissionBody& into) {
       return in.text({"scheduled", "operation"}, into.submission.scheduled_operation);
     }},
    {"uses_aliases",
     [](Reader& in, SubmissionBody& into) {
       return in.flag({"scheduled", "uses_aliases"},
                      into.submission.transaction.scheduled->uses_aliases);
     }},
    {"creations",
     [](Reader& in, SubmissionBody& into) {
       return read_natural(in, {"scheduled", "creations"},
                           into.submission.transaction.scheduled->creations);
     }},
};

bool read_scheduled(Reader& in, SubmissionBody& into) {
  into.submission.transaction.scheduled.emplace();
  return in.object<SubmissionBody>("scheduled", kScheduledMembers, into);
}

bool read_payer(Reader& in, SubmissionBody& into) {
  return in.integer("payer", into.submission.transaction.payer.emplace());
}

bool read_instant(Reader& in, SubmissionBody& into) {
  return read_natural(in, "at_ns", into.at_ns.emplace());
}

template <auto Field>
bool read_field(Reader& in, std::string_view name, SubmissionBody& into) {
  return read_natural(in, name, into.submission.transaction.*Field);
}

constexpr Member<SubmissionBody> kSubmissionMembers[] = {
    {"operation",
     [](Reader& in, SubmissionBody& into) {
       return in.text("operation", into.submission.operation);
     }},
    {"role", read_role},
    {"at_ns", read_instant},
    {"payer", read_payer},
    {"count",
     [](Reader& in, SubmissionBody& into) {
       return read_natural(in, "count", into.submission.transaction.count, 1);
     }},
    {"gas", [](Reader& in,
               SubmissionBody& into) { return read_field<&Transaction::gas>(in, "gas", into); }},
    {"bytes",
     [](Reader& in, SubmissionBody& into) {
       return read_field<&Transaction::bytes>(in, "bytes", into);
     }},
    {"nfts", [](Reader& in,
                SubmissionBody& into) { return read_field<&Transaction::nfts>(in, "nfts", into); }},
    {"creations",
     [](Reader& in, SubmissionBody& into) {
       return read_field<&Transaction::creations>(in, "creations", into);
     }},
    {"associations",
     [](Reader& in, SubmissionBody& into) {
       return read_field<&Transaction::associations>(in, "associations", into);
     }},
    {"high_volume",
     [](Reader& in, SubmissionBody& into) {
       return in.flag("high_volume", into.submission.transaction.high_volume);
     }},
    {"scheduled", read_scheduled},
    {"scheduled_then",
     [](Reader& in, SubmissionBody& into) {
       return read_field<&Transaction::scheduled_then>(in, "scheduled_then", into);
     }},
    {"dry_run", [](Reader& in, SubmissionBody& into) { return in.flag("dry_run", into.dry_run); }},
};

struct SubmissionsBody {
  SubmissionBatch batch{};
  std::size_t most = 0;
  bool has_list = false;
};

constexpr Member<SubmissionsBody> kSubmissionsMembers[] = {
    {"submissions",
     [](Reader& in, SubmissionsBody& into) {
       into.has_list = true;
       return in.list("submissions", [&] {
         if (into.batch.submissions.size() == into.most) {
           into.batch.is_too_long = true;
           return false;
         }
         return in.object<SubmissionBody>("a submission", kSubmissionMembers,
                                          into.batch.submissions.emplace_back());
       });
     }},
};

Status check_submission(const SubmissionBody& body) {
  if (body.submission.operation.empty()) {
    return bad_argument(
        "body: the member 'operation' is missing or empty; write \"operation\":\"ContractCall\"");
  }
  const bool is_consensus = body.role == throttle::SetRole::kConsensus;
  if (is_consensus && !body.at_ns) {
    return bad_argument(
        "body: the member 'at_ns' is missing; write the consensus instant in nanoseconds since "
        "1970, such as \"at_ns\":1800000000000000000");
  }
  if (!is_consensus && body.at_ns) {
    return bad_argument(
        "body: the member 'at_ns' is given, but the front end goes by the server's clock; leave it "
        "out, or write \"role\":\"consensus\"");
  }
  return Done{};
}

// The first is all that a cancellation has.
constexpr Member<ClaimBody> kClaimMembers[] = {
    {"claim",
     [](Reader& in, ClaimBody& into) {
       return read_id(in, "claim", "a claim", "a submission", into.claim);
     }},
    {"gas",
     [](Reader& in, ClaimBody& into) { return read_natural(in, "gas", into.gas.emplace()); }},
    {"duration",
     [](Reader& in, ClaimBody& into) {
       return read_natural(in, "duration", into.duration.emplace());
     }},
};

Result<ClaimBody> read_claim(std::string_view body, std::span<const Member<ClaimBody>> members,
                             Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  ClaimBody into;
  Reader in(body, texts);
  if (!in.object("the body", members, into) || !in.end()) return in.error();
  if (!into.claim) {
    return bad_argument(
        "body: the member 'claim' is missing; write the 'claim' of a transaction that was let "
        "through, such as \"claim\":\"00000000000004d2-17\"");
  }
  return into;
}

// --- writing

void append_flag(std::string& out, bool value) { out += value ? "true" : "false"; }

void append_texts(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (const std::string& text : texts) {
    if (out.back() != '[') out += ',';
    append_quoted(out, text);
  }
  out += ']';
}

void append_bucket(std::string& out, const throttle::BucketReading& bucket) {
  out += R"({"name":)";
  append_quoted(out, bucket.name);
  out += R"(,"high_volume":)";
  append_flag(out, bucket.high_volume);
  // Of a bucket that holds nothing, no share is used.
  const double percent = std::isfinite(bucket.percent_used) ? bucket.percent_used : 0.0;
  fmt::format_to(std::back_inserter(out),
                 R"(,"burst_ms":{},"milli_ops":{},"used":{},"capacity":{},"percent_used":{},)"
                 R"("refusals":{}}})",
                 bucket.burst_ms, bucket.milli_ops, bucket.used, bucket.capacity, percent,
                 bucket.refusals);
}

void append_set(std::string& out, const throttle::SetReading& set) {
  out += R"({"buckets":[)";
  for (const throttle::BucketReading& bucket : set.buckets) {
    if (out.back() != '[') out += ',';
    append_bucket(out, bucket);
  }
  out += R"(],"dropped":[)";
  for (const throttle::DroppedBucket& bucket : set.dropped) {
    if (out.back() != '[') out += ',';
    out += R"({"name":)";
    append_quoted(out, bucket.name);
    out += R"(,"high_volume":)";
    append_flag(out, bucket.high_volume);
    out += R"(,"finding":)";
    append_quoted(out, to_string(bucket.finding));
    out += '}';
  }
  out += R"(],"gas":)";
  append_bucket(out, set.gas);
  out += R"(,"bytes":)";
  if (set.bytes) {
    append_bucket(out, *set.bytes);
  } else {
    out += "null";
  }
  out += R"(,"duration":)";
  append_bucket(out, set.duration);
  out += R"(,"schedule_refusals":)";
  append_unsigned(out, set.schedule_refusals);
  out += R"(,"unlisted_refusals":)";
  append_unsigned(out, set.unlisted_refusals);
  out += '}';
}

}  // namespace

std::optional<throttle::SetRole> throttle_role_of(std::string_view word) noexcept {
  if (word == "front_end") return throttle::SetRole::kFrontEnd;
  if (word == "consensus") return throttle::SetRole::kConsensus;
  return std::nullopt;
}

Result<SubmissionBody> read_submission(std::string_view body, Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  SubmissionBody into;
  Reader in(body, texts);
  if (!in.object<SubmissionBody>("the body", kSubmissionMembers, into) || !in.end()) {
    return in.error();
  }
  if (Status status = check_submission(into); !status) return std::move(status).error();
  return into;
}

Result<SubmissionBatch> read_submissions(std::string_view body, std::size_t most, Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  SubmissionsBody into{.most = most};
  Reader in(body, texts);
  const bool is_read =
      in.object<SubmissionsBody>("the body", kSubmissionsMembers, into) && in.end();
  if (into.batch.is_too_long) return std::move(into.batch);
  if (!is_read) return in.error();
  if (!into.has_list) {
    return bad_argument("body: submissions is missing; write a list, \"submissions\":[{…},{…}]");
  }
  for (const SubmissionBody& each : into.batch.submissions) {
    if (Status status = check_submission(each); !status) return std::move(status).error();
  }
  return std::move(into.batch);
}

Result<ClaimBody> read_claim_settlement(std::string_view body, Texts& texts) {
  return read_claim(body, kClaimMembers, texts);
}

Result<ClaimBody> read_claim_cancellation(std::string_view body, Texts& texts) {
  return read_claim(body, std::span(kClaimMembers).first(1), texts);
}

void append_submitted(std::string& out, const throttle::Submitted& said, Instant at) {
  out += R"({"status":)";
  append_quoted(out, said.status);
  out += R"(,"verdict":")";
  out += to_string(verdict_of(said));
  out += R"(","refused_by":)";
  if (said.admission.allowed) {
    out += "null";
  } else {
    append_quoted(out, refused_by(said));
  }
  out += R"(,"shortfall":)";
  append_int(out, said.admission.missing);
  const Instant earliest = earliest_of(said, at);
  out += R"(,"earliest":)";
  append_instant(out, earliest);
  out += R"(,"earliest_ns":)";
  append_instant_ns(out, earliest);
  out += R"(,"retry_after_ms":)";
  if (earliest == kForever) {
    out += "null";
  } else {
    // Both are instants from 1970 on, so the difference fits; rounded up.
    append_int(out,
               earliest <= at ? 0 : saturate(ceil_div(Wide{earliest.ns} - Wide{at.ns}, 1'000'000)));
  }
  out += R"(,"multiplier":)";
  append_int(out, said.multiplier);
  out += R"(,"claim":)";
  append_id(out, said.claim);
  out += '}';
}

void append_reading(std::string& out, const throttle::Reading& reading) {
  fmt::format_to(std::back_inserter(out),
                 R"({{"nodes":{},"multipliers":{{"generic":{},"gas":{}}},"front_end":)",
                 reading.nodes, reading.generic_multiplier, reading.gas_multiplier);
  append_set(out, reading.front_end);
  out += R"(,"consensus":)";
  append_set(out, reading.consensus);
  out += '}';
}

void append_restored(std::string& out, const throttle::RestoreReport& report) {
  out += R"({"state":"restored","restored":)";
  append_unsigned(out, report.restored);
  out += R"(,"converted":)";
  append_texts(out, report.converted);
  out += R"(,"unknown":)";
  append_texts(out, report.unknown);
  out += R"(,"missing":)";
  append_texts(out, report.missing);
  out += '}';
}

}  // namespace weir::wire::http
