// What pools read from outside: the answers of a Redis, in any order and form, and the bodies
// of requests about jobs.
//
// The first byte chooses. A Redis is played to one model's part: the input is a list of
// operations, each a byte and what it needs. Whatever it answers, each question is answered
// once, and nothing is counted below 0.

#include <hiredis/hiredis.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/input.h"
#include "weir/store/redis/pool/books.h"
#include "weir/store/redis/pool/model.h"
#include "weir/store/redis/pool/scripts.h"
#include "weir/wire/http/pool_json.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;
using namespace std::chrono_literals;

using fuzz::check;

class Input : public fuzz::Input {
 public:
  using fuzz::Input::Input;

  // One that matters, as a script would send it.
  double number() {
    constexpr std::array<double, 16> kNumbers = {0,
                                                 1,
                                                 2,
                                                 3,
                                                 100,
                                                 1e6,
                                                 1.77e15,
                                                 1.77e15 + 6e7,
                                                 9007199254740991,
                                                 9007199254740992,
                                                 1e18,
                                                 -1,
                                                 0.5,
                                                 -1e300,
                                                 std::numeric_limits<double>::infinity(),
                                                 std::numeric_limits<double>::quiet_NaN()};
    return kNumbers[byte() % kNumbers.size()];
  }
};

// Keeps questions until the input answers them.
class PlayedClient final : public Client {
 public:
  struct Asked {
    AnswerCallback done;
    AnswerCallback late;
  };
  void send(Words, AnswerCallback done, RequestOptions options) override {
    asked.push_back({std::move(done), std::move(options.late)});
  }
  void call(const Script&, Words, Words, AnswerCallback done, RequestOptions options) override {
    asked.push_back({std::move(done), std::move(options.late)});
  }
  void flush() override {}
  bool is_up() const override { return true; }
  ClientCounts counts() const override { return {}; }
  void close() override {}

  std::deque<Asked> asked;
};

class Game final : public PoolHost {
 public:
  explicit Game(Loop& loop) : loop_(loop) {
    options_.prefix = "fuzz";
    options_.instance = "one";
  }

  Loop& loop() override { return loop_; }
  Instant now() override { return Instant{1'770'000'000'000'000'000}; }
  Client& client() override { return client_; }
  const PoolCoordinatorOptions& options() const override { return options_; }
  std::uint64_t next_grant() override { return ++last_grant_; }
  void post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  std::string_view alive_channel() override { return "fuzz:alive"; }
  void on_doubt() override {}
  void on_enrolled(PoolModel&, const Status&) override {}
  void on_totals(PoolModel& model, bool) override {
    check(model.totals().used.minute.tokens >= 0 && model.totals().in_flight >= 0);
  }

