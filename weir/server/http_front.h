// HTTP front: the interface of wire/http on the server's loops.
//
// Thread safety: what HttpHost and Api promise; a desk belongs to its loop.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weir/server/http_connection.h"
#include "weir/server/server.h"

namespace weir::server {

// What the interface asks of the server.
class HttpHost final : public wire::http::Host {
 public:
  HttpHost(Server& server, Clock& clock) noexcept : server_(server), clock_(clock) {}

  Instant now() noexcept override { return clock_.now(); }
  void reload_later(engine::StatusCallback told) noexcept override {
    server_.reload_later(std::move(told));
  }
  std::string metrics() noexcept override { return server_.metrics(); }
  bool ready(std::string& why, bool with_reasons) noexcept override {
    using Detail = Readiness::Detail;
    return server_.readiness().ready(why, with_reasons ? Detail::kReasons : Detail::kParts);
  }
  std::string name_of(std::string_view token) noexcept override { return server_.name_of(token); }
  bool speaks_for_consensus(std::string_view token) noexcept override {
    return server_.speaks_for_consensus(token);
  }

 private:
  Server& server_;
  Clock& clock_;
};

class HttpFront {
 public:
  HttpFront(Server& server, engine::Engine& engine, const config::Config& config,
            std::vector<const wire::http::RouteTable*> systems, const Tokens& tokens, Clock& clock,
            const ConnectionBounds& bounds, const std::vector<std::unique_ptr<Loop>>& loops);

  HttpDesk& desk(const Loop& loop) noexcept;
  const std::vector<std::unique_ptr<HttpDesk>>& desks() const noexcept { return desks_; }
  const std::vector<const wire::http::Route*>& routes() const noexcept { return api_.routes(); }

  // From now on these are answered.
  void admit(const config::Visitors& visitors) noexcept;

  // What a connection is told that is one too many.
  static std::string too_many_connections(Instant now);

 private:
  HttpHost host_;
  wire::http::Api api_;
  const wire::http::RequestBounds request_bounds_;
  Streams streams_;
  std::vector<std::unique_ptr<HttpDesk>> desks_;
};

}  // namespace weir::server
