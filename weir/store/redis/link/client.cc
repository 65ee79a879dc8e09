#include "weir/store/redis/link/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/link/link.h"

namespace weir::store::redis {
namespace {

struct CountDown {
  void operator()(std::atomic<std::size_t>* count) const {
    count->fetch_sub(1, std::memory_order_relaxed);
  }
};

struct Request {
  std::string bytes;
  AnswerCallback done;  // empty once answered, and for requests of our own
  AnswerCallback late;
  const Script* script = nullptr;
  Instant deadline;
  bool is_sent = false;  // and no reply has come to say that it did not run
  bool is_second_try = false;
  // Answered or not, it takes memory as long as its reply may come. None: a request of our own.
  std::unique_ptr<std::atomic<std::size_t>, CountDown> counted;
};
using RequestRef = std::shared_ptr<Request>;

// What lives on the loop's thread, and until the last callback of the link has run.
class Core final : public LinkUser, public std::enable_shared_from_this<Core> {
 public:
  Core(Loop& loop, ClientOptions options)
      : loop_(loop), options_(std::move(options)), expiry_(loop) {}

  void open() {
    link_ = std::make_shared<Link>(loop_, static_cast<const LinkOptions&>(options_), *this);
    link_->open();
  }
  void close();

  // From any thread.
  void submit(RequestRef request);
  // On the loop's.
  void flush() { take(here_); }
  Duration timeout() const noexcept { return options_.timeout; }
  Instant now() const noexcept { return options_.clock->now(); }
  bool is_up() const noexcept { return is_up_.load(std::memory_order_relaxed); }
  ClientCounts counts() const;

 private:
  std::vector<std::string> greeting() override;
  void on_open() override;
  void on_closed(const Failure& failure) override;
  bool on_reply(const redisReply& reply) override;
  void on_batch_end() override;
  void ask_ping() override;

  void take_inbox();
  void take(std::vector<RequestRef>& asked);
  void place(RequestRef request);
  void send(RequestRef request);
  void send_waiting();
  void answer(Request& request, const Answer& answer);
  void fail(Request& request, FailureKind kind, std::string message, bool may_have_run);
  void arm(const RequestRef& request);
  void expire();
  void send_again();

  Loop& loop_;
  ClientOptions options_;
  std::atomic<std::size_t> requests_{0};  // there are; they go before it does
  std::shared_ptr<Link> link_;
  Timer expiry_;
  Instant armed_for_ = kForever;
  std::deque<RequestRef> deadlines_;  // the earliest first
  std::deque<RequestRef> in_flight_;  // in the order of their replies
  std::deque<RequestRef> waiting_;    // to be sent
  std::deque<RequestRef> again_;      // NOSCRIPT: to be sent once more, before `waiting_`
  bool is_reloading_ = false;         // nothing is sent until all in flight is answered
  Failure refusal_;                   // while `is_refusing_`: why requests are not kept
  bool is_refusing_ = false;
  bool is_closed_ = false;

  std::atomic<bool> is_up_{false};
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> replies_{0};
  std::atomic<std::uint64_t> timed_out_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<std::uint64_t> reloads_{0};

  std::mutex mutex_;
  std::vector<RequestRef> inbox_;  // guarded by mutex_
  std::vector<RequestRef> taken_;
  std::vector<RequestRef> here_;   // asked on the loop's thread
  std::vector<RequestRef> spare_;  // empty
};

void add_one(std::atomic<std::uint64_t>& count) { count.fetch_add(1, std::memory_order_relaxed); }

void Core::submit(RequestRef request) {
  request->counted.reset(&requests_);
  if (requests_.fetch_add(1, std::memory_order_relaxed) >= kRequestsMax) {
    return fail(*request, FailureKind::kTooMany,
                fmt::format("Redis at {}: {} requests are in flight already",
                            describe(options_.address), kRequestsMax),
                false);
  }
  // Requests that come before the loop has looked travel in the same batch. On the loop's own
  // thread those are all that were ready together.
  bool is_first = false;
  if (loop_.is_here()) {
    is_first = here_.empty();
    here_.push_back(std::move(request));
    if (is_first) loop_.post([self = shared_from_this()] { self->take(self->here_); });
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_first = inbox_.empty();
    inbox_.push_back(std::move(request));
  }
  if (is_first) {
    loop_.post([self = shared_from_this()] { self->take_inbox(); });
  }
}

void Core::take_inbox() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(inbox_);
  }
  take(taken_);
}

