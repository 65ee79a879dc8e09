// One instance of a fleet, in a process of its own that a test may kill or stop.
//
//   store_redis_pool_worker URL TRUST FILE SEED
//
// Asks for jobs as fast as it can, on several threads, and writes a line for each grant, at
// the instant it has it, and one with what the job used before it reports that:
//
//   G <grant> <begin of the window, ns> <tokens estimated>
//   R <grant> <tokens used>

#include "tests/store/redis/pool/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "weir/base/clock.h"
#include "weir/store/redis/pool/coordinator.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using namespace system::pool;

class Silent final : public CoordinatorListener {
 public:
  void allocated(Instant, const Allocation&) override {}
  void freed(Instant, std::string_view) override {}
  void reachable(Instant, bool) override {}
};

// One system call for each line, so that what was written stays when the process is killed.
void write_line(int file, const std::string& line) {
  if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

void work(Coordinator& coordinator, Clock& clock, int file, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  while (true) {
    const Amounts estimate{static_cast<std::int64_t>(1 + random() % kWorkerTokensMax), 1};
    std::promise<Acquired> answer;
    coordinator.acquire("gpt", estimate, clock.now(), [&](Instant, Acquired acquired) {
      if (const auto* grant = std::get_if<Grant>(&acquired)) {
        write_line(file, fmt::format("G {} {} {}\n", grant->id, grant->minute.ns, estimate.tokens));
      }
      answer.set_value(std::move(acquired));
    });
    const Acquired acquired = answer.get_future().get();
    const auto* grant = std::get_if<Grant>(&acquired);
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 3000});
    if (grant == nullptr) continue;
    const Amounts used{
        static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(estimate.tokens) + 1)), 1};
    write_line(file, fmt::format("R {} {}\n", grant->id, used.tokens));
    std::promise<void> released;
    coordinator.release(*grant, used, clock.now(),
                        [&](Instant, Released) { released.set_value(); });
    released.get_future().wait();
  }
}

int run(int count, char** words) {
  if (count != 5) return 2;
  const int file = ::open(words[3], O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
  const auto address = parse_address(words[1]);
  if (file < 0 || !address) return 2;
  PoolCoordinatorOptions options = worker_options(*address);
  options.trusts_empty = std::string_view(words[2]) == "trust";
  Loop loop;
  SystemClock clock;
  Silent listener;
  auto coordinator = make_pool_coordinator(loop, clock, options);
  if (!coordinator) return 2;
  (*coordinator)->start(worker_registration(), listener, clock.now(), [](Instant, const Status&) {
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kWorkerThreads; ++i) {
    threads.emplace_back([&, i] {
      work(**coordinator, clock, file,
           std::strtoull(words[4], nullptr, 10) * 100 + static_cast<std::uint64_t>(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace weir::store::redis

int main(int count, char** words) { return weir::store::redis::run(count, words); }
