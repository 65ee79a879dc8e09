// Config: weir.yaml, read into plain values.
//
// parse() and load() report every mistake of a file in one error, a line each,
// sorted by place:
//
//   weir.yaml:14:17: limit 'uploads': rate period is '0s', but it must be longer than 0; write ...
//
// No value is guessed: unknown and repeated keys are mistakes, numbers are exact
// decimals, and what is left out has the default shown here. The format is
// described in docs/reference/config.md.
//
// Thread safety: the functions are pure, except that load() reads files and the environment.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/role.h"
#include "weir/base/time.h"
#include "weir/engine/options.h"
#include "weir/engine/reach.h"
#include "weir/engine/rule_set.h"
#include "weir/engine/rules.h"
#include "weir/store/redis/link/address.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/system/compute/feed.h"
#include "weir/system/compute/ledger_service.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/follower.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/system/pool/outage.h"
#include "weir/system/pool/settings.h"
#include "weir/system/sampling/rules.h"
#include "weir/system/throttle/throttles.h"

namespace weir::config {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;
constexpr std::size_t kVariablesMax = 4096;                      // named in a file
constexpr std::size_t kVariableBytesMax = std::size_t{1} << 20;  // of all variables of a file
constexpr std::size_t kNestingMax = 16;                          // lists and maps inside each other
constexpr std::size_t kMistakesMax = 1000;    // reported for one file; the rest are counted
constexpr std::size_t kListenersMax = 16;     // of one protocol
constexpr std::size_t kAuthTokensMax = 1024;  // of one file
constexpr std::size_t kTokenBytesMax = 512;
constexpr std::size_t kTokenBytesAdvised = 16;  // a shorter one is a warning
constexpr std::size_t kUnixPathBytesMax = 107;  // what sockaddr_un holds, with its final zero
constexpr std::size_t kVisitorsMax = 64;        // origins, and hosts
constexpr std::size_t kHostNameBytesMax = 253;  // what a name may have
constexpr unsigned kUnixMode = 0600;            // of a unix socket: whom the server runs as
constexpr std::size_t kGroupBytesMax = 256;
constexpr unsigned kThreadsMax = 256;
constexpr std::size_t kAccountsMax = 1024;                 // of one file
constexpr std::int64_t kQueueMax = std::int64_t{1} << 31;  // requests that wait at one limit

// Where a listener binds. Numeric, so that nothing is looked up: what a file
// means does not depend on a name server.
struct Address {
  enum class Kind : std::uint8_t { kTcp4, kTcp6, kUnix };

  Kind kind = Kind::kTcp4;
  std::string host{};         // numeric; without the brackets of IPv6
  std::uint16_t port = 0;     // 0: any free one
  std::string path{};         // of a unix socket
  unsigned mode = kUnixMode;  // of that: who may connect, as permissions to write
  std::string group{};        // that it belongs to, a name or a number; empty: that of the process

  // Reachable from this machine only: 127.0.0.0/8, ::1, or a unix socket.
  bool is_local() const noexcept;
  std::string text() const;  // as it is written in the file

  friend bool operator==(const Address&, const Address&) = default;
};

// Reads `127.0.0.1:6380`, `[::1]:6380`, `localhost:6380` (127.0.0.1) or
// `unix:/path`. The error says what the text is and what it must be, for putting
// a name in front: `is '80', but it must be ...`.
Result<Address> parse_address(std::string_view text);

struct StateSettings {
  std::string dir{};
  Duration flush = std::chrono::milliseconds{200};

