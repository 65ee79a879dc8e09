// Transfer: one HTTP(S) request after another, each bounded in time and size.
//
//   Transfer transfer({.timeout = 10s});
//   const Transferred got = transfer.run({.url = "https://example.org/", .bearer = token});
//
// Certificates are verified, unless the options say otherwise. Redirects are refused,
// since they would carry credentials elsewhere. Only HTTP and HTTPS are spoken. The
// connection is kept for the next request to the same host. The environment's proxies
// are used.
//
// The contract syncer, a compute worker that follows a ledger and `weir sync` fetch
// with it.
//
// Thread safety: run() from one thread at a time, cancel() from any.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "weir/base/time.h"

namespace weir::fetch {

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
  std::string bearer{};         // credentials; empty: none
  std::string if_none_match{};  // the tag of what is there already; empty: none
  std::string type{};           // of the body
  std::string body{};
};

struct Transferred {
  int status = 0;                      // 0: no answer
  std::string body{};                  // or why there is none
  std::string retry_after{};           // the header, as it came
  std::string tag{};                   // the header ETag, as it came
  std::optional<Duration> retry_in{};  // how long that is, where it is a date
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

}  // namespace weir::fetch
