// HTTP: Weir's own interface, without a socket.
//
// A server parses HTTP, works out the caller's role and hands over a Call; the Api
// answers it. Paths, methods, roles and summaries are the rows of tables (routes.h): the
// engine's, and one for each system that the server has. docs/reference/http.md describes every
// route.
//
//   Api api(engine, host, {.headers = HeaderStyle::kIetf}, {&throttle_routes, &pool_routes});
//   Answer answer;
//   if (api.handle(call, clock.now(), answer, later)) send(answer);
//
// A request that may wait is answered later: handle() returns false, and `later` is
// called exactly once, from whichever thread frees what it waits for, maybe before
// handle() has returned. If the client goes away meanwhile, Answer::give_up takes it out of
// the queue, so that nothing is spent on a client that has gone.
//
// No exception leaves it; `later` and the Host must not throw.
//
// Thread safety: every function may be called from any number of threads. Engine, host and
// tables must outlive the Api, and the Api every request that waits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/guarded.h"
#include "weir/base/result.h"
#include "weir/base/role.h"
#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/engine/reach.h"
#include "weir/wire/http/headers.h"
#include "weir/wire/http/visitors.h"

namespace weir::wire::http {

struct Route;  // routes.h
class RouteTable;

// A field of the header whose name begins with `Weir-`, in any case.
struct Field {
  std::string_view name;
  std::string_view value;
};

// A request as the server read it. Everything is a view and need only live as long as
// the call of handle().
struct Call {
  std::string_view method;
  std::string_view target;  // path and query, as they came
  std::string_view body{};
  std::string_view content_type{};
  Role role = Role::kNobody;
  const engine::Reach* reach = nullptr;  // of its token; nullptr: it is not bound
  std::string_view token{};              // that was presented, for Host::name_of()
  std::string_view if_none_match{};
  std::span<const Field> fields{};
  Visit visit{};  // where it comes from
};

// A request that changes something comes as JSON or with this field, whatever its value: a page
// cannot send either to another site without being allowed to.
constexpr std::string_view kRequestField = "Weir-Request";

struct Answer {
  unsigned status = 200;
  std::string_view content_type{};  // empty: no body
  std::string headers{};            // complete lines, each ending with CR LF
  std::string body{};
  bool is_stream = false;  // server-sent events: keep sending Api::event()
  // It is sent when this record is on disk, and those before it; 0: at once.
  std::uint64_t record = 0;
  std::size_t route = 0;  // its place in Api::routes(); their number: none
  // Of a request that is answered later: gives the answer up. True: `later` will not be called.
  // False: it has been, or will be. None: it cannot be given up.
  std::function<bool(Instant now)> give_up{};
  // Of an answer that came later, whose client has gone: ends what it tells of. None: nothing.
  std::function<void(Instant now)> discard{};
};

using Later = std::function<void(Answer)>;

struct HttpSettings {
  HeaderStyle headers = HeaderStyle::kIetf;
  std::size_t batch_max = 1000;  // requests in one POST /v1/batch
  Visitors visitors{};           // at first; see Api::admit()
};

// What the server supplies. Called from the threads that call the Api.
class Host {
 public:
  virtual ~Host() = default;

  // Read when a wait ends, which no call's `now` can tell.
  virtual Instant now() noexcept = 0;
  // Reads the configuration again and puts it in force, and tells how it went: at once, or later
  // from any thread.
  virtual void reload_later(engine::StatusCallback told) noexcept = 0;
  // In the text format of Prometheus.
  virtual std::string metrics() noexcept = 0;
  // Whether requests should be sent here; if not, `why` names the parts in trouble, else those of
  // which something should be known though. What there is to say of them only if asked: it may
  // hold paths.
  virtual bool ready(std::string& why, bool with_reasons) noexcept = 0;
  // Who presents this token, for histories; empty: it has no name.
  virtual std::string name_of(std::string_view /*token*/) noexcept { return {}; }
  // Whether who presents this token, without being an administrator, speaks for consensus.
  virtual bool speaks_for_consensus(std::string_view /*token*/) noexcept { return false; }
};

class Api {
 public:
  // `systems`: their tables, besides engine_routes().
  Api(engine::Engine& engine, Host& host, HttpSettings settings,
      std::vector<const RouteTable*> systems = {});

  // Answers now, or returns false: the request waits. The strings of `answer` are
  // written anew, keeping their memory.
  bool handle(const Call& call, Instant now, Answer& answer, Later later) noexcept;

  // From now on these are answered, besides ordinary requests.
  void admit(Visitors visitors) noexcept;
  // Why a request from there is refused; empty: it is answered.
  std::string objection_to(const Visit& visit) const;

  // One server-sent event with the state of the engine, for any number of streams: each
  // puts a line `id: N` of its own in front.
  std::string event(Instant now) noexcept;

  // A decision as the answer to POST /v1/acquire, for a server that decides by other
  // ways.
  void answer_decision(const Decision& decision, bool up_to, Instant now, Answer& answer) noexcept;

  engine::Engine& engine() noexcept { return engine_; }
  Host& host() noexcept { return host_; }
  const HttpSettings& settings() const noexcept { return settings_; }
  const std::vector<const RouteTable*>& tables() const noexcept { return tables_; }
  // Of all tables, in their order.
  const std::vector<const Route*>& routes() const noexcept { return routes_; }
  const std::string& openapi();

 private:
  std::shared_ptr<const Policies> policies();

  engine::Engine& engine_;
  Host& host_;
  const HttpSettings settings_;
  const std::vector<const RouteTable*> tables_;
  const std::vector<const Route*> routes_;
  std::once_flag describes_;
  std::string openapi_;
  std::mutex policies_lock_;
  std::shared_ptr<const Policies> policies_;
  Guarded<Visitors> visitors_;
};

}  // namespace weir::wire::http
