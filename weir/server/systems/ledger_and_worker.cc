#include "weir/server/systems/ledger_and_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/base/timed_wait.h"
#include "weir/fetch/transfer.h"
#include "weir/fetch/url.h"
#include "weir/server/systems/worker_state.h"
#include "weir/store/sqlite/ledger_store.h"
#include "weir/wire/http/compute_json.h"

namespace weir::server {
namespace {

namespace fs = std::filesystem;
namespace compute = system::compute;
using compute::AllocationSet;

constexpr Duration kLookEvery = std::chrono::milliseconds{100};  // at a ledger in this process
constexpr Duration kKeepEvery = std::chrono::seconds{1};
constexpr std::size_t kAllocationsBytesMax = std::size_t{256} << 20;

// What a source has to say: nothing new, allocations, or an error.
struct Heard {
  AllocationSet set;
  std::string note{};  // why there are none
  std::vector<compute::LeftOut> broken{};
};
using News = Result<std::optional<Heard>>;

std::string not_active(compute::Fault fault, std::string_view worker) {
  return fmt::format("{}: worker {} is not active in this ledger; let it join", to_string(fault),
                     in_quotes(worker));
}

Heard heard_of(wire::http::AllocationsDocument document) {
  Heard heard{.set = std::move(document.set), .broken = std::move(document.broken)};
  if (document.fault != compute::Fault::kNone) {
    heard.note = not_active(document.fault, document.worker);
  }
  return heard;
}

}  // namespace

class LedgerAndWorker::Source {
 public:
  virtual ~Source() = default;
  virtual News fetch(Instant now) = 0;
  virtual void cancel() noexcept {}
};

// Asks only when something has happened there.
class LedgerAndWorker::OwnLedger final : public Source {
 public:
  OwnLedger(std::shared_ptr<compute::LedgerService> ledger, std::string name,
            compute::FeedMode mode)
      : ledger_(std::move(ledger)), name_(std::move(name)), mode_(mode) {}

  // Lets the worker join, unless it has. One that was told to leave, and has not left yet,
  // joins again as soon as it has.
  Status join(Instant now) {
    const Result<compute::Applied> joined =
        ledger_->apply({.op = compute::Op::kJoin, .name = name_}, "weir", now);
    if (!joined) return joined.error();
    if (!joined->ok() && joined->fault != compute::Fault::kWorkerTaken) {
      return bad_argument(fmt::format("compute: worker: it cannot join the ledger: {}: {}",
                                      to_string(joined->fault), joined->detail));
    }
    joins_at_ = std::nullopt;
    ledger_->read(now, [&](const compute::LedgerView& view) {
      const compute::WorkerRecord* record = record_of(view.ledger);
      if (record->until != compute::kNoEnd) joins_at_ = record->until;
    });
    return Done{};
  }

  News fetch(Instant now) override {
    std::optional<Heard> heard;
    bool joins = false;
    ledger_->read(now, [&](const compute::LedgerView& view) {
      joins = joins_at_ && view.block >= *joins_at_;
      if (!has_changed(view)) return;
      const compute::Allocations found =
          view.ledger.allocations(view.ledger.worker_id(name_).value_or(0), view.block);
      heard = Heard{.set = allocation_set(view.ledger, found, view.epoch_time)};
      // One that has joined has nothing until the next epoch.
      const compute::WorkerRecord* record = record_of(view.ledger);
      const bool is_coming = joins || (record != nullptr && record->from > view.block);
      if (found.fault != compute::Fault::kNone && !is_coming) {
        heard->note = not_active(found.fault, name_);
      }
      for (const compute::BrokenCluster& row : found.broken) {
        heard->broken.push_back({view.ledger.clusters()[row.cluster].wallet, row.fault});
      }
    });
    if (!joins) return heard;
    const Status joined = join(now);
    if (joined) return heard;
    if (!heard) return joined.error();
    heard->note = joined.error().message;
    return heard;
  }

 private:
  const compute::WorkerRecord* record_of(const compute::Ledger& ledger) const {
    const std::optional<compute::WorkerId> id = ledger.worker_id(name_);
    return id ? &ledger.workers()[static_cast<std::size_t>(*id - 1)] : nullptr;
  }

  // Locks end by themselves: where that shows at once, every block is another ledger.
  bool has_changed(const compute::LedgerView& view) {
    const bool is_immediate = mode_ == compute::FeedMode::kImmediate;
    const Seen seen{epoch_number(view.ledger.clock(), view.block), is_immediate ? view.block : 0,
                    is_immediate ? view.version : 0};
    return std::exchange(seen_, seen) != seen;
  }

  struct Seen {
    std::int64_t epoch = -1;
    compute::Block block = -1;
    std::int64_t version = -1;

    friend bool operator==(const Seen&, const Seen&) = default;
  };

