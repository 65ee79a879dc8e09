#include "weir/wire/http/response.h"

#include <fmt/format.h>
#include <time.h>

#include "weir/wire/http/text.h"

namespace weir::wire::http {

std::string_view reason_of(unsigned status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "";
  }
}

std::string_view DateLine::at(Instant now) {
  const std::int64_t second = now.ns / 1'000'000'000;
  if (second != second_) {
    static constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t seconds = second;
    tm parts{};
    ::gmtime_r(&seconds, &parts);
    line_ = fmt::format("Date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n", kDays[parts.tm_wday],
                        parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour,
                        parts.tm_min, parts.tm_sec);
    second_ = second;
  }
  return line_;
}

void append_response(std::string& out, const Answer& answer, std::string_view date_line,
                     Afterwards afterwards, bool with_body) {
  if (answer.status == 200) {
    out += "HTTP/1.1 200 OK\r\n";
  } else {
    out += "HTTP/1.1 ";
    append_unsigned(out, answer.status);
    out += ' ';
    out += reason_of(answer.status);
    out += "\r\n";
  }
  out += date_line;
  if (!answer.content_type.empty()) {
    out += "Content-Type: ";
    out += answer.content_type;
    out += "\r\n";
  }
  out += answer.headers;
  if (afterwards == Afterwards::kClose) {
    out += "Connection: close\r\n";
  } else if (afterwards == Afterwards::kKeepAlive) {
    out += "Connection: keep-alive\r\n";
  }
  // 304 has no body, and no length but that of what it stands for.
  if (!answer.is_stream && with_body && answer.status != 304) {
    out += "Content-Length: ";
    append_unsigned(out, answer.body.size());
    out += "\r\n\r\n";
    out += answer.body;
  } else {
    out += "\r\n";
  }
}

}  // namespace weir::wire::http
