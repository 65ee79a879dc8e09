#include "weir/server/http_front.h"

#include <algorithm>

#include "weir/base/assert.h"
#include "weir/wire/http/problem.h"
#include "weir/wire/http/read.h"

namespace weir::server {
namespace {

wire::http::HeaderStyle style_of(config::HeaderStyle style) {
  switch (style) {
    case config::HeaderStyle::kIetf:
      return wire::http::HeaderStyle::kIetf;
    case config::HeaderStyle::kXRateLimit:
      return wire::http::HeaderStyle::kXRateLimit;
    case config::HeaderStyle::kXRateLimitEpoch:
      return wire::http::HeaderStyle::kXRateLimitEpoch;
    case config::HeaderStyle::kNone:
      return wire::http::HeaderStyle::kNone;
  }
  return wire::http::HeaderStyle::kIetf;
}

wire::http::Visitors visitors_of(const config::Visitors& visitors) {
  return {.origins = visitors.origins, .hosts = visitors.hosts};
}

}  // namespace

HttpFront::HttpFront(Server& server, engine::Engine& engine, const config::Config& config,
                     std::vector<const wire::http::RouteTable*> systems, const Tokens& tokens,
                     Clock& clock, const ConnectionBounds& bounds,
                     const std::vector<std::unique_ptr<Loop>>& loops)
    : host_(server, clock),
      api_(engine, host_,
           {.headers = style_of(config.headers),
            .batch_max = config.bounds.batch,
            .visitors = visitors_of(config.visitors)},
           std::move(systems)),
      request_bounds_{
          .header_bytes = config.bounds.header_bytes,
          .body_bytes = std::min(config.bounds.request_bytes, wire::http::kBodyBytesMax)},
      streams_(config.bounds.streams) {
  for (const auto& loop : loops) {
    desks_.push_back(
        std::make_unique<HttpDesk>(*loop, api_, tokens, clock, bounds, request_bounds_, streams_));
  }
}

void HttpFront::admit(const config::Visitors& visitors) noexcept {
  api_.admit(visitors_of(visitors));
}

HttpDesk& HttpFront::desk(const Loop& loop) noexcept {
  for (const auto& desk : desks_) {
    if (&desk->loop == &loop) return *desk;
  }
  WEIR_ASSERT(false);
  return *desks_[0];
}

std::string HttpFront::too_many_connections(Instant now) {
  using wire::http::Problem;
  wire::http::Answer answer{.status = wire::http::status_of(Problem::kExhausted),
                            .content_type = wire::http::kProblemType,
                            .headers = "Retry-After: 1\r\n"};
  append_problem(answer.body, Problem::kExhausted,
                 "the server has as many connections as it takes; close some, or raise "
                 "bounds.connections");
  std::string out;
  append_response(out, answer, wire::http::DateLine().at(now), wire::http::Afterwards::kClose,
                  true);
  return out;
}

}  // namespace weir::server
