#include "weir/wire/resp/unknown.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace weir::wire::resp {
namespace {

constexpr std::size_t kRepeatedBytesMax = 128;  // of the name, and of all arguments together

constexpr std::string_view kOfScripts[] = {"EVAL",       "EVALSHA", "SCRIPT",   "EVAL_RO",
                                           "EVALSHA_RO", "FCALL",   "FCALL_RO", "FUNCTION"};
constexpr std::string_view kInsteadOfScripts =
    "weir runs no scripts; WEIR.ACQUIRE decides over several limits at once, CL.THROTTLE is a "
    "bucket of its own";

constexpr std::string_view kOfData[] = {
    "GET",     "SET",         "SETEX",   "SETNX",         "PSETEX",
    "GETSET",  "GETDEL",      "MGET",    "MSET",          "INCR",
    "INCRBY",  "DECR",        "DECRBY",  "DEL",           "UNLINK",
    "EXISTS",  "EXPIRE",      "TTL",     "PTTL",          "PEXPIRE",
    "PERSIST", "TYPE",        "KEYS",    "SCAN",          "DBSIZE",
    "HGET",    "HSET",        "HMGET",   "HGETALL",       "HDEL",
    "LPUSH",   "RPUSH",       "LPOP",    "RPOP",          "LRANGE",
    "SADD",    "SREM",        "SCARD",   "ZADD",          "ZREM",
    "ZCARD",   "ZRANGE",      "ZCOUNT",  "ZRANGEBYSCORE", "ZREMRANGEBYSCORE",
    "HINCRBY", "INCRBYFLOAT", "FLUSHDB", "FLUSHALL"};
constexpr std::string_view kInsteadOfData =
    "weir keeps no data; WEIR.INSPECT shows what a key of a limit has left, WEIR.RESET forgets "
    "what it has used";

constexpr std::string_view kOfChannels[] = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE",
                                            "PUBLISH",   "SPUBLISH",   "MONITOR"};
constexpr std::string_view kInsteadOfChannels =
    "weir publishes nothing here; /v1/events over HTTP tells what happens";

constexpr std::string_view kMethods[] = {"GET",   "HEAD",    "PUT",     "DELETE",
                                         "PATCH", "OPTIONS", "CONNECT", "TRACE"};

bool is_one_of(std::span<const std::string_view> names, std::string_view word) noexcept {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return is_word(word, name); });
}

// What there is instead of a command that Redis has; empty: it has none of that name.
std::string_view instead_of(std::string_view name) noexcept {
  if (is_one_of(kOfScripts, name)) return kInsteadOfScripts;
  if (is_one_of(kOfData, name)) return kInsteadOfData;
  if (is_one_of(kOfChannels, name)) return kInsteadOfChannels;
  return {};
}

}  // namespace

std::string unknown_command(Words words) {
  std::string arguments;
  for (const std::string_view word : words.subspan(1)) {
    if (arguments.size() >= kRepeatedBytesMax) break;
    const std::size_t room = kRepeatedBytesMax - arguments.size();
    arguments.append("'").append(word.substr(0, room)).append("' ");
  }
  std::string text = "ERR unknown command '";
  text.append(words[0].substr(0, kRepeatedBytesMax));
  text.append("', with args beginning with: ").append(arguments);
  const std::string_view instead = instead_of(words[0]);
  if (instead.empty()) return text;
  return text.append("(").append(instead).append(
      "; COMMAND LIST names all commands, docs/reference/resp.md explains them)");
}

bool is_line_of_http(Words words, bool is_inline) noexcept {
  constexpr std::string_view kHost = "Host:";
  if (is_word(words[0], "POST") || is_word(words[0].substr(0, kHost.size()), kHost)) return true;
  if (!is_inline || words.size() < 2) return false;
  return words.back().starts_with("HTTP/") ||
         (is_one_of(kMethods, words[0]) && words[1].starts_with('/'));
}

}  // namespace weir::wire::resp