  friend bool operator==(const StateSettings&, const StateSettings&) = default;
};

struct AuthToken {
  std::string token;
  Role role = Role::kDecide;
  std::string name{};      // shown instead of the token
  bool consensus = false;  // speaks for consensus to the throttles
  engine::Reach reach{};   // what it may name
};

// `http:`. Whose requests are answered besides those of programs and of pages of the server itself.
struct Visitors {
  std::vector<std::string> origins{};  // of pages, such as `https://dash.example`; in lower case
  std::vector<std::string> hosts{};    // names of the server, without a port; in lower case
};

// How HTTP answers carry what is left of a limit.
enum class HeaderStyle : std::uint8_t {
  kIetf,             // RateLimit and RateLimit-Policy
  kXRateLimit,       // X-RateLimit-*, reset as seconds from now
  kXRateLimitEpoch,  // X-RateLimit-*, reset as Unix time
  kNone,
};

// How CL.THROTTLE rounds nanoseconds to seconds.
enum class Rounding : std::uint8_t { kCell, kDragonfly };

struct Bounds {
  std::size_t connections = 10'000;
  std::size_t request_bytes = 65'536;
  std::size_t header_bytes = 8'192;
  std::size_t reply_bytes = std::size_t{1} << 20;        // that the client has not read
  std::size_t reply_bytes_all = std::size_t{256} << 20;  // the same of all clients
  std::size_t batch = 1'000;                             // decisions in one request
  std::size_t waiting = 10'000;                          // requests that wait, over all limits
  std::size_t streams = 100;                             // of events
  Duration idle = std::chrono::minutes{5};
  // For a request to arrive whole, or for a client to read a part of its replies.
  Duration slow = std::chrono::seconds{10};
  std::size_t keys = 10'000'000;
  std::size_t cl_throttle_keys = 0;  // of them; 0: a fair share
  std::size_t holds = 1'000'000;
  std::size_t log_runs = 16'000'000;
  std::size_t overrides = 65'536;
  Duration hold = std::chrono::hours{24};    // of one hold, and of what renews it
  Duration wait = std::chrono::minutes{10};  // of one request
  Duration book = std::chrono::hours{24};    // how far ahead one may start
  engine::WhenFull when_full = engine::WhenFull::kRefuse;

  friend bool operator==(const Bounds&, const Bounds&) = default;
};

// `throttles:`. It makes the limit `throttles`, whose gate has the same name.
struct ThrottleSettings {
  std::string file{};  // of the definitions
  system::throttle::ThrottlesSpec spec{};
};
constexpr std::string_view kThrottlesLimit = "throttles";

// An account of `contracts:`.
struct ContractSettings {
  std::string name{};
  std::string user_id{};                             // in published documents
  std::string file{};                                // of such a document; empty: none
  std::vector<system::contract::Contract> given{};   // of the file
  std::vector<system::contract::Policy> policies{};  // of the file and of the list
  system::contract::AccountOptions options{};
  std::optional<system::contract::FollowerOptions> sync{};  // none: it follows no service
};
// The gate of an account, as limits name it.
std::string contract_gate(std::string_view account);

// `compute:`. A worker makes the limit `compute`, whose gate has the same name.
struct ComputeWorkerSettings {
  std::string name = "worker-1";
  std::string ledger{};  // address of the weir that has the ledger; empty: this one, or a file
  std::string token{};
  std::string file{};  // of allocations
  system::compute::WorkerSettings admission{};
  system::compute::FeedSettings feed{};

  friend bool operator==(const ComputeWorkerSettings&, const ComputeWorkerSettings&) = default;
};
struct ComputeSettings {
  std::optional<system::compute::LedgerSettings> ledger{};
  std::optional<ComputeWorkerSettings> worker{};

  friend bool operator==(const ComputeSettings&, const ComputeSettings&) = default;
};
constexpr std::string_view kComputeLimit = "compute";

// `sampling:`. It makes the limit `sampling`, whose gate has the same name.
struct SamplingSettings {
  system::sampling::RulesSpec spec{};
  std::optional<system::sampling::Rules> rules{};  // made of the spec; none while it has mistakes
};
constexpr std::string_view kSamplingLimit = "sampling";

// `redis:`, where shared limits are kept.
struct RedisSettings {
  std::string url{};  // as written; may hold a password
  store::redis::Address address{};
  std::string name = "weir";  // of the keys
  Duration timeout = std::chrono::milliseconds{20};
  unsigned connections = 0;  // 0: one for each thread

  friend bool operator==(const RedisSettings&, const RedisSettings&) = default;
};

// `pools:`.
struct PoolRedisSettings {
  store::redis::Address address{};
  std::string prefix = "weir";
  std::string instance{};  // empty: one is made up
  Duration timeout = std::chrono::milliseconds{500};
  Duration heartbeat = std::chrono::seconds{1};
  Duration instance_timeout = std::chrono::seconds{15};
  store::redis::Announce announce = store::redis::Announce::kBrief;
  system::pool::OutagePolicy outage = system::pool::OutagePolicy::kDeny;

