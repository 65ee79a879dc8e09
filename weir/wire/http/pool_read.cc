// The bodies of requests about jobs of the pools.

#include <fmt/format.h>

#include "weir/base/hold_text.h"
#include "weir/wire/http/pool_json.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace pool = system::pool;

constexpr Member<pool::JobAsk> kJobAskMembers[] = {
    {"type", [](Reader& in, pool::JobAsk& into) { return in.text("type", into.type); }},
    {"wait",
     [](Reader& in, pool::JobAsk& into) { return in.duration("wait", into.wait.emplace()); }},
    {"hold",
     [](Reader& in, pool::JobAsk& into) { return in.duration("hold", into.hold.emplace()); }},
};

// A count of what was used. A client that leaves out the requests made one.
template <auto Member>
bool read_used(Reader& in, std::string_view what, JobRelease& into) {
  std::int64_t number = 0;
  if (!in.integer(what, number)) return false;
  if (number < 0 || number > pool::kAmountMax) {
    return in.wrong(what, fmt::format("{}", number), fmt::format("from 0 to {}", pool::kAmountMax),
                    "what was used");
  }
  if (!into.used) into.used = pool::Used{.requests = 1};
  (*into.used).*Member = number;
  return true;
}

bool read_job(Reader& in, HoldId& into) {
  std::string_view text;
  if (!in.text("job", text)) return false;
  const std::optional<HoldId> job = read_hold(text);
  if (!job) {
    return in.wrong("job", fmt::format("'{}'", text.substr(0, kHoldTextBytesMax)),
                    "the name of a job", "the one that the acquire was answered with");
  }
  into = *job;
  return true;
}

constexpr Member<JobRelease> kJobReleaseMembers[] = {
    {"job", [](Reader& in, JobRelease& into) { return read_job(in, into.job); }},
    {"requests",
     [](Reader& in, JobRelease& into) {
       return read_used<&pool::Used::requests>(in, "requests", into);
     }},
    {"input_tokens",
     [](Reader& in, JobRelease& into) {
       return read_used<&pool::Used::input_tokens>(in, "input_tokens", into);
     }},
    {"output_tokens",
     [](Reader& in, JobRelease& into) {
       return read_used<&pool::Used::output_tokens>(in, "output_tokens", into);
     }},
    {"cached_tokens",
     [](Reader& in, JobRelease& into) {
       return read_used<&pool::Used::cached_tokens>(in, "cached_tokens", into);
     }},
    {"failed", [](Reader& in, JobRelease& into) { return in.flag("failed", into.failed); }},
    {"delegate",
     [](Reader& in, JobRelease& into) { return in.flag("delegate", into.delegate.emplace()); }},
};

constexpr Member<JobRenewal> kJobRenewalMembers[] = {
    {"job", [](Reader& in, JobRenewal& into) { return read_job(in, into.job); }},
    {"hold", [](Reader& in, JobRenewal& into) { return in.duration("hold", into.hold.emplace()); }},
};

constexpr std::string_view kNoJob =
    "body: job is missing; write the one that the acquire was answered with";

}  // namespace

Result<pool::JobAsk> read_job_ask(std::string_view body, Texts& texts) {
  Result<pool::JobAsk> ask = read_object<pool::JobAsk>(body, kJobAskMembers, texts);
  if (ask && ask->type.empty()) {
    return bad_argument(R"(body: type is missing; write the job type, such as {"type":"summary"})");
  }
  return ask;
}

Result<JobRelease> read_job_release(std::string_view body, Texts& texts) {
  Result<JobRelease> release = read_object<JobRelease>(body, kJobReleaseMembers, texts);
  if (!release) return release;
  if (!release->job) {
    return bad_argument(std::string(kNoJob));
  }
  if (release->failed && release->delegate) {
    return bad_argument("body: 'failed' and 'delegate' are both there; write one of them");
  }
  if (!release->used && !release->failed) {
    return bad_argument(
        "body: it does not say what was used; write 'requests', 'input_tokens', 'output_tokens' "
        "and 'cached_tokens', or 'failed': true");
  }
  return release;
}

Result<JobRenewal> read_job_renewal(std::string_view body, Texts& texts) {
  Result<JobRenewal> renewal = read_object<JobRenewal>(body, kJobRenewalMembers, texts);
  if (renewal && !renewal->job) return bad_argument(std::string(kNoJob));
  return renewal;
}

}  // namespace weir::wire::http
