// Transfer: one HTTP(S) request after another, each bounded in time and size.
//
//   Transfer transfer({.timeout = 10s});
//   const Transferred got = transfer.run({.url = "https://example.org/", .bearer = token});
//
// Redirects are refused, since they would carry credentials elsewhere; certificates are
// verified unless somebody says otherwise; nothing but HTTP and HTTPS is spoken. The
// connection is kept for the next request to the same host. The environment's proxies
// are used.
//
// Thread safety: run() from one thread at a time, cancel() from any.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/time.h"

namespace weir::system::contract {

struct TransferOptions {
  Duration timeout = std::chrono::seconds{10};  // of a whole request, from 1 ms on
  std::size_t bytes_max = std::size_t{8} << 20;
  bool verify = true;     // the certificate, and that it is the host's
  std::string ca_file{};  // of authorities, instead of the system's

  friend bool operator==(const TransferOptions&, const TransferOptions&) = default;
};

struct TransferRequest {
  std::string method = "GET";
  std::string url;
  std::string bearer{};  // credentials; empty: none
  std::string type{};    // of the body
  std::string body{};
};

struct Transferred {
  int status = 0;                      // 0: no answer
  std::string body{};                  // or why there is none
  std::string retry_after{};           // the header, as it came
  std::optional<Duration> retry_in{};  // the same where it is a date
};

class Transfer {
 public:
  explicit Transfer(TransferOptions options);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Transferred run(const TransferRequest& request);

  // Ends the request that runs, and every later one at once.
  void cancel() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `text` as it stands in a URL or a form: all but letters, digits and -._~ escaped.
std::string url_escaped(std::string_view text);

// Why `url` cannot be asked, for putting a name in front; empty if it can. A URL is
// http:// or https:// with a host, without spaces, user or fragment.
std::string url_trouble(std::string_view url);

}  // namespace weir::system::contract
