#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "weir/config/draft.h"

namespace weir::config {
namespace {

// --- listen

struct Listeners {
  std::vector<Address> addresses{};
  std::vector<Place> places{};
};

struct Listen {
  Listeners resp{};
  Listeners http{};
};

// `{ unix: PATH, mode: 0660, group: NAME }`
struct UnixListener {
  std::string path{};
  std::optional<unsigned> mode{};
  std::string group{};
};

void read_unix_path(const Entry& entry, Context& context, UnixListener& listener) {
  read_text(entry, context, listener.path);
  if (listener.path.size() > kUnixPathBytesMax) {
    context.mistake(entry.value.place,
                    fmt::format("unix has {} bytes, but it must have 1 to {}; write a shorter path",
                                listener.path.size(), kUnixPathBytesMax));
  }
}

// Octal, as chmod takes it: three digits, which may have a zero in front.
void read_mode(const Entry& entry, Context& context, UnixListener& listener) {
  if (!check_text(entry.value, entry.key, context)) return;
  std::string_view digits = entry.value.text;
  if (digits.size() == 4 && digits[0] == '0') digits.remove_prefix(1);
  unsigned mode = 0;
  bool is_octal = digits.size() == 3;
  for (const char c : digits) {
    is_octal = is_octal && c >= '0' && c <= '7';
    mode = mode * 8 + static_cast<unsigned>(c - '0');
  }
  if (!is_octal) {
    context.mistake(entry.value.place,
                    fmt::format("mode is {}, but it must be three octal digits, with a zero in "
                                "front; write '0600' or '0660'",
                                in_quotes(entry.value.text)));
    return;
  }
  listener.mode = mode;
}

void read_group(const Entry& entry, Context& context, UnixListener& listener) {
  read_text(entry, context, listener.group);
  if (listener.group.size() > kGroupBytesMax) {
    context.mistake(entry.value.place,
                    fmt::format("group has {} bytes, but it must have 1 to {}; write a shorter one",
                                listener.group.size(), kGroupBytesMax));
  }
}

constexpr Key<UnixListener> kUnixKeys[] = {
    {"unix", read_unix_path, "/run/weir.sock", "Path of a unix socket, instead of an address.",
     kRequired},
    {"mode", read_mode, "0660",
     "Who may connect, as permissions of the file: those who may write. Default `0600`, whom the "
     "server runs as."},
    {"group", read_group, "weir",
     "Group of the file, a name or a number; the mode then lets it in. Left out: that of the "
     "server."},
};

void read_unix_listener(const TreeNode& node, Context& context, Listeners& out) {
  const std::size_t before = context.mistakes.count();
  UnixListener listener;
  read_map<UnixListener>(node, kUnixKeys, context, listener);
  const unsigned mode = listener.mode.value_or(kUnixMode);
  if (!listener.group.empty() && (mode & 0020) == 0 && context.mistakes.count() == before) {
    context.mistake(node.find("group")->place,
                    fmt::format("group is {}, but mode {:04o} does not let a group in; write "
                                "'mode: 0660', or leave the group out",
                                in_quotes(listener.group), mode));
  }
  if (context.mistakes.count() != before) return;
  out.addresses.push_back({.kind = Address::Kind::kUnix,
                           .path = std::move(listener.path),
                           .mode = mode,
                           .group = std::move(listener.group)});
  out.places.push_back(node.place);
}

void read_listener(const TreeNode& node, std::string_view key, Context& context, Listeners& out) {
  if (node.kind == TreeNode::Kind::kMap) return read_unix_listener(node, context, out);
  if (!check_text(node, key, context)) return;
  Result<Address> address = parse_address(node.text);
  if (!address) {
    context.mistake(node.place, fmt::format("{} {}", key, address.error().message));
    return;
  }
  out.addresses.push_back(std::move(*address));
  out.places.push_back(node.place);
}

template <auto Member>
void listeners_at(const Entry& entry, Context& context, Listen& listen) {
  Listeners& out = listen.*Member;
  const TreeNode& value = entry.value;
  if (value.kind != TreeNode::Kind::kList) {
    if (value.text != "none") read_listener(value, entry.key, context, out);
    return;
  }
  if (value.items.empty() || value.items.size() > kListenersMax) {
    context.mistake(value.place,
                    fmt::format("{} has {} addresses, but it must have 1 to {}; write some, or "
                                "'none'",
                                entry.key, value.items.size(), kListenersMax));
    return;
  }
  for (const TreeNode& item : value.items) read_listener(item, entry.key, context, out);
}

constexpr Key<Listen> kListenKeys[] = {
    {"resp", listeners_at<&Listen::resp>, "127.0.0.1:6380",
     "Redis protocol: an address, a list of them, or `none` (also when left out). One may be a "
     "map, "
     "`{ unix: PATH }`."},
    {"http", listeners_at<&Listen::http>, "127.0.0.1:8080", "HTTP: the same."},
};

void read_listen(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ resp: 127.0.0.1:6380 }", context)) return;
  Context inner{context.mistakes, "listen"};
  Listen listen;
  read_map<Listen>(entry.value, kListenKeys, inner, listen);
  draft.config.resp = std::move(listen.resp.addresses);
  draft.config.http = std::move(listen.http.addresses);
  draft.resp_places = std::move(listen.resp.places);
  draft.http_places = std::move(listen.http.places);
}

// --- state

constexpr Key<StateSettings> kStateKeys[] = {
    {"dir", text_at<&StateSettings::dir>, "./weir-state",
     "Folder of the state; relative to the working directory.", kRequired},
    {"flush", duration_at<&StateSettings::flush>, "200ms",
     "How often meters are written; a process that is killed forgets at most this and the time "
     "that "
     "writing takes, a power cut more ([state](../design/state.md)). Default `200ms`."},
};

void read_state(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ dir: ./weir-state }", context)) return;
  Context inner{context.mistakes, "state"};
  read_map<StateSettings>(entry.value, kStateKeys, inner, draft.config.state.emplace());
}

