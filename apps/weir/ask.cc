#include "apps/weir/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "weir/base/clock.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/wire/http/text.h"

namespace weir::app {
namespace {

using wire::http::append_int;
using wire::http::append_quoted;

// The command, and how much longer than usual its reply may take.
struct Question {
  std::vector<std::string> words;
  Duration wait{};
};

Status add_duration(Question& question, std::string_view word, std::string_view option,
                    const std::string& text) {
  if (text.empty()) return Done{};
  const Result<Duration> read = engine::parse_duration(option, text);
  if (!read) return read.error();
  if (word == "WAIT") question.wait = *read;
  question.words.insert(question.words.end(), {std::string(word), text});
  return Done{};
}

Result<Question> question_of(const AskOptions& options) {
  Question question{{options.peek ? "WEIR.PEEK" : "WEIR.ACQUIRE"}, {}};
  for (const std::string& attribute : options.attributes) {
    if (attribute.find('=') == std::string::npos) {
      return bad_argument(fmt::format(
          "{} has no '=', but an attribute is NAME=VALUE; write one such as client=acme",
          in_quotes(attribute)));
    }
    question.words.push_back(attribute);
  }
  for (const std::string& cost : options.costs) {
    question.words.insert(question.words.end(), {"COST", cost});
  }
  if (!options.up_to.empty()) {
    question.words.insert(question.words.end(), {"UPTO", options.up_to});
  }
  for (const auto& [word, option, text] :
       {std::tuple{"HOLD", "--hold", &options.hold}, std::tuple{"WAIT", "--wait", &options.wait},
        std::tuple{"BOOK", "--book", &options.book}}) {
    if (Status status = add_duration(question, word, option, *text); !status) {
      return std::move(status).error();
    }
  }
  return question;
}

// The instant so many milliseconds from now, in UTC.
std::string clock_text(std::int64_t ms_from_now) {
  // Read once, so that measuring the cycle counter would take longer than it saves.
  const Instant at =
      SystemClock(CounterSource::kSystem).now() + std::chrono::milliseconds{ms_from_now};
  const std::time_t seconds = at.ns / kNsPerSecond;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     at.ns / kNsPerMs % 1000);
}

std::string when_text(std::int64_t retry_after_ms) {
  if (retry_after_ms < 0) return "try again when something ends";
  const std::string span = engine::duration_text(std::chrono::milliseconds{retry_after_ms});
  return fmt::format("try again in {}, at {}", span, clock_text(retry_after_ms));
}

void print_for_people(const AskOptions& options, const ServerReply& decision) {
  const std::string verdict = decision.text_of("verdict");
  const std::string limit = decision.text_of("limit");
  const std::int64_t retry_after_ms = decision.integer_of("retry_after_ms");
  fmt::print("{}", verdict);
  if (verdict == "allowed") {
    if (!options.up_to.empty()) {
      fmt::print(": {} {}", decision.integer_of("granted"), options.up_to);
    }
    if (retry_after_ms > 0) fmt::print("; starts at {}", clock_text(retry_after_ms));
  } else {
    if (!limit.empty()) {
      fmt::print(" by {}, {} short", limit, decision.integer_of("shortfall"));
    }
    if (limit.empty() && verdict == "denied") {
      fmt::print("; it meets no limit, so write the attributes that one reads");
    } else if (verdict == "never") {
      fmt::print("; waiting will not help");
    } else {
      fmt::print("; {}", when_text(retry_after_ms));
    }
  }
  fmt::print("\n");
  if (const std::string hold = decision.text_of("hold"); !hold.empty()) {
    fmt::print("  hold {}\n", hold);
  }
  const ServerReply* remaining = decision.find("remaining");
  if (remaining == nullptr) return;
  std::size_t width = 0;
  for (std::size_t i = 0; i + 1 < remaining->list.size(); i += 2) {
    width = std::max(width, remaining->list[i].text.size());
  }
  for (std::size_t i = 0; i + 1 < remaining->list.size(); i += 2) {
    fmt::print("  {:<{}}  {} left\n", remaining->list[i].text, width,
               remaining->list[i + 1].integer);
  }
}

void append_text_or_null(std::string& out, const std::string& text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_quoted(out, text);
  }
}

std::string json_of(const AskOptions& options, const ServerReply& decision) {
  std::string out = R"({"verdict":)";
  append_quoted(out, decision.text_of("verdict"));
  out += R"(,"limit":)";
  append_text_or_null(out, decision.text_of("limit"));
  out += R"(,"shortfall":)";
  append_int(out, decision.integer_of("shortfall"));
  out += R"(,"retry_after_ms":)";
  append_int(out, decision.integer_of("retry_after_ms"));
  if (!options.up_to.empty()) {
    out += R"(,"granted":)";
    append_int(out, decision.integer_of("granted"));
  }
  out += R"(,"hold":)";
  append_text_or_null(out, decision.text_of("hold"));
  out += R"(,"remaining":{)";
  if (const ServerReply* remaining = decision.find("remaining")) {
    for (std::size_t i = 0; i + 1 < remaining->list.size(); i += 2) {
      if (i > 0) out += ',';
      append_quoted(out, remaining->list[i].text);
      out += ':';
      append_int(out, remaining->list[i + 1].integer);
    }
  }
  out += "}}";
  return out;
}

}  // namespace

int run_ask(const AskOptions& options) {
  const Result<Question> question = question_of(options);
  if (!question) return fail("ask", question.error());
  Result<ServerConnection> client = ServerConnection::connect(options.server);
  if (!client) return fail("ask", client.error());
  const Result<ServerReply> reply = client->ask(question->words, question->wait);
  if (!reply) return fail("ask", reply.error());
  if (reply->is_error()) return fail("ask", *reply);
  if (options.json) {
    fmt::print("{}\n", json_of(options, *reply));
  } else {
    print_for_people(options, *reply);
  }
  const std::string verdict = reply->text_of("verdict");
  if (verdict == "allowed") return kExitOk;
  return verdict == "never" ? kExitNever : kExitDenied;
}

}  // namespace weir::app
