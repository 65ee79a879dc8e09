// The only file that knows Boost.Beast, whose parser does the work.

#include "weir/wire/http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace beast = boost::beast;
using BeastError = beast::error_code;
using BeastText = beast::string_view;
using Step = RequestReader::Step;
using State = RequestReader::State;

constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kOurs = "Weir-";
constexpr std::string_view kLastChunk = "0\r\n\r\n";

std::string_view text_of(BeastText text) { return {text.data(), text.size()}; }

// What a proxy is asked names the server as well: `http://host/path` is `/path`.
std::string_view path_of(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with('/') || !target.starts_with(kScheme)) return target;
  const std::size_t slash = target.find('/', kScheme.size());
  return slash == std::string_view::npos ? "/" : target.substr(slash);
}

// Keeps of a request what the interface reads.
class Parser final : public beast::http::basic_parser<true> {
 public:
  Parser(const RequestBounds& bounds, HttpRequest& into) : into_(&into) {
    into.field_count = 0;
    // Beast counts the request line and the fields apart; read() adds them up.
    header_limit(static_cast<std::uint32_t>(
        std::min<std::size_t>(bounds.header_bytes, std::numeric_limits<std::uint32_t>::max())));
    body_limit(bounds.body_bytes);
  }

  // Fields that Beast leaves to its users to look at; empty: they are in order.
  std::string_view objection() const noexcept { return objection_; }
  std::string_view objection_at_end_of_header() const noexcept {
    if (!objection_.empty()) return objection_;
    if (has_encoding_ && !chunked()) {
      return "header: Transfer-Encoding must end in 'chunked' and occur once; send the body "
             "chunked, or with a Content-Length";
    }
    if (has_encoding_ && is_http_10_) {
      return "header: HTTP/1.0 knows no Transfer-Encoding; send a Content-Length";
    }
    if (hosts_ == 0 && !is_http_10_) return "header: Host is missing; send it once";
    return {};
  }
  bool wants_continue() const noexcept { return wants_continue_ && !is_http_10_; }
  std::string_view chunks() const noexcept { return chunks_; }
  std::string_view token() const noexcept { return token_; }

  void fill(HttpRequest& request, std::string_view body) const {
    request.method = method_;
    request.target = target_;
    request.body = body;
    request.content_type = content_type_;
    request.token = token_;
    request.host = host_;
    request.origin = origin_;
    request.fetch_site = fetch_site_;
    request.if_none_match = if_none_match_;
    request.is_http_10 = is_http_10_;
    request.keep_alive = keep_alive();
    if (chunked()) {
      request.field_count = kept_fields_.size();
      std::copy(kept_fields_.begin(), kept_fields_.end(), request.fields.begin());
    }
  }

  // The header lies elsewhere now.
  void rebase(const char* from, const char* to) {
    const auto move = [&](std::string_view& view) {
      if (!view.empty()) view = {to + (view.data() - from), view.size()};
    };
    for (std::string_view* view : {&method_, &target_, &content_type_, &token_, &host_, &origin_,
                                   &fetch_site_, &if_none_match_}) {
      move(*view);
    }
    for (std::size_t i = 0; i < into_->field_count; ++i) {
      kept_fields_.push_back(into_->fields[i]);
      move(kept_fields_.back().name);
      move(kept_fields_.back().value);
    }
  }

