// Bytes of HTTP, read at once and in pieces: both ways the same requests come out.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weir/wire/http/request_reader.h"

namespace {

using weir::wire::http::HttpRequest;
using weir::wire::http::RequestBounds;
using weir::wire::http::RequestReader;

constexpr RequestBounds kBounds{.header_bytes = 512, .body_bytes = 256};

void note(const HttpRequest& request, std::string& out) {
  for (const std::string_view part :
       {request.method, request.target, request.body, request.content_type, request.token,
        request.host, request.origin, request.fetch_site}) {
    out += part;
    out += '\n';
  }
  out += request.keep_alive ? "keep" : "close";
  for (std::size_t i = 0; i < request.field_count; ++i) {
    out += request.fields[i].name;
    out += request.fields[i].value;
  }
}

// Whether more can follow.
bool read_all(RequestReader& reader, std::string& unread, std::string& out) {
  HttpRequest request;
  while (!unread.empty()) {
    const RequestReader::Step step = reader.read(unread, request);
    if (step.taken > unread.size()) std::abort();
    if (step.state == RequestReader::State::kBad) {
      if (step.detail.empty()) std::abort();
      return false;  // in pieces it may take a few bytes more until that is seen
    }
    if (step.state == RequestReader::State::kWhole) note(request, out);
    if (step.state == RequestReader::State::kPartial && step.taken == 0) break;
    unread.erase(0, step.taken);
  }
  if (unread.size() > kBounds.header_bytes + kBounds.body_bytes) std::abort();
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::string at_once;
  {
    RequestReader reader(kBounds);
    std::string unread = bytes;
    read_all(reader, unread, at_once);
  }
  std::string in_pieces;
  RequestReader reader(kBounds);
  std::string unread;
  const std::size_t piece = size == 0 ? 1 : data[size - 1] % 7 + 1;
  for (std::size_t at = 0; at < size; at += piece) {
    unread += bytes.substr(at, piece);
    if (!read_all(reader, unread, in_pieces)) break;
  }
  if (at_once != in_pieces) std::abort();
  return 0;
}