  friend bool operator==(const PoolRedisSettings&, const PoolRedisSettings&) = default;
};
store::redis::PoolCoordinatorOptions pool_coordinator_options(const PoolRedisSettings& settings);
struct PoolSettings;
// Whether pools that run as one can go on as the other: only limits, prices, estimates, waits,
// ratios, bounds, holds and the version differ.
bool can_change(const PoolSettings& running, const PoolSettings& next);
struct PoolSettings {
  system::pool::PoolsSettings settings{};
  system::pool::HoldSettings hold{};
  std::optional<PoolRedisSettings> redis{};  // none: this process alone

  friend bool operator==(const PoolSettings& a, const PoolSettings& b);
};

struct Config {
  std::string path{};                // the name the file was read under
  std::vector<std::string> files{};  // others that were read for it
  std::vector<Address> resp{};       // none: RESP is not served
  std::vector<Address> http{};
  std::optional<StateSettings> state{};  // none: memory only
  std::vector<AuthToken> auth{};         // not empty if any listener can be reached from outside
  Visitors visitors{};
  HeaderStyle headers = HeaderStyle::kIetf;
  Rounding rounding = Rounding::kCell;
  Bounds bounds{};
  unsigned threads = 0;  // event loops; 0: one per core
  std::string record{};  // file of decisions; empty: none
  std::optional<ThrottleSettings> throttles{};
  std::vector<ContractSettings> contracts{};
  std::optional<ComputeSettings> compute{};
  std::optional<SamplingSettings> sampling{};
  std::optional<RedisSettings> redis{};  // not none if any limit is shared
  std::optional<PoolSettings> pools{};
  engine::RuleSetSpec limits_spec{};
  std::vector<std::string> warnings{};  // what is allowed but not wise, as lines like mistakes
  engine::UnboundRules rules{};  // limits_spec, compiled; the systems have the gates it names
};

// Paths inside stay as written, so relative ones are relative to the working
// directory of the process that opens them.
Result<Config> load(const std::string& path);

// How a file that the configuration names is read. An error is for putting the name of a
// part in front.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// What the environment has under a name; nothing: it is not set.
using ReadVariable = std::function<std::optional<std::string>(const std::string& name)>;

// `name` stands for the file in messages. Without `read_file`, a configuration that needs
// another file is a mistake; without `read_variable`, one that names a variable.
Result<Config> parse(std::string_view text, std::string_view name, const ReadFile& read_file = {},
                     const ReadVariable& read_variable = {});

// Whether there is a limit besides those that sections make.
bool has_limits(const Config& config);

// The keys whose change takes a restart, of those that differ.
std::vector<std::string_view> needs_restart(const Config& running, const Config& next);

// Makes of `next` what a server that runs as `running` can change to: what takes a restart stays as
// it is, but for compute, which has a limit among the rules. A file that begins to use Redis is
// refused, because its limits would have no store.
Status keep_until_restart(const Config& running, Config& next);

// The file as a server that runs as `running` can change to it: what takes a restart stays as it
// is, compute and its limit included.
struct NextConfig {
  Config config{};
  std::vector<std::string_view> restarts{};  // needs_restart(), as the file was written
};
Result<NextConfig> load_next(const std::string& path, const Config& running);

// What was understood, for people: a line for each limit, then listeners, state
// and the roles of tokens, never the tokens.
std::string describe(const Config& config);

// What the process that asks could not write of what the configuration names, a line each with what
// to do: the folder of the state, the recording. Looks, and creates nothing.
std::vector<std::string> unwritable(const Config& config);

// The known keys, in the order of the reference page.
struct KeyHelp {
  std::string_view map;   // `top level`, `listen`, `limits: bucket`
  std::string_view name;  // the key
  std::string_view form;  // what is written there
  std::string_view help;  // one line
  bool is_required = false;
};
std::vector<KeyHelp> known_keys();

}  // namespace weir::config