  const std::shared_ptr<compute::LedgerService> ledger_;
  const std::string name_;
  const compute::FeedMode mode_;
  std::optional<compute::Block> joins_at_;
  Seen seen_;
};

// Says what it has, so that a ledger with nothing new answers in a few bytes: where an epoch counts
// as a whole that is its number, else the tag of what was heard last.
class LedgerAndWorker::Remote final : public Source {
 public:
  Remote(const std::string& ledger, const std::string& name, std::string token,
         compute::FeedMode mode)
      : url_(fmt::format("{}/v1/compute/allocations?worker={}",
                         ledger.ends_with('/') ? ledger.substr(0, ledger.size() - 1) : ledger,
                         fetch::url_escaped(name))),
        token_(std::move(token)),
        mode_(mode),
        transfer_({.bytes_max = kAllocationsBytesMax}) {}

  News fetch(Instant) override {
    const bool names_epoch = mode_ == compute::FeedMode::kEpoch && epoch_ && !is_older_;
    fetch::Transferred got = ask(names_epoch);
    if (names_epoch && got.status == 400) {
      got = ask(false);
      is_older_ = got.status == 200 || got.status == 304;
    }
    if (got.status == 304 && epoch_) return std::optional<Heard>{};
    if (got.status != 200) {
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("{}: {}; check that the weir with the ledger runs there", url_,
                      got.status == 0 ? got.body
                                      : fmt::format("it answered {}: {}", got.status,
                                                    std::string_view(got.body).substr(0, 200)))};
    }
    Result<wire::http::AllocationsDocument> document = wire::http::read_allocations(got.body);
    if (!document) return bad_argument(fmt::format("{}: {}", url_, document.error().message));
    tag_ = got.tag;
    epoch_ = document->set.epoch;
    return std::optional(heard_of(std::move(*document)));
  }
  void cancel() noexcept override { transfer_.cancel(); }

 private:
  fetch::Transferred ask(bool names_epoch) {
    fetch::TransferRequest request{.url = url_, .bearer = token_, .if_none_match = tag_};
    if (names_epoch) request.url += fmt::format("&after_epoch={}", *epoch_);
    return transfer_.run(request);
  }

  const std::string url_;
  const std::string token_;
  const compute::FeedMode mode_;
  std::string tag_;                    // of what was heard last
  std::optional<std::int64_t> epoch_;  // the same
  bool is_older_ = false;              // the ledger refused `after_epoch`: it does not know it
  fetch::Transfer transfer_;
};

class LedgerAndWorker::File final : public Source {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}

  News fetch(Instant) override {
    std::ifstream in(path_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{}: it cannot be read; write allocations there", path_)};
    }
    Result<wire::http::AllocationsDocument> document = wire::http::read_allocations(text);
    if (!document) return bad_argument(fmt::format("{}: {}", path_, document.error().message));
    return std::optional(heard_of(std::move(*document)));
  }

 private:
  const std::string path_;
};

LedgerAndWorker::LedgerAndWorker(Clock& clock, std::shared_ptr<compute::LedgerService> ledger,
                                 std::shared_ptr<compute::SharedWorker> worker,
                                 std::function<void()> on_room)
    : clock_(clock),
      ledger_(std::move(ledger)),
      desk_(ledger_ == nullptr ? nullptr : std::make_shared<wire::http::AllocationDesk>(ledger_)),
      on_room_(std::move(on_room)),
      worker_(std::move(worker)) {}

Result<std::unique_ptr<LedgerAndWorker>> LedgerAndWorker::start(
    const config::ComputeSettings& settings, std::shared_ptr<compute::SharedWorker> worker,
    const std::optional<fs::path>& state_dir, Clock& clock, std::function<void()> on_room) {
  std::shared_ptr<compute::LedgerService> ledger;
  if (settings.ledger) {
    std::optional<fs::path> ledger_dir;
    if (state_dir) ledger_dir = *state_dir / "ledger";
    auto opened = store::sqlite::LedgerStore::open(ledger_dir, *settings.ledger, clock.now());
    if (!opened) return std::move(opened).error();
    ledger = std::move(*opened);
  }
  std::unique_ptr<LedgerAndWorker> made(
      new LedgerAndWorker(clock, std::move(ledger), std::move(worker), std::move(on_room)));
  if (settings.worker) {
    if (Status status = made->begin_worker(*settings.worker, state_dir); !status) {
      return std::move(status).error();
    }
  }
  return made;
}

