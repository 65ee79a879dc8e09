// `./dev bench pool`: what the fleet's shared books cost.
//
// Pairs of acquire and release per second, of 1, 3 and 10 processes with 16 jobs each under
// way, beside pairs of bare EVALSHA of a script that does nothing, by the same client, as many
// processes and as many under way, in the same rounds. And the time that Redis itself takes
// for a release, with 1 and with 1,000 registered instances, by its own statistics.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "weir/base/clock.h"
#include "weir/store/redis/pool/books.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/store/redis/pool/scripts.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using namespace system::pool;

constexpr int kUnderWay = 16;
constexpr int kRounds = 5;
constexpr auto kTime = 2s;
constexpr std::array<int, 3> kInstances = {1, 3, 10};
constexpr int kManyInstances = 1'000;
constexpr int kReleases = 20'000;

const Script kNothing("nothing", "return 1");

PoolCoordinatorOptions options_of(const std::string& url) {
  PoolCoordinatorOptions options;
  options.address = *parse_address(url);
  options.prefix = "bench";
  options.timeout = 10s;
  options.trusts_empty = true;
  return options;
}

Registration registration() {
  return {.limits = {{"gpt",
                      {.rates = {.tokens_per_minute = kLimitMax,
                                 .requests_per_minute = kLimitMax,
                                 .tokens_per_day = kLimitMax,
                                 .requests_per_day = kLimitMax},
                       .concurrent = kLimitMax}}},
          .average = {1'000, 1},
          .version = 1};
}

class Silent final : public CoordinatorListener {
 public:
  void allocated(Instant, const Allocation&) override {}
  void freed(Instant, std::string_view) override {}
  void reachable(Instant, bool) override {}
};

[[noreturn]] void die(std::string_view why) {
  fmt::print(stderr, "bench pool: {}\n", why);
  std::exit(1);
}

// A job after the other, until it is told to end.
class Jobs {
 public:
  explicit Jobs(const std::string& url) {
    auto made = make_pool_coordinator(loop_, clock_, options_of(url));
    if (!made) die(made.error().message);
    coordinator_ = std::move(*made);
    std::promise<bool> started;
    coordinator_->start(registration(), listener_, clock_.now(),
                        [&](Instant, const Status& status) { started.set_value(status.ok()); });
    if (!started.get_future().get()) die("cannot register");
  }
  void begin() {
    for (int i = 0; i < kUnderWay; ++i) next();
  }
  std::uint64_t pairs() const { return pairs_; }

 private:
  void next() {
    coordinator_->acquire("gpt", {1'000, 1}, clock_.now(), [this](Instant now, Acquired acquired) {
      const auto* grant = std::get_if<Grant>(&acquired);
      if (grant == nullptr) die(std::get<Refusal>(acquired).message);
      coordinator_->release(*grant, {900, 1}, now, [this](Instant, Released) {
        ++pairs_;
        next();
      });
    });
  }

  SystemClock clock_;
  Silent listener_;
  Loop loop_;
  std::atomic<std::uint64_t> pairs_{0};
  std::unique_ptr<Coordinator> coordinator_;
};

class Bare {
 public:
  explicit Bare(const std::string& url) {
    ClientOptions options;
    options.address = *parse_address(url);
    options.timeout = 10s;
    options.scripts = {&kNothing};
    client_ = make_client(loop_, std::move(options));
    std::promise<bool> answered;
    client_->call(kNothing, keys_, {},
                  [&](const Answer& answer) { answered.set_value(answer.ok()); });
    if (!answered.get_future().get()) die("cannot ask");
  }
  void begin() {
    for (int i = 0; i < kUnderWay; ++i) next();
  }
  std::uint64_t pairs() const { return pairs_; }

 private:
  void next() {
    client_->call(kNothing, keys_, {}, [this](const Answer&) {
      client_->call(kNothing, keys_, {}, [this](const Answer&) {
        ++pairs_;
        next();
      });
    });
  }

  const std::array<std::string_view, 1> keys_ = {"{bench}:nothing"};
  Loop loop_;
  std::atomic<std::uint64_t> pairs_{0};
  std::unique_ptr<Client> client_;
};

// In a process of its own: says that it is ready, waits to be told, and says how many.
template <typename Work>
[[noreturn]] void child(const std::string& url, int from, int to) {
  Work work(url);
  char byte = 'r';
  if (::write(to, &byte, 1) != 1 || ::read(from, &byte, 1) != 1) std::_Exit(1);
  work.begin();
  std::this_thread::sleep_for(kTime);
  const std::uint64_t pairs = work.pairs();
  if (::write(to, &pairs, sizeof(pairs)) != sizeof(pairs)) std::_Exit(1);
  std::_Exit(0);
}

// Processor time so far.
double redis_us(const testing::RedisServer& redis) {
  std::ifstream in(fmt::format("/proc/{}/schedstat", redis.id()));
  double ns = 0;
  in >> ns;
  return ns / 1e3;
}
double children_us() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

struct Measured {
  double pairs = 0;      // per second, of all processes together
  double redis_us = 0;   // processor time of Redis for a pair
  double client_us = 0;  // and of whoever asks
};

template <typename Work>
Measured measure(const testing::RedisServer& redis, int processes) {
  const std::string url = redis.url();
  const double redis_before = redis_us(redis);
  const double children_before = children_us();
  struct Child {
    pid_t id;
    int to;
    int from;
  };
  std::vector<Child> children;
  for (int i = 0; i < processes; ++i) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    if (::pipe(down.data()) != 0 || ::pipe(up.data()) != 0) die("no pipe");
    const pid_t id = ::fork();
    if (id < 0) die("no process");
    if (id == 0) child<Work>(url, down[0], up[1]);
    ::close(down[0]);
    ::close(up[1]);
    children.push_back({id, down[1], up[0]});
  }
  char byte = 0;
  for (const Child& each : children) {
    if (::read(each.from, &byte, 1) != 1) die("a process ended early");
  }
  for (const Child& each : children) {
    if (::write(each.to, &byte, 1) != 1) die("a process ended early");
  }
  std::uint64_t sum = 0;
  for (const Child& each : children) {
    std::uint64_t pairs = 0;
    if (::read(each.from, &pairs, sizeof(pairs)) != sizeof(pairs)) die("a process ended early");
    sum += pairs;
    ::waitpid(each.id, nullptr, 0);
    ::close(each.to);
    ::close(each.from);
  }
  const auto pairs = static_cast<double>(sum);
  return {pairs / std::chrono::duration<double>(kTime).count(),
          (redis_us(redis) - redis_before) / pairs, (children_us() - children_before) / pairs};
}

