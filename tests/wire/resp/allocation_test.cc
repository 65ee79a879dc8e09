// No allocation per command or reply. This file replaces the global operator
// new, so it is a binary of its own.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "tests/wire/resp/support.h"
#include "weir/wire/resp/parser.h"
#include "weir/wire/resp/reply_writer.h"
#include "weir/wire/resp/throttle.h"

namespace {

std::int64_t allocations = 0;

// Out of line: seen from inside, free() does not look like the end of new.
[[gnu::noinline]] void* allocate(std::size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  allocations += 1;
  return memory;
}
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }

namespace weir::wire::resp {
namespace {

constexpr std::string_view kPipeline =
    "*6\r\n$11\r\nCL.THROTTLE\r\n$38\r\na key that no small string would hold \r\n$2\r\n15\r\n"
    "$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n"
    "CL.THROTTLE \"a quoted key that no small string would hold\" 15 30 60\r\n"
    "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n";

class Connection {
 public:
  void feed(std::string_view bytes) {
    for (;;) {
      const Parsed parsed = parser_.next(bytes);
      bytes.remove_prefix(parsed.consumed);
      if (parsed.kind != ParsedKind::kCommand) break;
      answer(parsed.words.subspan(1));
    }
  }
  void flush() { out_.clear(); }
  int answered() const { return answered_; }

 private:
  void answer(std::span<const std::string_view> words) {
    const Instant now{1'700'000'000'000'000'000 + answered_};
    const Result<ThrottleCall> call = read_throttle(words);
    ASSERT_TRUE(call.ok());
    const meter::BucketStep step = charge(*call, state_, now);
    state_ = step.state;
    reply_.write_integers(reply_of(*call, step, now).integers());
    ++answered_;
  }

  Parser parser_;
  std::string out_;
  ReplyWriter reply_{out_};
  meter::BucketState state_;
  int answered_ = 0;
};

TEST(Allocation, IsNotNeededToAnswerAPipeline) {
  Connection connection;
  connection.feed(kPipeline);
  connection.flush();
  const std::int64_t before = allocations;
  for (int i = 0; i < 1'000; ++i) {
    connection.feed(kPipeline);
    connection.flush();
  }

  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(connection.answered(), 3 * 1'001);
}

TEST(Allocation, IsNotNeededForCommandsCutShort) {
  Connection connection;
  const auto feed_in_two = [&](std::size_t cut) {
    const std::size_t second = kPipeline.find("*5");
    connection.feed(kPipeline.substr(second, cut));
    connection.feed(kPipeline.substr(second));
    connection.flush();
  };
  constexpr std::size_t kWithinTheFourthWord = 40;
  feed_in_two(kWithinTheFourthWord);
  const std::int64_t before = allocations;
  for (std::size_t cut = 1; cut <= kWithinTheFourthWord; ++cut) feed_in_two(cut);

  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace weir::wire::resp