// --- auth

constexpr std::string_view kRoles[] = {"observe", "decide", "admin"};

struct AuthDraft {
  const ReadFile& read_file;
  AuthToken& auth;
  Place& only_place;
  const Entry* token = nullptr;  // the key that it stands under
};

void read_token(const Entry& entry, Context& context, AuthDraft& draft) {
  draft.token = &entry;
  std::string& token = draft.auth.token;
  read_text(entry, context, token);
  if (token.size() > kTokenBytesMax) {
    context.mistake(entry.value.place,
                    fmt::format("token has {} bytes, but it must have 1 to {}; write a shorter one",
                                token.size(), kTokenBytesMax));
  }
}

void read_token_file(const Entry& entry, Context& context, AuthDraft& draft) {
  if (draft.token != nullptr) {
    context.mistake(entry.place, "token_file stands beside 'token'; write one of them");
    return;
  }
  draft.token = &entry;
  read_secret_file(entry, context, draft.read_file, kTokenBytesMax, draft.auth.token);
}

void read_role(const Entry& entry, Context& context, AuthDraft& draft) {
  choice_at<&AuthToken::role, kRoles>(entry, context, draft.auth);
}

void read_token_name(const Entry& entry, Context& context, AuthDraft& draft) {
  read_text(entry, context, draft.auth.name);
}

void read_consensus(const Entry& entry, Context& context, AuthDraft& draft) {
  read_flag(entry, context, draft.auth.consensus);
}

void read_only(const Entry& entry, Context& context, AuthDraft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ client: [acme-*] }", context)) return;
  if (entry.value.entries.empty()) {
    context.mistake(entry.value.place,
                    "only is an empty map, but it must name an attribute; write '{ client: "
                    "[acme-*] }', or leave it out");
  }
  draft.only_place = entry.place;
  draft.auth.reach.only = read_conditions(entry.value, context);
}

template <const std::string_view& kIdentity>
void read_identities(const Entry& entry, Context& context, AuthDraft& draft) {
  engine::Condition& bound = draft.auth.reach.identities.emplace_back();
  bound.attribute = kIdentity;
  read_texts(entry, context, bound.patterns);
}

