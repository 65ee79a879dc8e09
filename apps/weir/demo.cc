#include "apps/weir/demo.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <optional>
#include <random>

#include "weir/base/clock.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

constexpr auto kStep = 20ms;                // between two bursts of requests
constexpr auto kSayEvery = 1s;              // a progress line
constexpr auto kWorkLasts = 300ms;          // a hold is settled after that
constexpr const char* kWaitersWait = "1s";  // for their turn
constexpr Duration kDurationMax = 24h;
constexpr std::size_t kHoldsMax = 10'000;  // kept at once; further ones are settled at once

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

struct Counts {
  std::int64_t sent = 0, allowed = 0, denied = 0, never = 0, failed = 0;

  void count(const ServerReply& reply) {
    const std::string verdict = reply.text_of("verdict");
    if (verdict == "allowed") {
      allowed += 1;
    } else if (verdict == "never") {
      never += 1;
    } else if (reply.is_error()) {
      failed += 1;
    } else {
      denied += 1;
    }
  }
};

struct Varied {
  std::string name;
  std::int64_t values;
};

Result<std::vector<Varied>> varied_of(const std::vector<std::string>& attributes) {
  std::vector<Varied> all;
  for (const std::string& text : attributes) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return bad_argument(fmt::format(
          "{} has no '=', but it must be NAME=COUNT; write one such as client=20, for client=1 to "
          "client=20",
          in_quotes(text)));
    }
    const std::string name = text.substr(0, equals);
    const Result<std::int64_t> values =
        engine::parse_count(name, text.substr(equals + 1), 1, kDemoValuesMax);
    if (!values) return values.error();
    all.push_back({name, *values});
  }
  return all;
}

class Demo {
 public:
  Demo(const DemoOptions& options, std::vector<Varied> attributes, Duration lasts,
       ServerConnection asker, std::vector<ServerConnection> waiters)
      : options_(options),
        attributes_(std::move(attributes)),
        lasts_(lasts),
        asker_(std::move(asker)) {
    for (ServerConnection& client : waiters) waiters_.push_back({std::move(client)});
  }

  Status run() {
    while (interrupted == 0 && elapsed() < lasts_) {
      if (Status status = step(); !status) return status;
    }
    return end();
  }

