// Any bytes at all as an address to listen on, the address of a Redis, a URL to ask, and a text
// that stands in one. What is read is written and read back the same; what is not has a message.

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/input.h"
#include "weir/config/config.h"
#include "weir/fetch/url.h"
#include "weir/store/redis/link/address.h"

namespace {

using weir::fuzz::check;
namespace redis = weir::store::redis;

void check_message(const weir::Error& error) {
  check(!error.message.empty());
  // A line, and no byte that a terminal would take for its own.
  for (const char c : error.message) check(static_cast<unsigned char>(c) >= 0x20);
}

void read_listen(std::string_view text) {
  const auto address = weir::config::parse_address(text);
  if (!address) return check_message(address.error());
  const auto again = weir::config::parse_address(address->text());
  check(again.ok() && again->text() == address->text());
  check(again->kind == address->kind && again->host == address->host);
  check(again->path == address->path && again->port == address->port);
  check(again->is_local() == address->is_local());
  // What the system calls are told is all of it.
  check(address->host.find('\0') == std::string::npos);
  check(address->path.find('\0') == std::string::npos);
}

void read_redis(std::string_view text) {
  const auto address = redis::parse_address(text);
  if (!address) return check_message(address.error());
  check(address->is_unix() == address->host.empty());
  check(address->database >= 0 && address->database <= redis::kDatabaseMax);
  redis::Address open = *address;
  open.user.clear();
  open.password.clear();
  const auto again = redis::parse_address(describe(*address));
  check(again.ok() && *again == open);
}

// Asked as it was judged: what curl makes of it has no user and the scheme that was written.
void read_url(std::string_view text) {
  const std::string trouble = weir::fetch::url_trouble(text);
  if (!trouble.empty()) return check_message(weir::bad_argument(trouble));
  check(text.size() <= weir::fetch::kUrlBytesMax);
  check(text.find('\0') == std::string_view::npos);
  check(text.find_first_of(" \t\r\n#") == std::string_view::npos);
  check(text.starts_with("http://") || text.starts_with("https://"));
  // With a path behind it, as requests are asked, it is still the same host.
  check(
      weir::fetch::url_trouble(std::string("http://x/") + weir::fetch::url_escaped(text)).empty() ||
      text.size() > weir::fetch::kUrlBytesMax / 4);
}

void escape(std::string_view text) {
  const std::string escaped = weir::fetch::url_escaped(text);
  check(escaped.find_first_of("/?#&=+ :@") == std::string::npos);
  int size = 0;
  char* const plain =
      curl_easy_unescape(nullptr, escaped.data(), static_cast<int>(escaped.size()), &size);
  check(plain != nullptr && std::string_view(plain, static_cast<std::size_t>(size)) == text);
  curl_free(plain);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_listen(text);
  read_redis(text);
  read_url(text);
  escape(text);
  return 0;
}