  void play(Input input) {
    PoolModel model(*this, "m", {.limits = {{.tokens_per_minute = 1'000}, 4}, .version = 1});
    model.enrol();
    for (int i = 0; i < 200 && !input.is_empty(); ++i) {
      step(model, input);
      run_posted();
    }
    model.close();
    run_posted();
    // As a client that is closed does.
    while (!client_.asked.empty()) fail(client_.asked.front().done, FailureKind::kDisconnected);
    run_posted();
    for (const int answers : answers_) check(answers == 1);
  }

 private:
  void run_posted() {
    while (!posted_.empty()) {
      const std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  // A callback that is to be called once.
  std::size_t question() {
    answers_.push_back(0);
    return answers_.size() - 1;
  }
  AcquireCallback taken() {
    return [this, at = question()](Instant, const Acquired& answer) {
      ++answers_[at];
      if (const Grant* const grant = std::get_if<Grant>(&answer)) grants_.push_back(*grant);
    };
  }

  void step(PoolModel& model, Input& input) {
    switch (input.byte() % 10) {
      case 0:
        return model.acquire({input.byte(), 1}, taken());
      case 1:
        return release(model, input);
      case 2:
        return model.adopt({input.byte(), 1}, now() - Duration{input.byte() * 1s}, taken());
      case 3:
        return model.replay({input.byte(), 1}, now() - Duration{input.byte() * 1s},
                            [this, at = question()](Instant, const Status&) { ++answers_[at]; });
      case 4:
        return model.heartbeat();
      case 5:
        return model.on_down();
      case 6:
        return model.change(
            {.limits = {{.tokens_per_minute = input.byte() + 1}, 4}, .version = input.byte()});
      case 7:
        return answer(input, totals(input));
      case 8:
        return answer_bytes(input);
      default:
        return fail_one(input);
    }
  }
  void release(PoolModel& model, Input& input) {
    if (grants_.empty()) return;
    const Grant grant = grants_[input.byte() % grants_.size()];
    model.release(grant, {input.byte(), 1},
                  [this, at = question()](Instant, Released) { ++answers_[at]; });
  }

  // A reply of about the right form.
  static std::string totals(Input& input) {
    std::string text(input.bytes(2));
    const std::size_t count = input.byte() % 4 == 0 ? input.byte() % 32 : 26;
    for (std::size_t i = 0; i < count; ++i) {
      const double number = input.number();
      text.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    text.append(input.bytes(input.byte() % 16));
    return text;
  }
  PlayedClient::Asked next() {
    PlayedClient::Asked asked = std::move(client_.asked.front());
    client_.asked.pop_front();
    return asked;
  }
  void answer(Input& input, const std::string& text) {
    if (client_.asked.empty()) return;
    redisReply reply{};
    reply.type = REDIS_REPLY_STRING;
    std::string bytes = text;
    reply.str = bytes.data();
    reply.len = bytes.size();
    tell(next(), Answer(Reply(&reply)), input.byte() % 4 == 0);
  }
  // Whatever hiredis makes of the bytes.
  void answer_bytes(Input& input) {
    const std::string_view bytes = input.bytes(input.byte());
    redisReader* const reader = redisReaderCreate();
    redisReaderFeed(reader, bytes.data(), bytes.size());
    void* made = nullptr;
    if (redisReaderGetReply(reader, &made) == REDIS_OK && made != nullptr) {
      const Reply reply(static_cast<redisReply*>(made));
      CoordinatorReport report;
      add_to_report(report, "m", {}, options_, reply);
      if (!client_.asked.empty()) tell(next(), Answer(reply), input.byte() % 4 == 0);
      freeReplyObject(made);
    }
    redisReaderFree(reader);
  }
  void fail_one(Input& input) {
    if (client_.asked.empty()) return;
    const auto kind = static_cast<FailureKind>(input.byte() % 13);
    const Failure failure{kind, "played", input.byte() % 2 == 0};
    next().done(Answer(failure));
  }
  void fail(AnswerCallback& done, FailureKind kind) {
    const AnswerCallback taken = std::move(done);
    client_.asked.pop_front();
    const Failure failure{kind, "played", true};
    taken(Answer(failure));
  }
  // In time, or after the time-out.
  static void tell(const PlayedClient::Asked& asked, const Answer& answer, bool is_late) {
    if (!is_late) return asked.done(answer);
    const Failure failure{FailureKind::kTimedOut, "played", true};
    asked.done(Answer(failure));
    if (asked.late) asked.late(answer);
  }

  Loop& loop_;
  PoolCoordinatorOptions options_;
  PlayedClient client_;
  std::deque<std::function<void()>> posted_;
  std::vector<Grant> grants_;
  std::vector<int> answers_;
  std::uint64_t last_grant_ = 0;
};

void read_bodies(std::string_view body) {
  wire::http::Texts texts;
  if (const auto ask = wire::http::read_job_ask(body, texts)) check(!ask->type.empty());
  if (const auto release = wire::http::read_job_release(body, texts); release && release->used) {
    check(release->used->tokens() >= 0 && release->used->requests >= 0);
  }
  static_cast<void>(wire::http::read_job_renewal(body, texts).ok());
}

}  // namespace
}  // namespace weir::store::redis

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::store::redis;
  Input input(data, size);
  if (input.byte() % 4 == 0) {
    read_bodies(input.rest());
    return 0;
  }
  // Made here rather than on the loop's thread, which outlives what OpenSSL frees when the process
  // ends: what it has of that thread would count as a leak.
  static_cast<void>(pool_scripts());
  static Loop loop;
  loop.run([&] { Game(loop).play(input); });
  return 0;
}