void Core::take(std::vector<RequestRef>& asked) {
  // A callback may ask for more meanwhile.
  std::vector<RequestRef> all = std::exchange(asked, std::exchange(spare_, {}));
  for (RequestRef& request : all) place(std::move(request));
  all.clear();
  spare_ = std::move(all);
  if (link_) link_->flush();
}

void Core::place(RequestRef request) {
  if (is_closed_) {
    return fail(*request, FailureKind::kDisconnected, "the client of Redis is closed", false);
  }
  if (is_refusing_) return fail(*request, refusal_.kind, refusal_.message, false);
  arm(request);
  if (!link_->is_open() || is_reloading_) {
    waiting_.push_back(std::move(request));
  } else {
    send(std::move(request));
  }
}

void Core::send(RequestRef request) {
  add_one(sent_);
  request->is_sent = true;
  link_->write(request->bytes);
  // Only a script may have to be sent again.
  if (request->script == nullptr) request->bytes.clear();
  in_flight_.push_back(std::move(request));
}

void Core::send_waiting() {
  for (RequestRef& request : std::exchange(waiting_, {})) {
    if (request->done) send(std::move(request));
  }
}

void Core::answer(Request& request, const Answer& answer) {
  std::exchange(request.done, nullptr)(answer);
}

void Core::fail(Request& request, FailureKind kind, std::string message, bool may_have_run) {
  const Failure failure{kind, std::move(message), may_have_run};
  answer(request, Answer(failure));
}

void Core::arm(const RequestRef& request) {
  // Those answered in the meantime only have to go.
  while (!deadlines_.empty() && !deadlines_.front()->done) deadlines_.pop_front();
  // Mostly the last: most requests have the same timeout.
  auto at = deadlines_.end();
  while (at != deadlines_.begin() && (*std::prev(at))->deadline > request->deadline) --at;
  deadlines_.insert(at, request);
  if (request->deadline >= armed_for_) return;
  armed_for_ = request->deadline;
  expiry_.start(std::max(Duration{0}, armed_for_ - options_.clock->now()), [this] { expire(); });
}

void Core::expire() {
  armed_for_ = kForever;
  const std::shared_ptr<Core> alive = shared_from_this();
  const Instant now = options_.clock->now();
  while (!deadlines_.empty()) {
    const RequestRef request = deadlines_.front();
    deadlines_.pop_front();
    if (request->done && request->deadline > now) return arm(request);
    if (!request->done) continue;
    add_one(timed_out_);
    // What only waits to be sent will not be.
    fail(*request, FailureKind::kTimedOut, fmt::format("{}: no reply in time", link_->where()),
         request->is_sent);
    if (is_closed_) return;
  }
}

std::vector<std::string> Core::greeting() {
  std::vector<std::string> commands;
  for (const Script* script : options_.scripts) {
    const std::array<std::string_view, 3> words = {"SCRIPT", "LOAD", script->text()};
    commands.push_back(format(words));
  }
  return commands;
}

void Core::on_open() {
  add_one(connections_);
  is_up_.store(true, std::memory_order_relaxed);
  is_refusing_ = false;
  send_waiting();
  link_->flush();
}

void Core::on_closed(const Failure& failure) {
  const bool was_up = is_up_.exchange(false, std::memory_order_relaxed);
  is_reloading_ = false;
  const std::deque<RequestRef> lost = std::exchange(in_flight_, {});
  // These did not run, and may yet.
  waiting_.insert(waiting_.begin(), again_.begin(), again_.end());
  again_.clear();
  if (!was_up) {
    is_refusing_ = true;
    refusal_ = failure;
    for (const RequestRef& request : std::exchange(waiting_, {})) {
      if (request->done) fail(*request, failure.kind, failure.message, false);
    }
  }
  for (const RequestRef& request : lost) {
    if (request->done) fail(*request, failure.kind, failure.message, true);
  }
}

bool Core::on_reply(const redisReply& reply) {
  if (in_flight_.empty()) return false;
  const RequestRef request = std::move(in_flight_.front());
  in_flight_.pop_front();
  add_one(replies_);
  if (reply.type != REDIS_REPLY_ERROR) {
    if (request->done) {
      answer(*request, Answer(Reply(&reply)));
    } else if (request->late) {
      std::exchange(request->late, nullptr)(Answer(Reply(&reply)));
    }
    return true;
  }
  if (!request->done && !request->late) return true;
  const std::string_view text(reply.str, reply.len);
  const FailureKind kind = kind_of_error(text);
  if (kind == FailureKind::kNoScript && request->script != nullptr && !request->is_second_try &&
      request->done) {
    is_reloading_ = true;
    request->is_second_try = true;
    request->is_sent = false;
    again_.push_back(request);
    return true;
  }
  std::string message = fmt::format("{}: {}", link_->where(), in_quotes(text));
  if (request->script != nullptr) {
    message.append(fmt::format(", to the script '{}'", request->script->name()));
  }
  // A script that failed may have written before it did; other errors precede any effect.
  const bool may_have_run = kind == FailureKind::kScript;
  if (request->done) {
    fail(*request, kind, std::move(message), may_have_run);
  } else {
    const Failure failure{kind, std::move(message), may_have_run};
    std::exchange(request->late, nullptr)(Answer(failure));
  }
  return true;
}

