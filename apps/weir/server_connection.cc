#include "apps/weir/server_connection.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "weir/base/in_quotes.h"
#include "weir/config/config.h"

namespace weir::app {
namespace {

using namespace std::chrono_literals;

constexpr Duration kConnectPatience = 5s;
constexpr Duration kReplyPatience = 10s;
constexpr int kNestingMax = 8;  // lists inside each other; deeper ones are cut

timeval time_of(Duration span) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(span).count();
  return {us / 1'000'000, us % 1'000'000};
}

Error unreachable(std::string message) {
  return Error{ErrorCode::kUnavailable, std::move(message)};
}

std::string reason_of(const std::string& address, int number, const char* otherwise) {
  constexpr std::string_view kAdvice =
      "start one with `weir serve FILE`, or name another with --server";
  if (number == ECONNREFUSED || number == ENOENT) {
    return fmt::format("nothing listens at {}; {}", address, kAdvice);
  }
  return fmt::format("cannot reach a server at {}: {}; {}", address, otherwise, kAdvice);
}

ServerReply reply_of(const redisReply& from, int depth = 0) {
  ServerReply reply;
  switch (from.type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
      reply.kind =
          from.type == REDIS_REPLY_ERROR ? ServerReply::Kind::kError : ServerReply::Kind::kText;
      reply.text.assign(from.str, static_cast<std::size_t>(from.len));
      break;
    case REDIS_REPLY_INTEGER:
      reply.kind = ServerReply::Kind::kInteger;
      reply.integer = from.integer;
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = ServerReply::Kind::kList;
      for (std::size_t i = 0; i < from.elements && depth < kNestingMax; ++i) {
        reply.list.push_back(reply_of(*from.element[i], depth + 1));
      }
      break;
    default:
      break;
  }
  return reply;
}

// Whether the server's error is about us rather than about the command.
bool is_refusal(std::string_view error) {
  for (const std::string_view code : {"NOAUTH", "WRONGPASS", "NOPERM", "UNAVAILABLE"}) {
    if (error.starts_with(code)) return true;
  }
  return error.starts_with("ERR max number of clients");
}

}  // namespace

const ServerReply* ServerReply::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
    if (list[i].kind == Kind::kText && list[i].text == name) return &list[i + 1];
  }
  return nullptr;
}

std::string ServerReply::text_of(std::string_view name) const {
  const ServerReply* found = find(name);
  return found != nullptr && found->kind == Kind::kText ? found->text : std::string();
}

std::int64_t ServerReply::integer_of(std::string_view name) const {
  const ServerReply* found = find(name);
  return found != nullptr && found->kind == Kind::kInteger ? found->integer : 0;
}

void ServerConnection::Close::operator()(redisContext* context) const noexcept {
  redisFree(context);
}

ServerConnection::ServerConnection(std::string address, redisContext* context)
    : address_(std::move(address)), context_(context) {}
ServerConnection::ServerConnection(ServerConnection&&) noexcept = default;
ServerConnection& ServerConnection::operator=(ServerConnection&&) noexcept = default;
ServerConnection::~ServerConnection() = default;

Result<ServerConnection> ServerConnection::connect(const ServerChoice& choice) {
  const Result<config::Address> address = config::parse_address(choice.address);
  if (!address) return bad_argument("--server " + address.error().message);
  const timeval patience = time_of(kConnectPatience);
  redisContext* context =
      address->kind == config::Address::Kind::kUnix
          ? redisConnectUnixWithTimeout(address->path.c_str(), patience)
          : redisConnectWithTimeout(address->host.c_str(), address->port, patience);
  if (context == nullptr) return unreachable("no memory for a connection; free some");
  ServerConnection client(address->text(), context);
  // hiredis tells a refused TCP connection by text only once it has tried all addresses.
  if (context->err != 0) return unreachable(reason_of(client.address_, errno, context->errstr));
  if (redisSetTimeout(context, time_of(kReplyPatience)) != REDIS_OK) return client.lost();
  if (!choice.token.empty()) {
    const Result<ServerReply> reply = client.ask({"AUTH", choice.token});
    if (!reply) return reply.error();
    if (reply->is_error()) {
      return unreachable(fmt::format("{} does not know this token: {}; check --token or WEIR_TOKEN",
                                     client.address_, reply->text));
    }
  }
  return client;
}

Error ServerConnection::lost() const {
  const bool is_late = context_->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
  return unreachable(fmt::format("{} {}: {}; look at its log, or ask again", address_,
                                 is_late ? "does not answer" : "went away",
                                 is_late ? "the time is up" : context_->errstr));
}

Status ServerConnection::send(const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  if (redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(),
                             sizes.data()) != REDIS_OK) {
    return lost();
  }
  return flush();
}

Status ServerConnection::flush() {
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) return lost();
  }
  return Done{};
}

Result<ServerReply> ServerConnection::receive() {
  void* raw = nullptr;
  if (redisGetReply(context_.get(), &raw) != REDIS_OK) return lost();
  const std::unique_ptr<void, decltype(&freeReplyObject)> owned(raw, &freeReplyObject);
  return reply_of(*static_cast<const redisReply*>(raw));
}

Result<ServerReply> ServerConnection::ask(const std::vector<std::string>& words, Duration extra) {
  if (redisSetTimeout(context_.get(), time_of(kReplyPatience + extra)) != REDIS_OK) return lost();
  if (Status status = send(words); !status) return std::move(status).error();
  return receive();
}

int ServerConnection::descriptor() const noexcept { return context_->fd; }

int fail(std::string_view command, const Error& error) {
  fmt::print(stderr, "weir {}: {}\n", command, error.message);
  switch (error.code) {
    case ErrorCode::kBadArgument:
    case ErrorCode::kUnmatched:
      return kExitUsage;
    case ErrorCode::kUnavailable:
      return kExitUnreachable;
    case ErrorCode::kNotFound:
    case ErrorCode::kExhausted:
    case ErrorCode::kForbidden:
      break;
  }
  return kExitFailed;
}

int fail(std::string_view command, const ServerReply& reply) {
  fmt::print(stderr, "weir {}: the server says: {}\n", command, reply.text);
  if (is_refusal(reply.text)) return kExitUnreachable;
  const bool is_usage = reply.text.starts_with("BADARG ") || reply.text.starts_with("UNMATCHED ");
  return is_usage ? kExitUsage : kExitFailed;
}

int wrong_usage(std::string_view command, std::string_view message) {
  fmt::print(stderr, "weir {}: {}\n", command, message);
  return kExitUsage;
}

}  // namespace weir::app
