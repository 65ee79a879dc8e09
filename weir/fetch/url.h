// URLs: whether one can be asked, and texts as they stand in one.
//
//   url_trouble("https://me@example.org")   // "is '…', but it must have no user, …"
//   "https://example.org/users/" + url_escaped(name)
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::fetch {

constexpr std::size_t kUrlBytesMax = 2048;  // longer ones are refused

// `text` as it stands in a URL or a form: all but letters, digits and -._~ escaped.
std::string url_escaped(std::string_view text);

// Why `url` cannot be asked, for putting a name in front; empty if it can. A URL is
// http:// or https:// with a host, without spaces, user or fragment.
std::string url_trouble(std::string_view url);

}  // namespace weir::fetch
