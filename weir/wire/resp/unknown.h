// Unknown: what is answered to a command that does not exist.
//
// A client that sends one was mostly made for a Redis with data or scripts, so the error
// names the way on. A browser that was made to send HTTP here is not answered at all.
//
// Thread safety: none needed. The only state is what the caller passes.

#pragma once

#include <string>

#include "weir/wire/resp/words.h"

namespace weir::wire::resp {

// The text of the error, as Redis words it; behind it, for commands that Redis has, what weir
// has instead. Requires at least one word.
std::string unknown_command(Words words);

// Whether the command is a line of an HTTP request: POST or a Host header, as in Redis, and
// the first line of any other request. Requires at least one word, none of them a command.
bool is_line_of_http(Words words, bool is_inline) noexcept;

}  // namespace weir::wire::resp
