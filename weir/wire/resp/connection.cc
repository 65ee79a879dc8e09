// Commands about the connection and the server, as Redis has them.

#include <fmt/format.h>

#include <algorithm>

#include "weir/wire/resp/command.h"

namespace weir::wire::resp::internal {
namespace {

constexpr std::string_view kVersion = "7.0.0";  // of the protocol's commands; clients look at it
constexpr std::size_t kClientNameBytesMax = 128;

// Takes on the token's role. False, after writing an error: there is no such token.
bool authenticate(Run& run, std::string_view token) {
  if (run.session.service().host->role_of(token) == Role::kNobody) {
    run.reply.write_error(
        "WRONGPASS invalid username-password pair or user is disabled; write a token of the "
        "configuration's 'auth'");
    run.session.set_unknown_token();
    return false;
  }
  run.session.set_token(token);
  return true;
}

bool rename(Run& run, std::string_view name) {
  if (name.size() > kClientNameBytesMax || name.find_first_of(" \r\n") != std::string_view::npos) {
    run.reply.write_error(
        "ERR Client names cannot contain spaces, newlines or special characters.");
    return false;
  }
  run.session.set_name(name);
  return true;
}

void write_greeting(Run& run) {
  run.reply.begin_map(7);
  run.reply.write_bulk("server");
  run.reply.write_bulk("weir");
  run.reply.write_bulk("version");
  run.reply.write_bulk(kVersion);
  run.reply.write_bulk("proto");
  run.reply.write_integer(run.session.version());
  run.reply.write_bulk("id");
  run.reply.write_integer(static_cast<std::int64_t>(run.session.id()));
  run.reply.write_bulk("mode");
  run.reply.write_bulk("standalone");
  run.reply.write_bulk("role");
  run.reply.write_bulk("master");
  run.reply.write_bulk("modules");
  run.reply.begin_array(0);
}

// As COMMAND gives a row: name, arity, flags, first key, last key, step.
void write_row(const Command& command, ReplyWriter& reply) {
  std::string name(command.name);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const bool keyed = command.name == "CL.THROTTLE";
  reply.begin_array(6);
  reply.write_bulk(name);
  reply.write_integer(command.words_min == command.words_max ? command.words_min
                                                             : -command.words_min);
  reply.begin_array(1);
  reply.write_simple(command.role >= Role::kDecide ? "write" : "fast");
  reply.write_integer(keyed ? 1 : 0);
  reply.write_integer(keyed ? 1 : 0);
  reply.write_integer(keyed ? 1 : 0);
}

void write_docs(const Command& command, ReplyWriter& reply) {
  reply.write_bulk(command.name);
  reply.begin_map(2);
  reply.write_bulk("summary");
  reply.write_bulk(command.summary);
  reply.write_bulk("syntax");
  reply.write_bulk(fmt::format("{} {}", command.name, command.usage));
}

// The commands named, or all of them.
std::vector<const Command*> chosen(const Service& service, Words names) {
  if (names.empty()) return commands_of(service);
  std::vector<const Command*> rows;
  for (const std::string_view name : names) rows.push_back(find_command(service, name));
  return rows;
}

// The sections named of a text in which each begins with `# Name`, with an empty line between two
// of them. All of them if none is named, or one as Redis names all.
std::string sections_of(const std::string& text, Words names) {
  const auto is_named = [&](std::string_view section) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return is_word(name, section); });
  };
  if (names.empty() || is_named("all") || is_named("default") || is_named("everything")) {
    return text;
  }
  constexpr std::string_view kBegin = "# ";
  constexpr std::string_view kBetween = "\r\n\r\n";
  std::string chosen;
  for (std::string_view left = text; left.starts_with(kBegin);) {
    const std::size_t end = std::min(left.find(kBetween), left.size());
    const std::string_view section = left.substr(0, end);
    left.remove_prefix(std::min(end + kBetween.size(), left.size()));
    const std::string_view title = section.substr(kBegin.size());
    if (!is_named(title.substr(0, title.find("\r\n")))) continue;
    if (!chosen.empty()) chosen += chosen.ends_with("\r\n") ? "\r\n" : kBetween;
    chosen += section;
  }
  if (!chosen.empty() && !chosen.ends_with("\r\n")) chosen += "\r\n";
  return chosen;
}

}  // namespace

std::size_t run_ping(Run& run) {
  const Words arguments = run.arguments(0);
  if (arguments.empty()) {
    run.reply.write_simple("PONG");
  } else {
    run.reply.write_bulk(arguments[0]);
  }
  return 1;
}

std::size_t run_echo(Run& run) {
  run.reply.write_bulk(run.arguments(0)[0]);
  return 1;
}