constexpr Key<AuthDraft> kAuthKeys[] = {
    {"token", read_token, "secret",
     "What a client presents, at most 512 bytes; `\"${NAME}\"` takes it from the environment. This "
     "or `token_file` is needed."},
    {"token_file", read_token_file, "./token",
     "A file whose first line is the token; relative to the working directory."},
    {"role", read_role, "decide",
     "`observe`, `decide` or `admin`; each may do what the ones before it may.", kRequired},
    {"name", read_token_name, "billing", "Shown instead of the token."},
    {"consensus", read_consensus, "true",
     "Whether it may also decide for consensus ([throttle.md](throttle.md#over-http)), as `admin` "
     "may. Default `false`."},
    {"only", read_only, "{ client: [acme-*] }",
     "Binds the token: a request must name these attributes, and each value must match a pattern "
     "(`*`, `?`). Not for `admin`."},
    {"portals", read_identities<engine::kPortalIdentity>, "[p-7]",
     "Binds it to the portals of [compute](compute.md) that match."},
    {"hotkeys", read_identities<engine::kHotkeyIdentity>, "[5F…]",
     "Binds it to the hotkeys of [sampling](sampling.md) that match."},
    {"uids", read_identities<engine::kUidIdentity>, "['7']",
     "Binds it to the uids of these hotkeys; needed beside `hotkeys`, as some uids are exempt."},
    {"accounts", read_identities<engine::kAccountIdentity>, "[team-a]",
     "Binds it to the [contract](contract.md) accounts that match, by name."},
    {"job_types", read_identities<engine::kJobTypeIdentity>, "[chat]",
     "Binds it to the job types of [pools](pool.md) that match."},
    {"payers", read_identities<engine::kPayerIdentity>, "['1001']",
     "Binds it to transactions of [throttles](throttle.md) whose payer matches."},
    {"keys", read_identities<engine::kThrottleKeyIdentity>, "['acme:*']",
     "Binds it to the keys of `CL.THROTTLE` that match."},
};

void check_role(Place place, Context& context, const AuthToken& auth) {
  if (auth.role != Role::kAdmin || !auth.reach.is_bound()) return;
  context.mistake(place,
                  "it is bound, but its role is 'admin', which changes what is everybody's; write "
                  "'role: decide', or leave out the bounds");
}

void check_token(Place place, Context& context, const AuthDraft& draft,
                 std::set<std::string>& seen) {
  const std::string& token = draft.auth.token;
  if (draft.token == nullptr) {
    context.mistake(place,
                    "token is missing, but it is needed; write 'token: secret', or 'token_file: "
                    "./token'");
  }
  if (token.empty()) return;  // reported
  if (!seen.insert(token).second) {
    context.mistake(place, "its token is used before; write another token");
  }
  if (token.size() < kTokenBytesAdvised) {
    context.mistakes.warn(
        draft.token->value.place, context.where,
        fmt::format("{} has {} bytes, which can be guessed; write at least {}, such as what "
                    "`openssl rand -hex 16` prints",
                    draft.token->key, token.size(), kTokenBytesAdvised));
  }
}

void read_auth(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kList, "[ { token: secret, role: decide } ]", context))
    return;
  const std::vector<TreeNode>& items = entry.value.items;
  if (items.empty() || items.size() > kAuthTokensMax) {
    context.mistake(entry.value.place,
                    fmt::format("auth has {} tokens, but it must have 1 to {}; write some, or "
                                "leave out the key",
                                items.size(), kAuthTokensMax));
    return;
  }
  std::set<std::string> seen;
  for (const TreeNode& item : items) {
    Context inner{context.mistakes, fmt::format("auth {}", draft.config.auth.size() + 1)};
    AuthToken& auth = draft.config.auth.emplace_back();
    draft.only_places.resize(draft.config.auth.size() - 1);
    if (item.kind != TreeNode::Kind::kMap) {
      inner.mistake(item.place, "it must be a map; write '{ token: secret, role: decide }'");
      continue;
    }
    AuthDraft read{draft.read_file, auth, draft.only_places.emplace_back()};
    read_map<AuthDraft>(item, kAuthKeys, inner, read);
    check_role(item.place, inner, auth);
    check_token(item.place, inner, read, seen);
  }
}

