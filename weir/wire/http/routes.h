// Routes: everything the interface can be asked, as the rows of one table.
//
// Dispatch, 404 and 405, the check of roles, /openapi.json and the table in
// docs/reference/http.md are all made from these rows (a test compares the page).
//
// Thread safety: immutable.

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "weir/base/role.h"

namespace weir::wire::http {

struct Exchange;

// What a parameter of a query is for, as /openapi.json tells it.
struct QueryParameter {
  std::string_view name;
  bool required = false;
  bool repeats = false;
  std::string_view summary;
};

struct Route {
  std::string_view method;
  std::string_view path;  // one segment may be a parameter, such as `{limit}`
  Role role;              // needed
  void (*handle)(Exchange&);
  std::string_view name;  // unique
  std::string_view summary;
  std::string_view body{};    // schema of the request in /openapi.json; empty: none is read
  std::string_view answer{};  // schema of the answer; empty: not JSON
  std::span<const QueryParameter> query{};

  // The names in `query`, at most four.
  std::span<const std::string_view> query_names() const noexcept {
    return {names.data(), query.size()};
  }

  std::array<std::string_view, 4> names{};
};

std::span<const Route> routes() noexcept;

// The name of the route's parameter, such as `limit`; empty: it has none.
std::string_view parameter_of(const Route& route) noexcept;

// Whether `path`, as it came, is one of the route's. `parameter` becomes what stands for
// the parameter, which is never empty, or nothing. A path is compared byte by byte: an
// escaped letter of a fixed part is another path.
bool matches(const Route& route, std::string_view path, std::string_view& parameter) noexcept;

// The handlers, by what they are about.
void acquire(Exchange& exchange);  // decide_calls.cc
void peek(Exchange& exchange);
void batch(Exchange& exchange);
void authorize(Exchange& exchange);
void settle(Exchange& exchange);  // hold_calls.cc
void cancel(Exchange& exchange);
void renew(Exchange& exchange);
void show_limits(Exchange& exchange);  // limit_calls.cc
void show_meters(Exchange& exchange);
void reset(Exchange& exchange);
void set_override(Exchange& exchange);
void clear_override(Exchange& exchange);
void grant_tasks(Exchange& exchange);  // sampling_calls.cc
void commit_tasks(Exchange& exchange);
void release_tasks(Exchange& exchange);
void show_sampling(Exchange& exchange);
void acquire_job(Exchange& exchange);  // pool_calls.cc
void release_job(Exchange& exchange);
void renew_job(Exchange& exchange);
void show_pools(Exchange& exchange);
void show_allocation(Exchange& exchange);
void submit_transaction(Exchange& exchange);  // throttle_calls.cc
void settle_claim(Exchange& exchange);
void cancel_claim(Exchange& exchange);
void show_throttles(Exchange& exchange);
void show_snapshot(Exchange& exchange);
void restore_snapshot(Exchange& exchange);
void set_definitions(Exchange& exchange);
void contract_reserve(Exchange& exchange);  // contract_calls.cc
void contract_commit(Exchange& exchange);
void contract_release(Exchange& exchange);
void contract_consume(Exchange& exchange);
void contract_feedback(Exchange& exchange);
void show_account(Exchange& exchange);
void work_out_processing_units(Exchange& exchange);
void show_contracts(Exchange& exchange);
void show_token_counts(Exchange& exchange);
void set_contract(Exchange& exchange);  // contract_sync_calls.cc
void set_token_counts(Exchange& exchange);
void lock_tokens(Exchange& exchange);  // compute_calls.cc
void add_tokens(Exchange& exchange);
void unlock_tokens(Exchange& exchange);
void extend_lock(Exchange& exchange);
void register_portals(Exchange& exchange);
void unregister_portals(Exchange& exchange);
void split_units(Exchange& exchange);
void join_worker(Exchange& exchange);
void leave_worker(Exchange& exchange);
void set_parameter(Exchange& exchange);
void push_block(Exchange& exchange);
void show_wallet(Exchange& exchange);
void show_clusters(Exchange& exchange);
void show_workers(Exchange& exchange);
void show_epoch(Exchange& exchange);
void show_allocations(Exchange& exchange);
void show_history(Exchange& exchange);
void admit_query(Exchange& exchange);
void complete_query(Exchange& exchange);
void cancel_query(Exchange& exchange);
void show_query(Exchange& exchange);
void show_worker(Exchange& exchange);
void reload(Exchange& exchange);  // server_calls.cc
void show_metrics(Exchange& exchange);
void show_health(Exchange& exchange);
void show_readiness(Exchange& exchange);
void stream_events(Exchange& exchange);
void show_openapi(Exchange& exchange);

}  // namespace weir::wire::http
