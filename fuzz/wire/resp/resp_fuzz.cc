// Any bytes, cut anywhere: the same commands and the same error; what was read
// can be sent again; CL.THROTTLE answers any parameters and keeps its promise.
//
// The first byte of the input says where to cut, the rest is what a client sends.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/wire/resp/charge.h"
#include "weir/wire/resp/parser.h"
#include "weir/wire/resp/reply_writer.h"
#include "weir/wire/resp/throttle.h"
#include "weir/wire/resp/transaction.h"
#include "weir/wire/resp/unknown.h"

namespace {

using namespace weir;
using namespace weir::wire::resp;

// Small, so that a short input reaches them.
constexpr ParserBounds kBounds{
    .words_max = 8, .bulk_bytes_max = 64, .request_bytes_max = 200, .inline_bytes_max = 64};

using Commands = std::vector<std::vector<std::string>>;

struct Heard {
  Commands commands;
  std::string error;
};

void require(bool condition) {
  if (!condition) std::abort();
}

// Feeds pieces of `step` bytes, each time from a new block of exactly the size
// of what is unread.
Heard hear(std::string_view sent, std::size_t step) {
  Heard heard;
  Parser parser(kBounds);
  std::string unread;
  while (!sent.empty()) {
    unread += sent.substr(0, step);
    sent.remove_prefix(std::min(step, sent.size()));
    const std::unique_ptr<char[]> block(new char[unread.size()]);
    unread.copy(block.get(), unread.size());
    std::string_view bytes(block.get(), unread.size());
    for (;;) {
      const Parsed parsed = parser.next(bytes);
      require(parsed.consumed <= bytes.size());
      bytes.remove_prefix(parsed.consumed);
      if (parsed.kind == ParsedKind::kError) heard.error = parsed.error;
      if (parsed.kind != ParsedKind::kCommand) break;
      require(parsed.consumed > 0 && !parsed.words.empty());
      require(parsed.words.size() <= kBounds.words_max);
      heard.commands.emplace_back(parsed.words.begin(), parsed.words.end());
    }
    if (!heard.error.empty()) break;
    unread = bytes;
  }
  return heard;
}

std::string encoded(const Commands& commands) {
  std::string bytes;
  ReplyWriter reply(bytes);
  for (const auto& command : commands) {
    reply.begin_array(command.size());
    for (const std::string& word : command) reply.write_bulk(word);
  }
  return bytes;
}

// All on one key, a third of a second apart.
void throttle(const Commands& commands) {
  meter::BucketState state;
  Instant now{1'700'000'000'000'000'000};
  for (const auto& command : commands) {
    now = now + Duration{333'333'333};
    const std::vector<std::string_view> words(command.begin() + 1, command.end());
    const Result<ThrottleCall> call = read_throttle(words);
    if (!call) continue;
    const meter::BucketStep step = charge(*call, state, now);
    for (const Seconds seconds : {Seconds::kCell, Seconds::kDragonfly}) {
      const ThrottleReply reply = reply_of(*call, step, now, seconds);
      require(reply.remaining >= 0 && reply.remaining <= reply.limit);
      if (reply.retry_after_s < 0) continue;
      const Instant then = now + Duration{reply.retry_after_s * 1'000'000'000};
      if (then.ns <= kInstantNsMax) require(charge(*call, state, then).allowed());
    }
    state = step.state;
  }
}

// In a transaction: what is kept is what came, within its bounds.
void keep(const Commands& commands) {
  constexpr std::size_t kBytesMax = 150;
  Transaction transaction(kBytesMax);
  Commands kept;
  for (const auto& command : commands) {
    const std::vector<std::string_view> words(command.begin(), command.end());
    is_line_of_http(words, true);
    require(unknown_command(words).size() < 1000);
    if (!transaction.add(words)) break;
    kept.push_back(command);
  }
  require(transaction.commands().size() <= kBytesMax);
  if (transaction.is_aborted()) return require(transaction.size() == 0);
  require(transaction.size() == kept.size());
  Parser parser;
  std::string_view left = transaction.commands();
  for (const auto& command : kept) {
    const Parsed parsed = parser.next(left);
    require(parsed.kind == ParsedKind::kCommand);
    left.remove_prefix(parsed.consumed);
    require(std::vector<std::string>(parsed.words.begin(), parsed.words.end()) == command);
  }
  require(left.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view sent(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Heard whole = hear(sent, sent.size());
  const Heard pieces = hear(sent, std::size_t{1} + data[0] % 32);
  require(whole.commands == pieces.commands && whole.error == pieces.error);

  // An inline command may be too large for an array only by its framing.
  if (whole.error.empty()) {
    for (const auto& command : whole.commands) {
      const std::string bytes = encoded({command});
      if (bytes.size() > kBounds.request_bytes_max) continue;
      require(hear(bytes, bytes.size()).commands == Commands{command});
    }
  }
  throttle(whole.commands);
  keep(whole.commands);
  return 0;
}