// --- bounds

constexpr std::int64_t kMany = 1'000'000'000;
constexpr std::string_view kWhenFull[] = {"refuse", "evict"};

constexpr Key<Bounds> kBoundsKeys[] = {
    {"connections", count_at<&Bounds::connections, 1, 1'000'000>, "10000", "Open connections."},
    {"request_bytes", count_at<&Bounds::request_bytes, 1'024, 1 << 30>, "65536",
     "One request, without the headers of HTTP, which reads at most 1 MiB."},
    {"header_bytes", count_at<&Bounds::header_bytes, 1'024, 1 << 20>, "8192",
     "The headers of one HTTP request."},
    {"reply_bytes", count_at<&Bounds::reply_bytes, 16'384, 1 << 30>, "1048576",
     "Replies that a client has not read; beyond it, its requests wait."},
    {"reply_bytes_all",
     count_at<&Bounds::reply_bytes_all, std::int64_t{1} << 20, std::int64_t{1} << 40>, "268435456",
     "The same of all clients together; the one whose replies would pass it is closed."},
    {"batch", count_at<&Bounds::batch, 1, 1'000'000>, "1000", "Decisions in one request."},
    {"waiting", count_at<&Bounds::waiting, 0, 10'000'000>, "10000",
     "Requests that wait, over all limits."},
    {"streams", count_at<&Bounds::streams, 0, 1'000'000>, "100", "Open streams of `/v1/events`."},
    {"idle", duration_at<&Bounds::idle>, "5m", "A connection silent for this long is closed."},
    {"slow", duration_at<&Bounds::slow>, "10s",
     "A request must arrive whole within this time, and a client that has unread replies must take "
     "64 KiB of them, or all."},
    {"keys", count_at<&Bounds::keys, 1, kMany>, "10000000",
     "Keys with a meter, of all limits, about: they are spread over 256 to 4096 parts, and in each "
     "a limit may hold an eighth and 8 keys more than its share."},
    {"cl_throttle_keys", count_at<&Bounds::cl_throttle_keys, 0, kMany>, "0",
     "Of them, keys of `CL.THROTTLE`. `0`: a fair share, an eighth at most beside limits."},
    {"holds", count_at<&Bounds::holds, 1, kMany>, "1000000", "Holds that have not ended."},
    {"log_runs", count_at<&Bounds::log_runs, 1, kMany>, "16000000",
     "Entries of logs, 16 bytes each."},
    {"overrides", count_at<&Bounds::overrides, 0, 10'000'000>, "65536",
     "Keys with parameters of their own."},
    {"hold", duration_at<&Bounds::hold>, "1d",
     "How long a hold may last that is not renewed; also the most that `hold` of slots says."},
    {"wait", zero_or_span_at<&Bounds::wait>, "10m",
     "How long a request may wait; `0s`: not at all."},
    {"book", zero_or_span_at<&Bounds::book>, "1d",
     "How far ahead a request may book its start; `0s`: not at all."},
    {"when_full", choice_at<&Bounds::when_full, kWhenFull>, "refuse",
     "A key beyond the share of its limit: `refuse` it, or `evict` the limit's meter nearest to "
     "its start."},
};

void read_bounds(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ connections: 10000 }", context)) return;
  Context inner{context.mistakes, "bounds"};
  Bounds& bounds = draft.config.bounds;
  read_map<Bounds>(entry.value, kBoundsKeys, inner, bounds);
  if (bounds.cl_throttle_keys > bounds.keys) {
    inner.mistake(entry.value.find("cl_throttle_keys")->value.place,
                  fmt::format("cl_throttle_keys is {}, but all keys together are {}; write less, "
                              "or raise 'keys'",
                              bounds.cl_throttle_keys, bounds.keys));
    bounds.cl_throttle_keys = 0;
  }
}

