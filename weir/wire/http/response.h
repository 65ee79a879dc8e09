// Response: an answer as bytes of HTTP/1.1.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/base/time.h"
#include "weir/wire/http/api.h"

namespace weir::wire::http {

// What is said about the connection after an answer.
enum class Afterwards : std::uint8_t {
  kKeep,       // nothing: it stays open, as HTTP/1.1 has it
  kKeepAlive,  // that it stays open, which HTTP/1.0 has to be told
  kClose,      // that it is closed
};

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// `Date: Fri, 15 Jan 2027 08:00:00 GMT` and CR LF, written anew once a second.
class DateLine {
 public:
  std::string_view at(Instant now);

 private:
  std::int64_t second_ = -1;
  std::string line_;
};

// Appends the whole of it. `with_body`: not for HEAD. A stream is begun: its length is
// not told, and the connection ends with it.
void append_response(std::string& out, const Answer& answer, std::string_view date_line,
                     Afterwards afterwards, bool with_body);

// `Not Found` for 404; empty for a status that no answer has.
std::string_view reason_of(unsigned status) noexcept;

}  // namespace weir::wire::http
