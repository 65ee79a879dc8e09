#include "apps/weir/holds.h"

#include <fmt/format.h>

#include "weir/wire/http/text.h"

namespace weir::app {
namespace {

int run(std::string_view command, const HoldOptions& options, const std::vector<std::string>& words,
        std::string_view wanted) {
  Result<ServerConnection> client = ServerConnection::connect(options.server);
  if (!client) return fail(command, client.error());
  const Result<ServerReply> reply = client->ask(words);
  if (!reply) return fail(command, reply.error());
  if (reply->is_error()) return fail(command, *reply);
  if (options.json) {
    std::string out = R"({"hold":)";
    wire::http::append_quoted(out, options.hold);
    out += R"(,"state":)";
    wire::http::append_quoted(out, reply->text);
    fmt::print("{}}}\n", out);
  } else {
    fmt::print("{}\n", reply->text);
  }
  return reply->text == wanted ? kExitOk : kExitFailed;
}

}  // namespace

int run_settle(const HoldOptions& options) {
  std::vector<std::string> words{"WEIR.SETTLE", options.hold};
  words.insert(words.end(), options.costs.begin(), options.costs.end());
  return run("settle", options, words, "settled");
}

int run_cancel(const HoldOptions& options) {
  return run("cancel", options, {"WEIR.CANCEL", options.hold}, "cancelled");
}

int run_renew(const HoldOptions& options) {
  return run("renew", options, {"WEIR.RENEW", options.hold, options.duration}, "active");
}

}  // namespace weir::app