  void print_summary() const {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed()).count();
    if (options_.json) {
      fmt::print(R"({{"sent":{},"allowed":{},"denied":{},"never":{},"failed":{},"elapsed_ms":{}}})"
                 "\n",
                 counts_.sent, counts_.allowed, counts_.denied, counts_.never, counts_.failed, ms);
      return;
    }
    fmt::print("sent {}, allowed {}, denied {}, never {}, failed {} in {}.{} s\n", counts_.sent,
               counts_.allowed, counts_.denied, counts_.never, counts_.failed, ms / 1000,
               ms % 1000 / 100);
    if (counts_.failed > 0) fmt::print("the first error: {}\n", first_error_);
  }
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Waiter {
    ServerConnection client;
    bool is_waiting = false;
  };
  struct Held {
    std::string hold;
    Instant until;
  };

  Duration elapsed() const { return monotonic_clock().now() - begun_; }

  // Some values are drawn more often than others: the least of two draws.
  std::vector<std::string> request() {
    std::vector<std::string> words{"WEIR.ACQUIRE"};
    for (const Varied& attribute : attributes_) {
      std::uniform_int_distribution<std::int64_t> draw(1, attribute.values);
      words.push_back(fmt::format("{}={}", attribute.name, std::min(draw(random_), draw(random_))));
    }
    for (const std::string& cost : options_.costs) words.insert(words.end(), {"COST", cost});
    return words;
  }

  void take(const ServerReply& reply) {
    counts_.count(reply);
    if (reply.is_error() && first_error_.empty()) first_error_ = reply.text;
    if (std::string hold = reply.text_of("hold"); !hold.empty()) {
      held_.push_back({std::move(hold), monotonic_clock().now() + kWorkLasts});
    }
  }

  // Everything that is due by now, then a pause in which those who wait may be answered.
  Status step() {
    const std::int64_t due = due_by_now() - asked_;
    for (std::int64_t i = 0; i < due; ++i) {
      if (Status status = asker_.send(request()); !status) return status;
    }
    for (std::int64_t i = 0; i < due; ++i) {
      const Result<ServerReply> reply = asker_.receive();
      if (!reply) return reply.error();
      take(*reply);
    }
    asked_ += due;
    counts_.sent += due;
    if (Status status = settle(monotonic_clock().now()); !status) return status;
    if (Status status = wait_on(); !status) return status;
    say_progress();
    return Done{};
  }

  // At most a second's worth: time that was lost is not made up for.
  std::int64_t due_by_now() {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed()).count();
    const std::int64_t due = ms * options_.rate / 1000;  // at most 86.4e6 ms * 1e5
    asked_ = std::max(asked_, due - options_.rate);
    return due;
  }

  Status settle(Instant due) {
    while (!held_.empty() && (held_.front().until <= due || held_.size() > kHoldsMax)) {
      const Result<ServerReply> reply = asker_.ask({"WEIR.SETTLE", held_.front().hold});
      if (!reply) return reply.error();
      held_.pop_front();
    }
    return Done{};
  }

  Status wait_on() {
    std::vector<pollfd> readable;
    for (Waiter& waiter : waiters_) {
      if (!waiter.is_waiting) {
        std::vector<std::string> words = request();
        words.insert(words.end(), {"WAIT", kWaitersWait});
        if (Status status = waiter.client.send(words); !status) return status;
        waiter.is_waiting = true;
        counts_.sent += 1;
      }
      readable.push_back({waiter.client.descriptor(), POLLIN, 0});
    }
    if (::poll(readable.data(), readable.size(), static_cast<int>(kStep.count())) <= 0) {
      return Done{};
    }
    for (std::size_t i = 0; i < waiters_.size(); ++i) {
      if (readable[i].revents == 0) continue;
      const Result<ServerReply> reply = waiters_[i].client.receive();
      if (!reply) return reply.error();
      waiters_[i].is_waiting = false;
      take(*reply);
    }
    pause_until_next_step();
    return Done{};
  }

  // Leaves no hold behind: ending ours may admit those who wait.
  Status end() {
    if (Status status = settle(kForever); !status) return status;
    for (Waiter& waiter : waiters_) {
      if (!waiter.is_waiting) continue;
      const Result<ServerReply> reply = waiter.client.receive();
      if (!reply) return reply.error();
      take(*reply);
      if (Status status = settle(kForever); !status) return status;
    }
    return Done{};
  }

  // Those who wait may be answered at once, which must not make us ask faster.
  void pause_until_next_step() {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(next_step_ - monotonic_clock().now());
    if (left > 0ms) ::poll(nullptr, 0, static_cast<int>(left.count()));
    next_step_ = monotonic_clock().now() + kStep;
  }

  void say_progress() {
    if (!is_terminal_ || options_.json || monotonic_clock().now() < next_word_) return;
    next_word_ = next_word_ + kSayEvery;
    const auto waiting = std::count_if(waiters_.begin(), waiters_.end(),
                                       [](const Waiter& waiter) { return waiter.is_waiting; });
    fmt::print("\rsent {}, allowed {}, denied {}, waiting {} \x1b[K", counts_.sent, counts_.allowed,
               counts_.denied + counts_.never, waiting);
    std::fflush(stdout);
    said_ = true;
  }

 public:
  // Ends the progress line, so that what follows starts on its own.
  void end_progress() const {
    if (said_) fmt::print("\n");
  }

 private:
  const DemoOptions& options_;
  const std::vector<Varied> attributes_;
  const Duration lasts_;
  const bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  ServerConnection asker_;
  std::vector<Waiter> waiters_;
  std::mt19937_64 random_{1};  // the same traffic every time
  std::deque<Held> held_;
  Counts counts_;
  std::string first_error_;
  std::int64_t asked_ = 0;
  bool said_ = false;
  const Instant begun_ = monotonic_clock().now();
  Instant next_step_ = begun_ + kStep;
  Instant next_word_ = begun_ + kSayEvery;
};

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int run_demo(const DemoOptions& options) {
  Result<std::vector<Varied>> attributes = varied_of(options.attributes);
  if (!attributes) return fail("demo", attributes.error());
  const Result<Duration> lasts = engine::parse_duration("--duration", options.duration);
  if (!lasts) return fail("demo", lasts.error());
  if (*lasts > kDurationMax) {
    return fail("demo", bad_argument(fmt::format(
                            "--duration is '{}', but it must be at most 24h; write a shorter one",
                            options.duration)));
  }
  Result<ServerConnection> asker = ServerConnection::connect(options.server);
  if (!asker) return fail("demo", asker.error());
  std::vector<ServerConnection> waiters;
  for (int i = 0; i < options.waiters; ++i) {
    Result<ServerConnection> waiter = ServerConnection::connect(options.server);
    if (!waiter) return fail("demo", waiter.error());
    waiters.push_back(std::move(*waiter));
  }
  stop_on_signals();
  Demo demo(options, std::move(*attributes), *lasts, std::move(*asker), std::move(waiters));
  const Status status = demo.run();
  demo.end_progress();
  demo.print_summary();
  if (!status) return fail("demo", status.error());
  return demo.counts().failed > 0 ? kExitFailed : kExitOk;
}

}  // namespace weir::app
