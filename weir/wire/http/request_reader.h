// Request reader: bytes of HTTP/1.0 and 1.1 to requests.
//
// A request is read where its bytes lie and nothing is copied, so an ordinary one
// costs no memory. Bytes of a request that is not whole yet are the caller's to keep
// and to hand over again with what follows; only a chunked body that arrives in
// pieces is collected here.
//
//   RequestReader reader({.header_bytes = 8192, .body_bytes = 65536});
//   HttpRequest request;
//   const auto step = reader.read(bytes, request);
//   bytes.remove_prefix(step.taken);
//   if (step.state == RequestReader::State::kWhole) answer(request);
//
// What is not HTTP, or too large, is a problem that ends the connection: where the
// next request begins is not known. Folded header lines are refused, as are lengths
// and encodings that two readers might take for different things.
//
// Thread safety: none; a reader belongs to one connection.

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "weir/wire/http/api.h"
#include "weir/wire/http/problem.h"

namespace weir::wire::http {

struct RequestBounds {
  std::size_t header_bytes = 8'192;  // the request line, the fields and the empty line
  std::size_t body_bytes = 65'536;
};

constexpr std::size_t kFieldsMax = 32;  // whose name begins with `Weir-`

// Views into the bytes given to read(), or into the reader; they hold until the next
// call or until those bytes are gone.
struct HttpRequest {
  HttpRequest() noexcept {}  // leaves the fields beyond field_count unwritten

  std::string_view method{};
  std::string_view target{};  // always in the form `/path?query`, or `*`
  std::string_view body{};
  std::string_view content_type{};
  std::string_view token{};  // of `Authorization: Bearer`
  std::string_view host{};
  std::string_view origin{};
  std::string_view fetch_site{};  // `Sec-Fetch-Site`
  std::string_view if_none_match{};
  bool is_http_10 = false;
  bool keep_alive = false;
  std::size_t field_count = 0;
  union {
    std::array<Field, kFieldsMax> fields;  // those for us
  };
};

class RequestReader {
 public:
  enum class State : unsigned char {
    kWhole,    // the request is there
    kPartial,  // more bytes are needed
    kBad,      // `problem` and `detail` say why
  };
  struct Step {
    State state = State::kPartial;
    std::size_t taken = 0;   // bytes done with, also of a partial one
    std::size_t needed = 0;  // kPartial: reading again is of no use with fewer bytes; 0: unknown
    bool wants_continue = false;  // kPartial: the client waits for `100 Continue`; told once
    std::string_view token{};     // kPartial, once the header is whole: as that of the request
    Problem problem = Problem::kBadArgument;
    std::string detail{};
  };

  explicit RequestReader(const RequestBounds& bounds) noexcept;
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Takes at most one request off the front. Requires that bytes is not empty.
  Step read(std::string_view bytes, HttpRequest& request);

  // Whether a part of a request that is not whole yet is kept here.
  bool is_midway() const noexcept;

  // The request is done with: gives back what was kept of it.
  void release() noexcept;

 private:
  struct Chunked;

  Step read_chunks(std::string_view bytes, HttpRequest& request);

  const RequestBounds& bounds_;
  std::unique_ptr<Chunked> chunked_;
  bool told_to_continue_ = false;
};

}  // namespace weir::wire::http
