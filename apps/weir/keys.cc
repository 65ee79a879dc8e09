#include "apps/weir/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/wire/http/text.h"

namespace weir::app {
namespace {

using wire::http::append_int;
using wire::http::append_quoted;

std::vector<std::string> words_of(std::string command, const KeyOptions& options) {
  std::vector<std::string> words{std::move(command), options.limit};
  words.insert(words.end(), options.key.begin(), options.key.end());
  return words;
}

std::string json_start(const KeyOptions& options) {
  std::string out = R"({"limit":)";
  append_quoted(out, options.limit);
  return out;
}

std::string json_key(const KeyOptions& options) {
  std::string out = R"(,"key":{)";
  for (const std::string& part : options.key) {
    const std::size_t equals = part.find('=');  // there: the server has read it
    if (!out.ends_with('{')) out += ',';
    append_quoted(out, std::string_view(part).substr(0, equals));
    out += ':';
    append_quoted(out, std::string_view(part).substr(equals + 1));
  }
  return out + '}';
}

void print_key(const KeyOptions& options, const ServerReply& found) {
  const bool overridden = found.integer_of("overridden") != 0;
  const bool is_leased = found.find("leased") != nullptr;
  if (options.json) {
    fmt::print(R"({}{},"remaining":{},"capacity":{},"overridden":{},"waiters":{}{}}})"
               "\n",
               json_start(options), json_key(options), found.integer_of("remaining"),
               found.integer_of("capacity"), overridden, found.integer_of("waiters"),
               is_leased ? fmt::format(R"(,"leased":{})", found.integer_of("leased")) : "");
    return;
  }
  fmt::print(
      "{} of {} left, {} waiting{}{}\n", found.integer_of("remaining"),
      found.integer_of("capacity"), found.integer_of("waiters"),
      overridden ? "; has parameters of its own" : "",
      is_leased ? fmt::format("; this server holds {} more", found.integer_of("leased")) : "");
}

void print_heaviest(const KeyOptions& options, const ServerReply& found) {
  const std::vector<ServerReply>& pairs = found.list;
  if (options.json) {
    std::string out = json_start(options) + R"(,"heaviest":[)";
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      out += i > 0 ? R"(,{"key":)" : R"({"key":)";
      append_quoted(out, pairs[i].text);
      out += R"(,"units":)";
      append_int(out, pairs[i + 1].integer);
      out += '}';
    }
    fmt::print("{}]}}\n", out);
    return;
  }
  if (pairs.empty()) {
    fmt::print(
        "no key has asked for anything since the server began; name one to see what it has left\n");
    return;
  }
  std::size_t width = 0;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    width = std::max(width, pairs[i].text.size());
  }
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    fmt::print("{:<{}}  about {} asked for\n", pairs[i].text, width, pairs[i + 1].integer);
  }
}

}  // namespace

int run_inspect(const KeyOptions& options) {
  Result<ServerConnection> client = ServerConnection::connect(options.server);
  if (!client) return fail("inspect", client.error());
  Result<ServerReply> reply = client->ask(words_of("WEIR.INSPECT", options));
  if (!reply) return fail("inspect", reply.error());
  // A limit without keys has one meter. Others are asked for the keys they know.
  const bool needs_key = options.key.empty() && reply->text.starts_with("BADARG ");
  if (needs_key) reply = client->ask({"WEIR.HEAVIEST", options.limit});
  if (!reply) return fail("inspect", reply.error());
  if (reply->is_error()) return fail("inspect", *reply);
  if (needs_key) {
    print_heaviest(options, *reply);
  } else {
    print_key(options, *reply);
  }
  return kExitOk;
}

int run_reset(const KeyOptions& options) {
  Result<ServerConnection> client = ServerConnection::connect(options.server);
  if (!client) return fail("reset", client.error());
  std::vector<std::string> words = words_of("WEIR.RESET", options);
  if (options.holds) words.emplace_back("HOLDS");
  const Result<ServerReply> reply = client->ask(words);
  if (!reply) return fail("reset", reply.error());
  if (reply->is_error()) return fail("reset", *reply);
  if (options.json) {
    fmt::print("{}{},\"reset\":true{}}}\n", json_start(options), json_key(options),
               options.holds ? fmt::format(",\"holds\":{}", reply->integer) : "");
  } else if (options.holds) {
    fmt::print("forgotten; {} holds ended\n", reply->integer);
  } else {
    fmt::print("forgotten\n");
  }
  return kExitOk;
}

}  // namespace weir::app