Status LedgerAndWorker::begin_worker(const config::ComputeWorkerSettings& worker,
                                     const std::optional<fs::path>& state_dir) {
  feed_ = std::make_unique<compute::Feed>(worker_, worker.feed);
  const Instant now = clock_.now();
  if (!worker.ledger.empty()) {
    const std::string trouble = fetch::url_trouble(worker.ledger);
    if (!trouble.empty()) return bad_argument(fmt::format("compute: worker: ledger {}", trouble));
    source_ = std::make_unique<Remote>(worker.ledger, worker.name, worker.token, worker.feed.mode);
    period_ = std::min(worker.feed.poll, kKeepEvery);
  } else if (!worker.file.empty()) {
    source_ = std::make_unique<File>(worker.file);
    period_ = std::min(worker.feed.poll, kKeepEvery);
  } else {
    auto own = std::make_unique<OwnLedger>(ledger_, worker.name, worker.feed.mode);
    if (Status status = own->join(now); !status) return status;
    source_ = std::move(own);
    period_ = std::min(worker.feed.poll, kLookEvery);
  }
  bool has_resumed = false;
  if (state_dir) {
    file_ = *state_dir / kWorkerStateName;
    has_resumed = resume(*file_, now);
  }
  // A ledger far away may take its time: what there is already need not wait for it.
  if (!has_resumed || worker.ledger.empty()) {
    round(now);  // cppcheck-suppress ignoredReturnValue  ; not the one of <cmath>
  }
  thread_ = std::thread([this] { run(); });
  return Done{};
}

bool LedgerAndWorker::resume(const fs::path& file, Instant now) {
  Result<std::optional<WorkerState>> state = read_worker_state(file);
  if (!state) {
    // It is a few tokens, and what the ledger says again: nothing to stay away for.
    resume_warning_ = fmt::format("{}; buckets begin empty", state.error().message);
    return false;
  }
  if (!*state) return false;
  {
    const std::scoped_lock lock(*worker_);
    worker_->locked().restore(std::move((*state)->buckets));
  }
  feed_->resume(std::move((*state)->allocations), (*state)->heard, now);
  return true;
}

void LedgerAndWorker::run() {
  Instant keep_at = clock_.now() + kKeepEvery;
  for (;;) {
    {
      std::unique_lock lock(lock_);
      if (wait_by(wake_, lock, clock_, clock_.now() + period_, [this] { return is_ending_; })) {
        return;
      }
    }
    const Instant now = clock_.now();
    round(now);
    tell_of_room();
    if (now < keep_at) continue;
    keep_at = now + kKeepEvery;
    const Status kept = keep();
    const std::scoped_lock lock(lock_);
    keep_trouble_ = kept ? "" : kept.error().message;
  }
}

void LedgerAndWorker::round(Instant now) {
  {
    const std::scoped_lock lock(*worker_);
    worker_->locked().expire(now);
  }
  const bool is_own = dynamic_cast<OwnLedger*>(source_.get()) != nullptr;
  std::optional<News> news;
  if (is_own || now >= fetch_at_) {
    news = source_->fetch(now);
    fetch_at_ = now + feed_->settings().poll;
  }
  const std::scoped_lock lock(lock_);
  if (!news) {
    feed_->look(now);
  } else if (!*news) {
    feed_->failed(news->error().message, now);
  } else if (**news) {
    Heard& heard = ***news;
    feed_->heard(std::move(heard.set), now, std::move(heard.note), std::move(heard.broken));
    has_new_rates_ = true;
  } else {
    feed_->heard_nothing_new(now);
  }
}

// Also queries that an admission found to be over count.
void LedgerAndWorker::tell_of_room() {
  std::uint64_t expired = 0;
  {
    const std::scoped_lock lock(*worker_);
    expired = worker_->locked().totals().expired;
  }
  const bool has_ended = std::exchange(expired_, expired) != expired;
  if (std::exchange(has_new_rates_, false) || has_ended) on_room_();
}

Status LedgerAndWorker::keep() {
  if (!file_) return Done{};
  WorkerState state;
  {
    const std::scoped_lock lock(lock_);
    if (!feed_->status().epoch) return Done{};
    state.heard = feed_->status().fetched;
    state.allocations = feed_->last();
  }
  {
    const std::scoped_lock lock(*worker_);
    state.buckets = worker_->locked().kept();
  }
  std::string text = worker_state_text(state);
  if (text == kept_) return Done{};
  Status written = write_worker_state(*file_, text);
  if (written) kept_ = std::move(text);
  return written;
}

wire::http::ComputePart LedgerAndWorker::part() const {
  const std::scoped_lock lock(lock_);
  wire::http::ComputePart part{.ledger = ledger_, .worker = worker_, .desk = desk_};
  if (feed_ != nullptr) part.feed = feed_->status();
  if (part.feed.warning.empty()) part.feed.warning = resume_warning_;
  return part;
}

std::string LedgerAndWorker::trouble() const {
  const std::scoped_lock lock(lock_);
  if (feed_ != nullptr && !feed_->status().trouble.empty()) return feed_->status().trouble;
  return keep_trouble_;
}

void LedgerAndWorker::rest() {
  {
    const std::scoped_lock lock(lock_);
    is_ending_ = true;
  }
  wake_.notify_all();
  if (source_ != nullptr) source_->cancel();
  if (thread_.joinable()) thread_.join();
}

Status LedgerAndWorker::stop() {
  rest();
  if (feed_ == nullptr || std::exchange(is_kept_, true)) return Done{};
  return keep();
}

LedgerAndWorker::~LedgerAndWorker() { static_cast<void>(stop().ok()); }

}  // namespace weir::server
