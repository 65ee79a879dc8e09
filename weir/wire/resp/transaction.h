// Transaction: the commands between MULTI and EXEC.
//
// They are checked when they come, kept as a client would send them, and run in order, at
// one instant, when EXEC comes. A command that is refused meanwhile aborts the transaction:
// EXEC then runs nothing.
//
//   MULTI ─► add() ... add() ─► EXEC: commands() are run, or is_aborted() and none is
//
// Thread safety: none. A transaction belongs to one connection.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "weir/wire/resp/words.h"

namespace weir::wire::resp {

constexpr std::size_t kTransactionCommandsMax = 1024;

class Transaction {
 public:
  // `bytes_max` bounds all commands together, each as an array of bulk strings.
  explicit Transaction(std::size_t bytes_max) noexcept : bytes_max_(bytes_max) {}

  // Keeps a command. An error is the text to reply; the transaction is aborted then. One that
  // is aborted already keeps nothing, and says so to EXEC only.
  Status add(Words words);
  // EXEC will run nothing.
  void abort();

  bool is_aborted() const noexcept { return is_aborted_; }
  std::size_t size() const noexcept { return size_; }
  // As arrays of bulk strings, one after the other.
  std::string_view commands() const noexcept { return commands_; }

 private:
  std::size_t bytes_max_;
  std::string commands_{};
  std::size_t size_ = 0;
  bool is_aborted_ = false;
};

}  // namespace weir::wire::resp
