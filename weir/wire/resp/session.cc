// What holds between two calls of a session:
//
// 1. Replies leave in the order of their commands. While one is owed, what is replied behind it
//    is in `held_`, and `owed_` says at which offsets of it the missing ones belong, ascending.
// 2. A place in `owed_` stays what it is until nothing is missing; then all of them go at once.
// 3. While a reply is owed, no command is run and no byte is taken.
// 4. The array of a transaction is in `held_` whole, from its header on, if one of its replies is
//    owed.
// 5. What a transaction keeps had the right number of arguments, a role that allowed it, and may
//    not wait. Its role is looked at again when it is run.
// 6. The bounds of the parser and of replies are those of the role, as it was looked up last.

#include "weir/wire/resp/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "weir/base/assert.h"
#include "weir/wire/resp/command.h"
#include "weir/wire/resp/unknown.h"

namespace weir::wire::resp {
namespace {

constexpr std::size_t kBatchMax = 128;  // commands run together

bool is_count_of(const Command& command, std::size_t words) noexcept {
  const auto count = static_cast<int>(words);
  return count >= command.words_min && (command.words_max < 0 || count <= command.words_max);
}

ParserBounds of_stranger(ParserBounds bounds) {
  for (std::size_t* const bytes :
       {&bounds.bulk_bytes_max, &bounds.request_bytes_max, &bounds.inline_bytes_max}) {
    *bytes = std::min(*bytes, kStrangerBytesMax);
  }
  return bounds;
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
  if (service_->host->token_epoch() != token_epoch_) look_up_role();
  for (;;) {
    if (is_waiting() || closing_ || has_unknown_token_ || is_full(out)) return done;
    scratch.words.clear();
    scratch.items.clear();
    Parsed parsed;
    const bool was_stranger = is_stranger();
    do {
      parsed = parser_.next(bytes.substr(done));
      done += parsed.consumed;
      if (parsed.kind != ParsedKind::kCommand) break;
      // Most often the command of the one before.
      const bool is_repeated = !scratch.items.empty() &&
                               scratch.words[scratch.items.back().first_word] == parsed.words[0];
      const Command* const command =
          is_repeated ? scratch.items.back().command : find_command(*service_, parsed.words[0]);
      scratch.items.push_back(
          {command, scratch.words.size(), parsed.words.size(), done, parsed.is_inline});
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
    // What was too large for a stranger may not be any more.
    if (was_stranger && !is_stranger()) continue;
    if (parsed.kind == ParsedKind::kError && !is_waiting() && !closing_ && !has_unknown_token_) {
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
    at += run_group(items.subspan(at), now, scratch, reply);
    if (is_waiting() || closing_ || has_unknown_token_) break;
  }
  record_ = std::max(record_, reply.record());
  return at;
}

// Runs the first of these commands and the neighbours of its kind. Returns how many are done
// with.
std::size_t Session::run_group(std::span<const Scratch::Item> items, Instant now, Scratch& scratch,
                               ReplyWriter& reply) {
  // A reload may be one of the commands.
  if (service_->host->token_epoch() != token_epoch_) look_up_role();
  const Scratch::Item& item = items[0];
  const Command* const command = item.command;
  const Words words = Words(scratch.words).subspan(item.first_word, item.word_count);
  if (std::string error = refusal_of(item, words); !error.empty()) [[unlikely]] {
    refuse(item, std::move(error), reply);
    return 1;
  }
  if (command == nullptr) [[unlikely]] {
    is_http_ = closing_ = true;
    return 1;
  }
  if (transaction_ != nullptr && command->is_queued) [[unlikely]] {
    queue(*command, words, reply);
    return 1;
  }
  std::size_t end = 1;
  while (command->takes_groups && end < items.size() && items[end].command == command &&
         is_count_of(*command, items[end].word_count)) {
    end += 1;
  }
  Run run{*this, reply, now, scratch, items.first(end)};
  return command->run(run);
}

// Why a command is not run; empty: it is, or it is HTTP.
std::string Session::refusal_of(const Scratch::Item& item, Words words) const {
  const Command* const command = item.command;
  if (command == nullptr) {
    return is_line_of_http(words, item.is_inline) ? std::string() : unknown_command(words);
  }
  if (!is_count_of(*command, item.word_count)) {
    return fmt::format("ERR wrong number of arguments for '{}' command; write {} {}", command->name,
                       command->name, command->usage);
  }
  if (role_ >= command->role) {
    if (reach_ == nullptr || command->when_bound != WhenBound::kRefuses) return {};
    return fmt::format(
        "NOPERM {} is not for a token that is bound by 'only' or to names of a system; use one "
        "that is not",
        command->name);
  }
  if (role_ == Role::kNobody) return "NOAUTH Authentication required.";
  return fmt::format("NOPERM this token's role is '{}', but {} needs '{}'", to_string(role_),
                     command->name, to_string(command->role));
}

// An error aborts a transaction, and an EXEC that is refused ends it, as in Redis.
void Session::refuse(const Scratch::Item& item, std::string error, ReplyWriter& reply) {
  if (transaction_ != nullptr) transaction_->abort();
  if (item.command != nullptr && item.command->run == internal::run_exec) {
    drop_transaction();
    constexpr std::string_view kCode = "ERR ";
    error.erase(0, error.starts_with(kCode) ? kCode.size() : 0);
    error.insert(0, "EXECABORT Transaction discarded because of: ");
  }
  reply.write_error(error);
}

void Session::begin_transaction() {
  transaction_ = std::make_unique<Transaction>(service_->bounds.request_bytes_max);
}

void Session::queue(const Command& command, Words words, ReplyWriter& reply) {
  if (command.may_wait != nullptr && command.may_wait(words.subspan(1))) {
    transaction_->abort();
    return reply.write_error(
        fmt::format("ERR {} may wait here, which is not allowed between MULTI and EXEC; send it "
                    "before or after them",
                    command.name));
  }
  if (const Status kept = transaction_->add(words); !kept) {
    return reply.write_error(kept.error().message);
  }
  reply.write_simple("QUEUED");
}

// The array goes out whole: if one of its replies is owed, it is held back from its beginning.
void Session::run_transaction(Run& run) {
  const std::unique_ptr<const Transaction> transaction = std::move(transaction_);
  Scratch& scratch = run.scratch;
  std::vector<std::string_view> words;
  std::vector<Scratch::Item> items;
  Parser parser(service_->bounds);
  std::string_view left = transaction->commands();
  while (!left.empty()) {
    const Parsed parsed = parser.next(left);
    WEIR_ASSERT(parsed.kind == ParsedKind::kCommand);
    left.remove_prefix(parsed.consumed);
    items.push_back(
        {find_command(*service_, parsed.words[0]), words.size(), parsed.words.size(), 0});
    words.insert(words.end(), parsed.words.begin(), parsed.words.end());
  }
  words.swap(scratch.words);
  items.swap(scratch.items);  // those that are being run keep their place in memory
  const std::size_t begin = run.reply.bytes();
  run.reply.begin_array(scratch.items.size());
  for (std::size_t at = 0; at < scratch.items.size();) {
    if (run.reply.bytes() - begin >= reply_bytes_max_) {
      run.reply.write_error(
          "EXHAUSTED the replies before this one are as many bytes as a client may leave unread, "
          "so it was not run; send fewer commands between MULTI and EXEC");
      at += 1;
      continue;
    }
    at += run_group(std::span(scratch.items).subspan(at), run.now, scratch, run.reply);
  }
  words.swap(scratch.words);
  items.swap(scratch.items);
  if (is_waiting()) array_at_ = begin;
}

void Session::owe(const ReplyWriter& reply, GiveUp give_up) {
  owed_.push_back({.offset = reply.bytes(), .give_up = std::move(give_up)});
  missing_ += 1;
}

// What was written after the first reply that is missing goes out after it, and so does an array
// that it is part of.
void Session::hold_back(std::string& out) {
  const std::size_t first = std::min(owed_.front().offset, std::exchange(array_at_, kNone));
  held_ = out.substr(first);
  out.resize(first);
  for (Owed& owed : owed_) owed.offset -= first;
}

bool Session::deliver(std::size_t place, const LateReply& late, Instant now, std::string& out) {
  // Nothing is held back in front of it, so it goes out at once.
  const bool is_alone = owed_.size() == 1 && owed_[0].offset == 0;
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

bool Session::look_at_tokens(Instant now, std::string& out) {
  if (missing_ == 0 || service_->host->token_epoch() == token_epoch_) return false;
  const std::shared_ptr<const engine::Reach> before = reach_;
  look_up_role();
  if (role_ >= Role::kDecide && is_same(reach_, before)) return false;
  return give_up(role_ == Role::kNobody
                     ? "NOAUTH Authentication required."
                     : "NOPERM this token may not ask for it any more; its role or bounds changed",
                 now, out);
}

bool Session::give_up(std::string_view error, Instant now, std::string& out) {
  if (missing_ == 0) return false;
  for (Owed& owed : owed_) {
    if (!owed.is_missing || !owed.give_up || !owed.give_up(now)) continue;
    ReplyWriter reply(owed.reply);
    reply.set_version(version_);
    reply.write_error(error);
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
  engine::Standing standing = service_->host->standing_of(token_);
  role_ = standing.role;
  reach_ = std::move(standing.reach);
  parser_.set_bounds(is_stranger() ? of_stranger(service_->bounds) : service_->bounds);
  reply_bytes_max_ = is_stranger() ? std::min(kStrangerBytesMax, service_->reply_bytes_max)
                                   : service_->reply_bytes_max;
}

void Session::set_token(std::string_view token) {
  token_ = token;
  look_up_role();
}

void Session::start_over() {
  set_token({});
  version_ = 2;
  name_.clear();
  drop_transaction();
}

}  // namespace weir::wire::resp