// --- the top level

void read_units(const Entry& entry, Context& context, Draft& draft) {
  draft.units_place = entry.place;
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ tokens: whole }", context)) return;
  Context inner{context.mistakes, "units"};
  check_names(entry.value, inner);
  for (const Entry& unit : entry.value.entries) {
    if (unit.is_repeated) continue;
    engine::UnitSpec& spec = draft.config.limits_spec.units.emplace_back();
    spec.name = unit.key;
    choice_at<&engine::UnitSpec::scale, kScales>(unit, inner, spec);
  }
}

void read_attributes(const Entry& entry, Context& context, Draft& draft) {
  draft.attributes_place = entry.place;
  read_texts(entry, context, draft.config.limits_spec.attributes);
}

void read_unmatched(const Entry& entry, Context& context, Draft& draft) {
  choice_at<&engine::RuleSetSpec::unmatched, kUnmatched>(entry, context, draft.config.limits_spec);
}

// The member of the configuration that a row of the top level fills.
template <auto Read>
void in_config(const Entry& entry, Context& context, Draft& draft) {
  Read(entry, context, draft.config);
}

constexpr Key<Draft> kTopKeys[] = {
    {"listen", read_listen, "map",
     "Where to listen. Left out: `resp: 127.0.0.1:6380`, `http: 127.0.0.1:8080`."},
    {"state", read_state, "map", "Where state outlives the process. Left out: memory only."},
    {"units", read_units, "{ tokens: whole }",
     "Units besides `requests`, each `whole` or `micro` (six decimal places)."},
    {"auth", read_auth, "list",
     "Who may ask. Needed when a listener is neither loopback nor a unix socket."},
    {"http", read_visitors, "map",
     "Pages of browsers that may ask, and names that the server is asked by. Left out: pages of "
     "the server itself, loopback names and literal addresses."},
    {"headers", in_config<choice_at<&Config::headers, kHeaderStyles, Config>>, "ietf",
     "Style of HTTP headers: `ietf`, `x-ratelimit`, `x-ratelimit-epoch` or `none`. Default "
     "`ietf`."},
    {"rounding", in_config<choice_at<&Config::rounding, kRoundings, Config>>, "cell",
     "How `CL.THROTTLE` rounds seconds: as redis-`cell` or as `dragonfly`. Default `cell`."},
    {"bounds", read_bounds, "map",
     "Bounds of the server and the engine; the values below are the defaults."},
    {"threads", in_config<count_at<&Config::threads, 1, kThreadsMax, Config>>, "2",
     "Event loops, 1 to 256. Default: one per core."},
    {"record", in_config<text_at<&Config::record, Config>>, "./decisions.rec",
     "File that decisions are written to. Left out: none."},
    {"attributes", read_attributes, "[region]",
     "Attributes that requests may carry though no limit reads them."},
    {"unmatched", read_unmatched, "error",
     "What a request is answered that has none of what a limit reads: `allow`, `deny`, or `error`. "
     "Default `allow`."},
    {"throttles", read_throttles, "map",
     "Buckets shared by groups of operations, as the limit `throttles`. Left out: none."},
    {"contracts", read_contracts, "list",
     "Accounts with policies, for limits of the kind `contract` and the routes of their own. Left "
     "out: none."},
    {"compute", read_compute, "map",
     "Locked tokens as units, units as rates; its worker is the limit `compute`. With neither "
     "`ledger` nor `worker` it is both. Left out: none."},
    {"sampling", read_sampling, "map",
     "Allowances of tasks for each miner and environment, as the limit `sampling`. Left out: "
     "none."},
    {"redis", read_redis, "map",
     "Where limits with `store: redis` are kept, one for all servers. Left out: none."},
    {"pools", read_pools, "map",
     "Models whose limits are shared by job types, and by instances over one Redis. Left out: "
     "none."},
    {"limits", read_limits, "list", "The limits, at most 1024."},
};

