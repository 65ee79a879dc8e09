// What holds:
//
//  1. One handle serves all requests, so that its connection serves the next one. A multi handle
//     runs it, since that can be woken: curl_multi_wakeup() is what another thread may call.
//  2. cancelled is never taken back: a Transfer that was cancelled once answers nothing any more.
//  3. What is received is bounded while it comes: the byte beyond bytes_max ends the transfer.

#include "weir/fetch/transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "weir/base/assert.h"

namespace weir::fetch {
namespace {

// Once in a process, before the first thread that uses it.
void start_curl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  WEIR_ASSERT(started == CURLE_OK);
}

struct EndEasy {
  void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
};
struct EndMulti {
  void operator()(CURLM* multi) const noexcept { curl_multi_cleanup(multi); }
};
struct EndList {
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, EndEasy>;
using Multi = std::unique_ptr<CURLM, EndMulti>;
using List = std::unique_ptr<curl_slist, EndList>;

// What has come so far.
struct Arriving {
  std::string body;
  std::size_t bytes_max = 0;
  bool is_too_long = false;
};

std::size_t take_bytes(const char* bytes, std::size_t, std::size_t count, void* user) {
  auto& arriving = *static_cast<Arriving*>(user);
  if (count > arriving.bytes_max - arriving.body.size()) {
    arriving.is_too_long = true;
    return 0;  // ends the transfer
  }
  arriving.body.append(bytes, count);
  return count;
}

void append(List& list, const std::string& line) {
  curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
  WEIR_ASSERT(longer != nullptr);
  static_cast<void>(list.release());
  list.reset(longer);
}

}  // namespace

struct Transfer::Impl {
  explicit Impl(TransferOptions given) : options(std::move(given)) {
    start_curl();
    multi.reset(curl_multi_init());
    easy.reset(curl_easy_init());
    WEIR_ASSERT(multi != nullptr);
    WEIR_ASSERT(easy != nullptr);
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(easy.get(), option, value);
    WEIR_ASSERT(code == CURLE_OK);
  }

  void prepare(const TransferRequest& request, const List& headers, Arriving& arriving) {
    curl_easy_reset(easy.get());
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_NOSIGNAL, 1L);
    // A name server that does not answer does not hold up the end.
    set(CURLOPT_QUICK_EXIT, 1L);
    const auto timeout_ms = std::max<long>(
        1, std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout).count());
    set(CURLOPT_TIMEOUT_MS, timeout_ms);
    set(CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    set(CURLOPT_SSL_VERIFYPEER, options.verify ? 1L : 0L);
    set(CURLOPT_SSL_VERIFYHOST, options.verify ? 2L : 0L);
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
    set(CURLOPT_USERAGENT, "weir");
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_WRITEFUNCTION, take_bytes);
    set(CURLOPT_WRITEDATA, &arriving);
    set(CURLOPT_ERRORBUFFER, error);
    if (request.method == "GET") return;
    // A body that is told by its length: as POST, under the method's own name.
    set(CURLOPT_POST, 1L);
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    set(CURLOPT_POSTFIELDS, request.body.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }

  // Runs what was prepared to its end, or until cancel().
  CURLcode perform() {
    const CURLMcode added = curl_multi_add_handle(multi.get(), easy.get());
    WEIR_ASSERT(added == CURLM_OK);
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int running = 1;
    while (!cancelled.load() && running > 0) {
      if (curl_multi_perform(multi.get(), &running) != CURLM_OK) break;
      if (running > 0) curl_multi_poll(multi.get(), nullptr, 0, 1000, nullptr);
    }
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg == CURLMSG_DONE) code = message->data.result;
    }
    curl_multi_remove_handle(multi.get(), easy.get());
    return code;
  }

  std::string why(CURLcode code, const Arriving& arriving) const {
    if (arriving.is_too_long) {
      return fmt::format("more than {} bytes, as many as are read", arriving.bytes_max);
    }
    if (cancelled.load()) return "cancelled";
    const std::string_view said = error;
    return std::string(said.empty() ? curl_easy_strerror(code) : said);
  }

  TransferOptions options;
  Multi multi;
  Easy easy;  // after the multi: it ends first
  char error[CURL_ERROR_SIZE] = {};
  std::atomic<bool> cancelled{false};
};

Transfer::Transfer(TransferOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Transfer::~Transfer() = default;

Transferred Transfer::run(const TransferRequest& request) {
  const auto is_control = [](char each) { return each >= 0 && each < ' '; };
  if (std::any_of(request.bearer.begin(), request.bearer.end(), is_control)) {
    return {.body = "the access token has control characters"};  // a header cannot carry them
  }
  List headers;
  append(headers, "Accept: application/json");
  append(headers, "Expect:");  // no round trip before the body
  if (!request.bearer.empty()) append(headers, "Authorization: Bearer " + request.bearer);
  if (!request.if_none_match.empty()) append(headers, "If-None-Match: " + request.if_none_match);
  if (!request.type.empty()) append(headers, "Content-Type: " + request.type);
  Arriving arriving{{}, impl_->options.bytes_max};
  impl_->error[0] = '\0';
  impl_->prepare(request, headers, arriving);
  const CURLcode code = impl_->perform();
  Transferred result;
  if (code != CURLE_OK) {
    result.body = impl_->why(code, arriving);
    return result;
  }
  CURL* const easy = impl_->easy.get();
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  result.status = static_cast<int>(status);
  result.body = std::move(arriving.body);
  curl_header* header = nullptr;
  if (curl_easy_header(easy, "ETag", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
    result.tag = header->value;
  }
  if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
    result.retry_after = header->value;
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
    // Of a number its own text says more; curl takes it for seconds.
    const bool is_date = result.retry_after.find_first_not_of("0123456789") != std::string::npos;
    if (is_date && seconds > 0) {
      result.retry_in = std::chrono::seconds{std::min<curl_off_t>(seconds, 86'400)};
    }
  }
  return result;
}

void Transfer::cancel() noexcept {
  impl_->cancelled.store(true);
  curl_multi_wakeup(impl_->multi.get());
}

}  // namespace weir::fetch