std::size_t run_hello(Run& run) {
  Words arguments = run.arguments(0);
  std::int8_t version = run.session.version();
  if (!arguments.empty()) {
    if (arguments[0] != "2" && arguments[0] != "3") {
      run.reply.write_error("NOPROTO unsupported protocol version");
      return 1;
    }
    version = arguments[0] == "2" ? 2 : 3;
    arguments = arguments.subspan(1);
  }
  while (!arguments.empty()) {
    if (is_word(arguments[0], "AUTH") && arguments.size() >= 3) {
      if (!authenticate(run, arguments[2])) return 1;
      arguments = arguments.subspan(3);
    } else if (is_word(arguments[0], "SETNAME") && arguments.size() >= 2) {
      if (!rename(run, arguments[1])) return 1;
      arguments = arguments.subspan(2);
    } else {
      run.reply.write_error(fmt::format("ERR Syntax error in HELLO option '{}'", arguments[0]));
      return 1;
    }
  }
  if (run.session.role() == Role::kNobody) {
    run.reply.write_error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
    return 1;
  }
  run.session.set_version(version);
  run.reply.set_version(version);
  write_greeting(run);
  return 1;
}

std::size_t run_auth(Run& run) {
  if (authenticate(run, run.arguments(0).back())) run.reply.write_simple("OK");
  return 1;
}

std::size_t run_client(Run& run) {
  const Words arguments = run.arguments(0);
  if (is_word(arguments[0], "ID")) {
    run.reply.write_integer(static_cast<std::int64_t>(run.session.id()));
  } else if (is_word(arguments[0], "GETNAME")) {
    run.reply.write_bulk(run.session.name());
  } else if (is_word(arguments[0], "SETNAME") && arguments.size() == 2) {
    if (rename(run, arguments[1])) run.reply.write_simple("OK");
  } else if (is_word(arguments[0], "SETINFO") && arguments.size() == 3) {
    run.reply.write_simple("OK");
  } else {
    run.reply.write_error(fmt::format(
        "ERR unknown subcommand '{}'; write CLIENT ID, GETNAME, SETNAME name or SETINFO name value",
        arguments[0].substr(0, kClientNameBytesMax)));
  }
  return 1;
}

std::size_t run_select(Run& run) {
  if (run.arguments(0)[0] == "0") {
    run.reply.write_simple("OK");
  } else {
    run.reply.write_error("ERR DB index is out of range; there is one, write 0");
  }
  return 1;
}

std::size_t run_quit(Run& run) {
  run.reply.write_simple("OK");
  run.session.close();
  return 1;
}

std::size_t run_reset_connection(Run& run) {
  run.session.start_over();
  run.reply.set_version(2);
  run.reply.write_simple("RESET");
  return 1;
}

std::size_t run_command(Run& run) {
  const Service& service = run.session.service();
  const Words arguments = run.arguments(0);
  if (arguments.empty() || is_word(arguments[0], "INFO")) {
    const auto rows = chosen(service, arguments.empty() ? arguments : arguments.subspan(1));
    run.reply.begin_array(rows.size());
    for (const Command* row : rows) {
      row == nullptr ? run.reply.write_null_array() : write_row(*row, run.reply);
    }
  } else if (is_word(arguments[0], "COUNT")) {
    run.reply.write_integer(static_cast<std::int64_t>(commands_of(service).size()));
  } else if (is_word(arguments[0], "DOCS")) {
    auto rows = chosen(service, arguments.subspan(1));
    std::erase(rows, nullptr);
    run.reply.begin_map(rows.size());
    for (const Command* row : rows) write_docs(*row, run.reply);
  } else if (is_word(arguments[0], "LIST")) {
    const std::vector<const Command*> rows = commands_of(service);
    run.reply.begin_array(rows.size());
    for (const Command* row : rows) run.reply.write_bulk(row->name);
  } else {
    run.reply.write_error("ERR unknown subcommand; write COMMAND [COUNT|DOCS|INFO|LIST ...]");
  }
  return 1;
}

std::size_t run_config(Run& run) {
  const Words arguments = run.arguments(0);
  if (is_word(arguments[0], "GET") && arguments.size() == 2) {
    // redis-benchmark asks for these two before it starts.
    const bool known = is_word(arguments[1], "save") || is_word(arguments[1], "appendonly");
    run.reply.begin_map(known ? 1 : 0);
    if (known) run.reply.write_bulk(arguments[1]);
    if (known) run.reply.write_bulk(is_word(arguments[1], "save") ? "" : "no");
  } else {
    run.reply.write_error("ERR only CONFIG GET is known; change weir.yaml and reload instead");
  }
  return 1;
}

std::size_t run_info(Run& run) {
  run.reply.write_verbatim(sections_of(run.session.service().host->info(), run.arguments(0)));
  return 1;
}

}  // namespace weir::wire::resp::internal
