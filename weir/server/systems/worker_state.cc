#include "weir/server/systems/worker_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/json.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::server {
namespace {

namespace fs = std::filesystem;
using system::compute::KeptBucket;
using wire::http::Member;
using wire::http::Reader;

bool read_number(Reader& in, std::string_view what, std::int64_t least, std::int64_t& value) {
  if (!in.integer(what, value)) return false;
  if (value >= least && value <= kTermMax) return true;
  return in.wrong(what, fmt::format("{}", value), "within its bounds", "another number");
}

constexpr Member<KeptBucket> kBucketMembers[] = {
    {"cluster",
     [](Reader& in, KeptBucket& into) {
       std::string_view text;
       if (!in.text("cluster", text)) return false;
       into.cluster = text;
       return true;
     }},
    {"tokens_micro",
     [](Reader& in, KeptBucket& into) {
       return read_number(in, "tokens_micro", 0, into.tokens_micro);
     }},
    {"last_tick_ns",
     [](Reader& in, KeptBucket& into) {
       return read_number(in, "last_tick_ns", 0, into.last_tick.ns);
     }},
};

constexpr Member<WorkerState> kStateMembers[] = {
    {"heard_ns",
     [](Reader& in, WorkerState& into) { return read_number(in, "heard_ns", 0, into.heard.ns); }},
    {"buckets",
     [](Reader& in, WorkerState& into) {
       return in.list("buckets", [&] {
         return in.object<KeptBucket>("a bucket", kBucketMembers, into.buckets.emplace_back());
       });
     }},
};

// Down to the disk: a name must not get there before what it names.
bool write_synced(const fs::path& file, std::string_view text) {
  const int handle = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (handle < 0) return false;
  bool ok = true;
  while (ok && !text.empty()) {
    const ::ssize_t written = ::write(handle, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    ok = written > 0;
    if (ok) text.remove_prefix(static_cast<std::size_t>(written));
  }
  ok = ok && ::fsync(handle) == 0;
  return ::close(handle) == 0 && ok;
}

void sync_directory(const fs::path& directory) {
  const int handle = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace

std::string worker_state_text(const WorkerState& state) {
  std::string out = fmt::format(R"({{"heard_ns":{},"buckets":[)", state.heard.ns);
  for (const KeptBucket& bucket : state.buckets) {
    if (out.back() != '[') out += ',';
    out += R"({"cluster":)";
    wire::http::append_quoted(out, bucket.cluster);
    out += fmt::format(R"(,"tokens_micro":{},"last_tick_ns":{}}})", bucket.tokens_micro,
                       bucket.last_tick.ns);
  }
  out += "]}\n";
  wire::http::append_allocations(out, {.set = state.allocations});
  out += '\n';
  return out;
}

Result<WorkerState> parse_worker_state(std::string_view text) {
  if (Status status = wire::http::check_utf8("the state", text); !status) {
    return std::move(status).error();
  }
  WorkerState state;
  const std::size_t end = std::min(text.find('\n'), text.size());
  wire::http::Texts texts;
  Reader in(text.substr(0, end), texts);
  if (!in.object<WorkerState>("the state", kStateMembers, state) || !in.end()) return in.error();
  Result<wire::http::AllocationsDocument> document =
      wire::http::read_allocations(text.substr(std::min(end + 1, text.size())));
  if (!document) return std::move(document).error();
  state.allocations = std::move(document->set);
  return state;
}

Result<std::optional<WorkerState>> read_worker_state(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::optional<WorkerState>{};
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: it cannot be read; check who may", file.string())};
  }
  Result<WorkerState> state = parse_worker_state(text);
  if (!state) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: {}; write it as weir did, or leave it to be written anew",
                             file.string(), state.error().message)};
  }
  return std::optional(std::move(*state));
}

Status write_worker_state(const fs::path& file, std::string_view text) {
  const fs::path draft = file.string() + ".new";
  if (!write_synced(draft, text)) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: it cannot be written; check the disk, and who may write there",
                             draft.string())};
  }
  std::error_code error;
  fs::rename(draft, file, error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: it cannot be renamed: {}; check the directory", draft.string(),
                             error.message())};
  }
  sync_directory(file.parent_path());
  return Done{};
}

}  // namespace weir::server
