#include "weir/wire/resp/session.h"

#include <fmt/format.h>

#include "weir/base/in_quotes.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp {
namespace {

constexpr std::size_t kBatchMax = 128;  // commands run together

std::string unknown_command(std::string_view name) {
  return fmt::format("ERR unknown command {}, with args beginning with: ", in_quotes(name));
}

// Whether all words are views of the bytes, and so outlive the parser's next step.
bool are_views_of(std::string_view bytes, Words words) {
  for (const std::string_view word : words) {
    if (word.data() < bytes.data() || word.data() > bytes.data() + bytes.size()) return false;
  }
  return true;
}

}  // namespace

Session::Session(const Service& service, std::uint64_t id, std::function<Deliver()> make_deliver)
    : service_(&service),
      parser_(service.bounds),
      make_deliver_(std::move(make_deliver)),
      id_(id) {}

std::size_t Session::run(std::string_view bytes, Instant now, Scratch& scratch, std::string& out) {
  std::size_t done = 0;
  for (;;) {
    if (is_waiting() || closing_ || is_full(out)) return done;
    scratch.words.clear();
    scratch.items.clear();
    Parsed parsed;
    do {
      parsed = parser_.next(bytes.substr(done));
      done += parsed.consumed;
      if (parsed.kind != ParsedKind::kCommand) break;
      // Most often the command of the one before.
      const bool is_repeated = !scratch.items.empty() &&
                               scratch.words[scratch.items.back().first_word] == parsed.words[0];
      const Command* const command =
          is_repeated ? scratch.items.back().command : find_command(parsed.words[0]);
      scratch.items.push_back({command, scratch.words.size(), parsed.words.size(), done});
      scratch.words.insert(scratch.words.end(), parsed.words.begin(), parsed.words.end());
    } while (scratch.items.size() < kBatchMax && are_views_of(bytes, parsed.words));

    const std::size_t ran = run_items(now, scratch, out);
    if (missing_ > 0) [[unlikely]]
      hold_back(out);
    scratch.commands += ran;
    if (ran < scratch.items.size()) {
      // The rest comes again later, from the command after the one that stopped us.
      parser_.reset();
      return scratch.items[ran - 1].end;
    }
    if (parsed.kind == ParsedKind::kNeedMore) return done;
    if (parsed.kind == ParsedKind::kError && !is_waiting() && !closing_) {
      ReplyWriter(out).write_error(fmt::format("ERR {}", parsed.error));
      closing_ = true;
    }
  }
}

std::size_t Session::run_items(Instant now, Scratch& scratch, std::string& out) {
  const std::span<const Scratch::Item> items = scratch.items;
  ReplyWriter reply(out);
  reply.set_version(version_);
  std::size_t at = 0;
  while (at < items.size() && !(at > 0 && is_full(out))) {
    // A reload may be one of the commands.
    if (service_->host->token_epoch() != token_epoch_) look_up_role();
    const Scratch::Item& item = items[at];
    const Command* command = item.command;
    const auto count = static_cast<int>(item.word_count);
    if (command == nullptr) {
      reply.write_error(unknown_command(scratch.words[item.first_word]));
      at += 1;
      continue;
    }
    if (count < command->words_min || (command->words_max >= 0 && count > command->words_max)) {
      reply.write_error(fmt::format("ERR wrong number of arguments for '{}' command; write {} {}",
                                    command->name, command->name, command->usage));
      at += 1;
      continue;
    }
    if (role_ < command->role) {
      reply.write_error(role_ == Role::kNobody
                            ? "NOAUTH Authentication required."
                            : fmt::format("NOPERM this token's role is '{}', but {} needs '{}'",
                                          to_string(role_), command->name,
                                          to_string(command->role)));
      at += 1;
      continue;
    }
    std::size_t end = at + 1;
    while (
        command->takes_groups && end < items.size() && items[end].command == command &&
        static_cast<int>(items[end].word_count) >= command->words_min &&
        (command->words_max < 0 || static_cast<int>(items[end].word_count) <= command->words_max)) {
      end += 1;
    }
    Run run{*this, reply, now, scratch, items.subspan(at, end - at)};
    at += command->run(run);
    if (is_waiting() || closing_) break;
  }
  record_ = std::max(record_, reply.record());
  return at;
}

void Session::owe(const ReplyWriter& reply, GiveUp give_up) {
  owed_.push_back({.offset = reply.bytes(), .give_up = std::move(give_up)});
  missing_ += 1;
}

// What was written after the first reply that is missing goes out after it.
void Session::hold_back(std::string& out) {
  const std::size_t first = owed_.front().offset;
  held_ = out.substr(first);
  out.resize(first);
  for (Owed& owed : owed_) owed.offset -= first;
}

bool Session::deliver(std::size_t place, const LateReply& late, Instant now, std::string& out) {
  const bool is_alone = owed_.size() == 1;  // then it goes out at once
  ReplyWriter reply(is_alone ? out : owed_[place].reply);
  reply.set_version(version_);
  late.write(now, reply);
  record_ = std::max(record_, reply.record());
  owed_[place].is_missing = false;
  missing_ -= 1;
  return flush_owed(out);
}

bool Session::flush_owed(std::string& out) {
  if (missing_ > 0) return false;
  std::size_t done = 0;
  for (const Owed& owed : owed_) {
    out.append(held_, done, owed.offset - done);
    out += owed.reply;
    done = owed.offset;
  }
  out.append(held_, done);
  owed_.clear();  // keeps the memory of one
  if (owed_.capacity() > 1) owed_.shrink_to_fit();
  std::string().swap(held_);
  return true;
}

bool Session::give_up(const Error& error, Instant now, std::string& out) {
  if (missing_ == 0) return false;
  for (Owed& owed : owed_) {
    if (!owed.is_missing || !owed.give_up || !owed.give_up(now)) continue;
    ReplyWriter reply(owed.reply);
    reply.set_version(version_);
    internal::write_error(error, reply);
    owed.is_missing = false;
    missing_ -= 1;
  }
  return flush_owed(out);
}

void Session::leave(Instant now) {
  for (Owed& owed : owed_) {
    if (owed.is_missing && owed.give_up) owed.give_up(now);
  }
}

void Session::look_up_role() {
  // In this order: tokens that change in between are looked up again.
  token_epoch_ = service_->host->token_epoch();
  role_ = service_->host->role_of(token_);
}

void Session::set_token(std::string_view token) {
  token_ = token;
  look_up_role();
}

void Session::start_over() {
  set_token({});
  version_ = 2;
  name_.clear();
}

}  // namespace weir::wire::resp