double median_of(const std::vector<Measured>& rounds, double Measured::*what) {
  std::vector<double> values;
  for (const Measured& round : rounds) values.push_back(round.*what);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The microseconds of one EVALSHA since the statistics were reset.
double evalsha_us(Client& client) {
  std::promise<std::string> text;
  client.send(std::vector<std::string_view>{"INFO", "commandstats"}, [&](const Answer& answer) {
    text.set_value(answer.ok() ? std::string(answer.reply().text().value_or("")) : "");
  });
  const std::string all = text.get_future().get();
  const std::size_t line = all.find("cmdstat_evalsha:");
  const std::size_t at = all.find("usec_per_call=", line);
  if (line == std::string::npos || at == std::string::npos) die("no statistics");
  return std::strtod(all.c_str() + at + 14, nullptr);
}

void ask(Client& client, std::vector<std::string_view> words) {
  std::promise<void> done;
  client.send(words, [&](const Answer&) { done.set_value(); });
  done.get_future().wait();
}

// Registers one more, that never does anything.
void add_instance(Client& client, int number) {
  const PoolCoordinatorOptions options = options_of("redis://localhost");
  const Registration all = registration();
  const PoolKeys keys = pool_keys(options.prefix, "gpt");
  const std::string limits =
      limits_in_words(all.limits.at("gpt"), all.average, options.minute, options.day);
  const std::string instance = fmt::format("idle-{}", number);
  const std::int64_t lease_us = us_of(std::chrono::minutes{10});
  const std::string numbers =
      packed(lease_us, 1, us_of(options.minute), us_of(options.day), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
             0, 0, kLimitMax, kLimitMax, kLimitMax, kLimitMax, kLimitMax, 1, 0, 0, 0, 0, 0, 0, 0);
  const std::array<std::string_view, 5> arguments = {keys.channel, instance, limits, "", numbers};
  std::promise<bool> done;
  client.call(pool_scripts().enrol, std::array<std::string_view, 2>{keys.books, keys.leases},
              arguments, [&](const Answer& answer) {
                done.set_value(answer.ok() && read_reply(answer.reply()).code == 0);
              });
  if (!done.get_future().get()) die("cannot register an idle instance");
}

// Microseconds of Redis for one release, one after the other.
double release_us(const std::string& url, Client& client) {
  SystemClock clock;
  Silent listener;
  Loop loop;
  auto coordinator = make_pool_coordinator(loop, clock, options_of(url));
  if (!coordinator) die(coordinator.error().message);
  std::promise<bool> started;
  (*coordinator)->start(registration(), listener, clock.now(), [&](Instant, const Status& status) {
    started.set_value(status.ok());
  });
  if (!started.get_future().get()) die("cannot register");
  std::vector<Grant> grants(kReleases);
  for (Grant& grant : grants) {
    std::promise<Acquired> answer;
    (*coordinator)->acquire("gpt", {1'000, 1}, clock.now(), [&](Instant, Acquired acquired) {
      answer.set_value(std::move(acquired));
    });
    Acquired acquired = answer.get_future().get();
    if (!std::holds_alternative<Grant>(acquired)) die(std::get<Refusal>(acquired).message);
    grant = std::get<Grant>(std::move(acquired));
  }
  ask(client, {"CONFIG", "RESETSTAT"});
  for (const Grant& grant : grants) {
    std::promise<void> done;
    (*coordinator)->release(grant, {900, 1}, clock.now(), [&](Instant, Released) {
      done.set_value();
    });
    done.get_future().wait();
  }
  return evalsha_us(client);
}

int run() {
  const testing::RedisServer redis;
  fmt::print("acquire+release pairs/s, {} under way in each process, {} rounds of {} s\n",
             kUnderWay, kRounds, kTime.count());
  fmt::print("{:>10} {:>12} {:>12} {:>16}   CPU us a pair, weir / bare: Redis, client\n",
             "processes", "weir", "bare", "ratio (bar 0.5)");
  std::array<std::vector<Measured>, kInstances.size()> ours;
  std::array<std::vector<Measured>, kInstances.size()> bare;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kInstances.size(); ++i) {
      redis.ask("FLUSHALL");
      ours[i].push_back(measure<Jobs>(redis, kInstances[i]));
      bare[i].push_back(measure<Bare>(redis, kInstances[i]));
    }
  }
  bool is_good = true;
  for (std::size_t i = 0; i < kInstances.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < kRounds; ++round) {
      ratios.push_back(ours[i][round].pairs / bare[i][round].pairs);
    }
    is_good = is_good && median(ratios) >= 0.5;
    fmt::print("{:>10} {:>12.0f} {:>12.0f} {:>16.2f}   {:.1f} / {:.1f}, {:.1f} / {:.1f}\n",
               kInstances[i], median_of(ours[i], &Measured::pairs),
               median_of(bare[i], &Measured::pairs), median(ratios),
               median_of(ours[i], &Measured::redis_us), median_of(bare[i], &Measured::redis_us),
               median_of(ours[i], &Measured::client_us), median_of(bare[i], &Measured::client_us));
  }
  std::vector<double> kept;
  for (std::size_t round = 0; round < kRounds; ++round) {
    kept.push_back(ours.back()[round].pairs / ours.front()[round].pairs);
  }
  is_good = is_good && median(kept) >= 0.85;
  fmt::print("10 processes over 1: {:.2f} (bar 0.85)\n", median(kept));

  redis.ask("FLUSHALL");
  Loop loop;
  ClientOptions options;
  options.address = *parse_address(redis.url());
  options.timeout = 10s;
  const auto client = make_client(loop, std::move(options));
  std::vector<double> few;
  std::vector<double> many;
  for (int round = 0; round < kRounds; ++round) {
    ask(*client, {"FLUSHALL"});
    few.push_back(release_us(redis.url(), *client));
    ask(*client, {"FLUSHALL"});
    for (int i = 1; i < kManyInstances; ++i) add_instance(*client, i);
    many.push_back(release_us(redis.url(), *client));
  }
  std::vector<double> growth;
  for (std::size_t i = 0; i < few.size(); ++i) growth.push_back(many[i] / few[i]);
  is_good = is_good && median(growth) <= 1.2;
  fmt::print("a release in Redis: {:.2f} us with 1 instance, {:.2f} us with {}: {:.2f} (bar 1.2)\n",
             median(few), median(many), kManyInstances, median(growth));
  return is_good ? 0 : 1;
}

}  // namespace
}  // namespace weir::store::redis

int main() { return weir::store::redis::run(); }