void Core::on_batch_end() {
  if (is_reloading_ && in_flight_.empty()) send_again();
  link_->flush();
}

// Everything sent before the scripts went is answered: what found none of them goes
// first, in the order in which it was sent, then what has come meanwhile.
void Core::send_again() {
  is_reloading_ = false;
  add_one(reloads_);
  std::vector<const Script*> scripts;
  const std::deque<RequestRef> again = std::exchange(again_, {});
  for (const RequestRef& request : again) {
    if (std::find(scripts.begin(), scripts.end(), request->script) != scripts.end()) continue;
    scripts.push_back(request->script);
    const std::array<std::string_view, 3> words = {"SCRIPT", "LOAD", request->script->text()};
    auto load = std::make_shared<Request>();
    load->bytes = format(words);
    send(std::move(load));
  }
  for (const RequestRef& request : again) {
    if (request->done) send(request);
  }
  send_waiting();
}

void Core::ask_ping() {
  const std::array<std::string_view, 1> words = {"PING"};
  auto ping = std::make_shared<Request>();
  ping->bytes = format(words);
  send(std::move(ping));
}

ClientCounts Core::counts() const {
  const auto value = [](const std::atomic<std::uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  return {value(sent_), value(replies_), value(timed_out_), value(connections_), value(reloads_)};
}

void Core::close() {
  if (is_closed_) return;
  is_closed_ = true;
  is_up_.store(false, std::memory_order_relaxed);
  link_->close();
  expiry_.stop();
  const std::deque<RequestRef> lost = std::exchange(in_flight_, {});
  std::deque<RequestRef> unsent = std::exchange(again_, {});
  unsent.insert(unsent.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  take_inbox();
  take(here_);
  for (const RequestRef& request : lost) {
    if (!request->done) continue;
    fail(*request, FailureKind::kDisconnected, "the client of Redis is closed", true);
  }
  for (const RequestRef& request : unsent) {
    if (!request->done) continue;
    fail(*request, FailureKind::kDisconnected, "the client of Redis is closed", false);
  }
}

class SingleClient final : public Client {
 public:
  SingleClient(Loop& loop, ClientOptions options)
      : loop_(loop), core_(std::make_shared<Core>(loop, std::move(options))) {
    loop_.run([this] { core_->open(); });
  }
  // On the loop, where a timer of the core may be about to look whether it is still wanted.
  ~SingleClient() override {
    loop_.run([this] {
      core_->close();
      core_.reset();
    });
  }

  void send(Words words, AnswerCallback done, RequestOptions options) override {
    WEIR_ASSERT(!words.empty());
    submit(format(words), nullptr, std::move(done), std::move(options));
  }

  void call(const Script& script, Words keys, Words arguments, AnswerCallback done,
            RequestOptions options) override {
    const std::string count = std::to_string(keys.size());
    const std::array<std::string_view, 3> head = {"EVALSHA", script.sha(), count};
    const std::array<Words, 3> parts = {head, keys, arguments};
    submit(format(parts), &script, std::move(done), std::move(options));
  }

  void flush() override { core_->flush(); }
  bool is_up() const override { return core_->is_up(); }
  ClientCounts counts() const override { return core_->counts(); }
  void close() override {
    loop_.run([this] { core_->close(); });
  }

 private:
  void submit(std::string bytes, const Script* script, AnswerCallback done,
              RequestOptions options) {
    auto request = std::make_shared<Request>();
    request->bytes = std::move(bytes);
    request->done = std::move(done);
    request->late = std::move(options.late);
    request->script = script;
    request->deadline = core_->now() + options.timeout.value_or(core_->timeout());
    core_->submit(std::move(request));
  }

  Loop& loop_;
  std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<Client> make_client(Loop& loop, ClientOptions options) {
  return std::make_unique<SingleClient>(loop, std::move(options));
}

}  // namespace weir::store::redis