void check_listeners(const std::vector<Address>& addresses, const std::vector<Place>& places,
                     std::string_view key, bool has_auth, std::set<std::string>& seen,
                     Mistakes& mistakes) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string text = addresses[i].text();
    const bool is_fixed = addresses[i].kind == Address::Kind::kUnix || addresses[i].port != 0;
    if (is_fixed && !seen.insert(text).second) {
      mistakes.add(places[i], "listen",
                   fmt::format("{} is '{}', which is already listened on; write another address",
                               key, text));
    }
    if (!has_auth && !addresses[i].is_local()) {
      mistakes.add(places[i], "listen",
                   fmt::format("{} is '{}', which others can reach, but there is no 'auth'; write "
                               "tokens under 'auth', or a loopback address such as '127.0.0.1:{}'",
                               key, text, addresses[i].port));
    }
  }
}

}  // namespace

void declare_unit(std::string_view name, engine::UnitScale scale, Place place, Context& context,
                  engine::RuleSetSpec& spec) {
  const auto same = std::find_if(spec.units.begin(), spec.units.end(),
                                 [&](const engine::UnitSpec& unit) { return unit.name == name; });
  if (same == spec.units.end()) {
    spec.units.push_back({std::string(name), scale});
  } else if (same->scale != scale) {
    context.mistake(place, fmt::format("unit '{}' is '{}', but {} count it {}; write '{}: {}' "
                                       "under 'units', or leave it out there",
                                       name, kScales[static_cast<std::size_t>(same->scale)],
                                       context.where, kScales[static_cast<std::size_t>(scale)],
                                       name, kScales[static_cast<std::size_t>(scale)]));
  }
}

void read_settings(const TreeNode& root, Mistakes& mistakes, Draft& draft) {
  Context context{mistakes, "top level"};
  if (root.kind != TreeNode::Kind::kMap) {
    context.mistake(root.place, fmt::format("it is {}, but it must be a map; write 'limits:' and a "
                                            "list of limits",
                                            root.shown()));
    return;
  }
  draft.config.resp = {{.host = "127.0.0.1", .port = 6380}};
  draft.config.http = {{.host = "127.0.0.1", .port = 8080}};
  read_map<Draft>(root, kTopKeys, context, draft);
  const Config& config = draft.config;
  if (config.throttles) add_own_limit(kThrottlesLimit, draft.throttles_place, draft);
  if (config.compute && config.compute->worker) {
    add_own_limit(kComputeLimit, draft.compute_place, draft);
  }
  if (config.sampling) add_own_limit(kSamplingLimit, draft.sampling_place, draft);
  std::set<std::string> seen;
  // A mistake inside 'auth' is enough; its listeners are then not reported as well.
  const bool has_auth = root.find("auth") != nullptr;
  check_listeners(draft.config.resp, draft.resp_places, "resp", has_auth, seen, mistakes);
  check_listeners(draft.config.http, draft.http_places, "http", has_auth, seen, mistakes);
}

void check_bounds(Mistakes& mistakes, const Draft& draft) {
  if (mistakes.count() > 0) return;  // then the limits may not be known
  const engine::Names& known = draft.config.rules->attributes();
  for (std::size_t i = 0; i < draft.only_places.size(); ++i) {
    for (const engine::Condition& bound : draft.config.auth[i].reach.only) {
      if (known.find(bound.attribute) < known.size()) continue;
      mistakes.add(draft.only_places[i], fmt::format("auth {}", i + 1),
                   fmt::format("only names the attribute {}, which no limit reads; correct the "
                               "name, or add it to 'attributes'",
                               in_quotes(bound.attribute)));
    }
  }
}

void list_settings_keys(std::vector<KeyHelp>& out) {
  list_keys<Draft>("top level", kTopKeys, out);
  list_keys<Listen>("listen", kListenKeys, out);
  list_keys<UnixListener>("listen: unix", kUnixKeys, out);
  list_keys<StateSettings>("state", kStateKeys, out);
  list_keys<AuthDraft>("auth", kAuthKeys, out);
  list_visitor_keys(out);
  list_keys<Bounds>("bounds", kBoundsKeys, out);
}

}  // namespace weir::config
