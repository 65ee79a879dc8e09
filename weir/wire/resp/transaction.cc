// The transaction of one connection, and the commands that begin and end it.

#include "weir/wire/resp/transaction.h"

#include <fmt/format.h>

#include "weir/wire/resp/command.h"
#include "weir/wire/resp/reply_writer.h"

namespace weir::wire::resp {

Status Transaction::add(Words words) {
  if (is_aborted_) return Done{};
  if (size_ == kTransactionCommandsMax) {
    abort();
    return Error{ErrorCode::kExhausted,
                 fmt::format("EXHAUSTED a transaction has at most {} commands; send EXEC before "
                             "more of them, and MULTI after it",
                             kTransactionCommandsMax)};
  }
  ReplyWriter writer(commands_);
  writer.begin_array(words.size());
  for (const std::string_view word : words) writer.write_bulk(word);
  size_ += 1;
  if (commands_.size() <= bytes_max_) return Done{};
  abort();
  return Error{ErrorCode::kExhausted,
               fmt::format("EXHAUSTED the commands of a transaction take at most {} bytes "
                           "together; send EXEC before more of them, or raise "
                           "bounds.request_bytes",
                           bytes_max_)};
}

void Transaction::abort() {
  is_aborted_ = true;
  size_ = 0;
  std::string().swap(commands_);
}

namespace internal {

std::size_t run_multi(Run& run) {
  if (run.session.transaction() != nullptr) {
    run.reply.write_error("ERR MULTI calls can not be nested");
  } else {
    run.session.begin_transaction();
    run.reply.write_simple("OK");
  }
  return 1;
}

std::size_t run_exec(Run& run) {
  const Transaction* const transaction = run.session.transaction();
  if (transaction == nullptr) {
    run.reply.write_error("ERR EXEC without MULTI");
  } else if (transaction->is_aborted()) {
    run.session.drop_transaction();
    run.reply.write_error("EXECABORT Transaction discarded because of previous errors.");
  } else {
    run.session.run_transaction(run);
  }
  return 1;
}

std::size_t run_discard(Run& run) {
  if (run.session.transaction() == nullptr) {
    run.reply.write_error("ERR DISCARD without MULTI");
  } else {
    run.session.drop_transaction();
    run.reply.write_simple("OK");
  }
  return 1;
}

std::size_t run_watch(Run& run) {
  run.reply.write_error(
      run.session.transaction() != nullptr
          ? "ERR WATCH inside MULTI is not allowed"
          : "ERR weir keeps no keys that could be watched; leave WATCH out: the commands between "
            "MULTI and EXEC are decided at one instant");
  return 1;
}

std::size_t run_unwatch(Run& run) {
  run.reply.write_simple("OK");
  return 1;
}

}  // namespace internal
}  // namespace weir::wire::resp