 private:
  void on_request_impl(beast::http::verb, BeastText method, BeastText target, int version,
                       BeastError&) override {
    method_ = text_of(method);
    target_ = path_of(text_of(target));
    is_http_10_ = version == 10;
  }
  void on_response_impl(int, BeastText, int, BeastError&) override {}
  void on_field_impl(beast::http::field field, BeastText name, BeastText value,
                     BeastError& error) override {
    if (is_header_done()) return;  // a trailer says nothing that is read
    // A folded value lies in Beast's own memory, or on another line than its name.
    const char* const after_name = name.data() + name.size();
    if (!value.empty() && (value.data() < after_name || value.data() > after_name + kGapBytesMax ||
                           std::find(after_name, value.data(), '\n') != value.data())) {
      return object("header: a line begins with a space; write each field on one line", error);
    }
    switch (field) {
      case beast::http::field::host:
        if (++hosts_ > 1) return object("header: Host is there twice; send it once", error);
        host_ = text_of(value);
        break;
      case beast::http::field::origin:
        if (std::exchange(has_origin_, true)) {
          return object("header: Origin is there twice; send it once", error);
        }
        origin_ = text_of(value);
        break;
      case beast::http::field::sec_fetch_site:
        if (std::exchange(has_fetch_site_, true)) {
          return object("header: Sec-Fetch-Site is there twice; send it once", error);
        }
        fetch_site_ = text_of(value);
        break;
      case beast::http::field::content_type:
        content_type_ = text_of(value);
        break;
      case beast::http::field::authorization:
        if (std::exchange(has_authorization_, true)) {
          return object("header: Authorization is there twice; send it once", error);
        }
        if (is_same_word(text_of(value).substr(0, kBearer.size()), kBearer)) {
          token_ = text_of(value).substr(kBearer.size());
        }
        break;
      case beast::http::field::if_none_match:
        if_none_match_ = text_of(value);
        break;
      case beast::http::field::expect:
        wants_continue_ = is_same_word(text_of(value), "100-continue");
        break;
      case beast::http::field::transfer_encoding:
        has_encoding_ = true;
        break;
      case beast::http::field::unknown:
        if (is_same_word(text_of(name).substr(0, kOurs.size()), kOurs)) {
          if (into_->field_count == kFieldsMax) {
            return object(
                "header: there are more than 32 fields whose name begins with 'Weir-'; "
                "send fewer",
                error);
          }
          into_->fields[into_->field_count++] = {text_of(name), text_of(value)};
        }
        break;
      default:
        break;
    }
  }
  void on_header_impl(BeastError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  std::size_t on_body_impl(BeastText body, BeastError&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastText, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastText body, BeastError&) override {
    chunks_.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(BeastError&) override {}

  void object(std::string_view why, BeastError& error) {
    objection_ = why;
    error = beast::http::error::bad_field;
  }

  // More white space than this in front of a value is as odd as a fold.
  static constexpr std::ptrdiff_t kGapBytesMax = 256;

  std::string_view method_{};
  std::string_view target_{};
  std::string_view content_type_{};
  std::string_view token_{};
  std::string_view host_{};
  std::string_view origin_{};
  std::string_view fetch_site_{};
  std::string_view if_none_match_{};
  std::string_view objection_{};
  std::string chunks_{};  // a chunked body so far
  std::vector<Field> kept_fields_{};
  HttpRequest* into_;  // of the current call
  unsigned hosts_ = 0;
  bool is_http_10_ = false;
  bool has_authorization_ = false;
  bool has_origin_ = false;
  bool has_fetch_site_ = false;
  bool has_encoding_ = false;
  bool wants_continue_ = false;
};

std::string_view detail_of(const BeastError& found) {
  using beast::http::error;
  struct Row {
    beast::http::error code;
    std::string_view detail;
  };
  static constexpr std::array<Row, 11> kRows = {{
      {error::bad_method,
       "request line: the method is not a word; write 'POST /v1/acquire "
       "HTTP/1.1'"},
      {error::bad_target,
       "request line: the target has a byte that may not stand there; write it "
       "as %XX"},
      {error::bad_version,
       "request line: it does not end in HTTP/1.0 or HTTP/1.1; write 'POST /v1/acquire HTTP/1.1'"},
      {error::bad_field, "header: the name of a field is not a word; write 'Name: value'"},
      {error::bad_value,
       "header: the value of a field has a byte that may not stand there, or its "
       "line does not end in CR LF; write 'Name: value'"},
      {error::bad_line_ending, "header: a line does not end in CR LF; end it so"},
      {error::bad_content_length,
       "header: Content-Length is not a number, or comes with a Transfer-Encoding; send one of "
       "them, once"},
      {error::multiple_content_length,
       "header: there are two Content-Length that differ; send it once"},
      {error::bad_transfer_encoding,
       "header: Transfer-Encoding is there twice, or with a Content-Length; send one of them, "
       "once"},
      {error::bad_chunk,
       "body: a chunk does not begin with its length in hexadecimal, or does not "
       "end in CR LF; check the chunked encoding"},
      {error::bad_chunk_extension, "body: the extension of a chunk is malformed; leave it out"},
  }};
  for (const Row& row : kRows) {
    if (found == row.code) return row.detail;
  }
  return "request: it is not HTTP/1.1; write 'POST /v1/acquire HTTP/1.1', header lines, an empty "
         "line";
}

Step bad(Problem problem, std::string detail) {
  return {.state = State::kBad, .problem = problem, .detail = std::move(detail)};
}
Step too_large_header(const RequestBounds& bounds) {
  return bad(Problem::kHeaderTooLarge,
             fmt::format("header: it is longer than {} bytes; send fewer fields, or raise "
                         "bounds.header_bytes",
                         bounds.header_bytes));
}
Step too_large_body(const RequestBounds& bounds) {
  return bad(
      Problem::kTooLarge,
      fmt::format("body: it is longer than {} bytes; send less{}", bounds.body_bytes,
                  bounds.body_bytes < kBodyBytesMax ? ", or raise bounds.request_bytes" : ""));
}
Step bad(const BeastError& error, const Parser& parser, const RequestBounds& bounds) {
  if (error == beast::http::error::header_limit) return too_large_header(bounds);
  if (error == beast::http::error::body_limit) return too_large_body(bounds);
  const std::string_view objection = parser.objection();
  return bad(Problem::kBadArgument, std::string(objection.empty() ? detail_of(error) : objection));
}

std::size_t put(Parser& parser, std::string_view bytes, BeastError& error) {
  return parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
}

bool is_failure(const BeastError& error) { return error && error != beast::http::error::need_more; }

}  // namespace

struct RequestReader::Chunked {
  Parser parser;
  std::string header;
};

RequestReader::RequestReader(const RequestBounds& bounds) noexcept : bounds_(bounds) {}
RequestReader::~RequestReader() = default;

bool RequestReader::is_midway() const noexcept {
  return chunked_ != nullptr && !chunked_->parser.is_done();
}

void RequestReader::release() noexcept { chunked_.reset(); }

RequestReader::Step RequestReader::read(std::string_view bytes, HttpRequest& request) {
  if (is_midway()) return read_chunks(bytes, request);
  release();
  // Some clients end a body with a line end that belongs to nothing.
  if (bytes == "\r") return {};
  if (bytes[0] == '\r' && bytes.substr(0, 2) == "\r\n") return {.taken = 2};

  Parser parser(bounds_, request);
  BeastError error;
  const std::size_t header_bytes = put(parser, bytes, error);
  if (is_failure(error)) return bad(error, parser, bounds_);
  if (!parser.is_header_done()) {
    if (bytes.size() >= bounds_.header_bytes) return too_large_header(bounds_);
    return {};
  }
  if (header_bytes > bounds_.header_bytes) return too_large_header(bounds_);
  if (const std::string_view why = parser.objection_at_end_of_header(); !why.empty()) {
    return bad(Problem::kBadArgument, std::string(why));
  }
  if (!parser.chunked()) {
    // The bound has been checked, so the sum does not overflow.
    const std::size_t length = static_cast<std::size_t>(parser.content_length().value_or(0));
    if (bytes.size() - header_bytes < length) {
      return {.needed = header_bytes + length,
              .wants_continue = parser.wants_continue() && bytes.size() == header_bytes &&
                                !std::exchange(told_to_continue_, true),
              .token = parser.token()};
    }
    told_to_continue_ = false;
    parser.fill(request, bytes.substr(header_bytes, length));
    return {.state = State::kWhole, .taken = header_bytes + length};
  }

  auto chunked = std::make_unique<Chunked>(
      Chunked{std::move(parser), std::string(bytes.substr(0, header_bytes))});
  chunked->parser.rebase(bytes.data(), chunked->header.data());
  chunked->parser.eager(true);
  chunked_ = std::move(chunked);
  bytes.remove_prefix(header_bytes);
  Step step;
  if (bytes.empty()) {
    step.wants_continue = chunked_->parser.wants_continue();
    step.token = chunked_->parser.token();
  } else {
    step = read_chunks(bytes, request);
  }
  step.taken += header_bytes;
  return step;
}

RequestReader::Step RequestReader::read_chunks(std::string_view bytes, HttpRequest& request) {
  Parser& parser = chunked_->parser;
  // What ends a body has five bytes, so with fewer it cannot end; and Beast asserts that
  // it is never shown the first three of them twice.
  if (bytes.size() < kLastChunk.size()) return {.token = parser.token()};
  BeastError error;
  const std::size_t taken = put(parser, bytes, error);
  if (is_failure(error)) return bad(error, parser, bounds_);
  if (!parser.is_done()) {
    // What is left is the beginning of a chunk's first line, or of the trailer.
    if (bytes.size() - taken > bounds_.header_bytes) return too_large_header(bounds_);
    return {.taken = taken, .token = parser.token()};
  }
  parser.fill(request, parser.chunks());
  return {.state = State::kWhole, .taken = taken};
}

}  // namespace weir::wire::http
