// curl reads the URLs here as it will when it asks them, so that both mean the same.

#include "weir/fetch/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

#include "weir/base/in_quotes.h"

namespace weir::fetch {

std::string url_escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    const bool is_plain = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                          (each >= '0' && each <= '9') ||
                          std::string_view("-._~").find(each) != std::string_view::npos;
    if (is_plain) {
      out += each;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string url_trouble(std::string_view url) {
  const auto wrong = [&](std::string_view what) {
    return fmt::format("is {}, but {}; write such as 'https://services.example.org'",
                       in_quotes(url), what);
  };
  if (url.size() > kUrlBytesMax) {
    return fmt::format("has {} bytes, but it may have {}; write a shorter one", url.size(),
                       kUrlBytesMax);
  }
  // curl would stop there, and judge another URL than the one that was written.
  if (url.find('\0') != std::string_view::npos) return wrong("it must have no zero byte");
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts(curl_url(), &curl_url_cleanup);
  const std::string text(url);
  if (curl_url_set(parts.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return wrong("it must be a URL");
  }
  const auto has = [&](CURLUPart part) {
    char* found = nullptr;
    const bool is_there = curl_url_get(parts.get(), part, &found, 0) == CURLUE_OK;
    curl_free(found);
    return is_there;
  };
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return wrong("it must begin with http:// or https://");
  }
  // An empty fragment is none to curl, and swallows the path that is put behind it.
  if (has(CURLUPART_USER) || has(CURLUPART_PASSWORD) || url.find('#') != std::string_view::npos) {
    return wrong("it must have no user, password or fragment");
  }
  return {};
}

}  // namespace weir::fetch
