// `redis:`, and what makes a limit shared.

#include <fmt/format.h>

#include "weir/config/draft.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/store/redis/shared/meter.h"

namespace weir::config {
namespace {

constexpr std::size_t kRedisNameBytesMax = 64;
constexpr std::size_t kPasswordBytesMax = 512;

struct RedisDraft {
  const ReadFile& read_file;
  RedisSettings& settings;
};

void read_url(const Entry& entry, Context& context, RedisDraft& draft) {
  RedisSettings& redis = draft.settings;
  read_text(entry, context, redis.url);
  if (redis.url.empty()) return;
  Result<store::redis::Address> address = store::redis::parse_address(redis.url);
  if (!address) {
    context.mistake(entry.value.place, fmt::format("url: {}", address.error().message));
    return;
  }
  redis.address = std::move(*address);
}

void read_password_file(const Entry& entry, Context& context, RedisDraft& draft) {
  store::redis::Address& address = draft.settings.address;
  if (!address.password.empty()) {
    context.mistake(entry.place,
                    "password_file stands beside a password in 'url'; write one of them");
    return;
  }
  read_secret_file(entry, context, draft.read_file, kPasswordBytesMax, address.password);
}

void read_keys_name(const Entry& entry, Context& context, RedisDraft& draft) {
  RedisSettings& redis = draft.settings;
  read_text(entry, context, redis.name);
  if (redis.name.size() > kRedisNameBytesMax) {
    context.mistake(entry.value.place,
                    fmt::format("name has {} bytes, but it must have 1 to {}; write a shorter one",
                                redis.name.size(), kRedisNameBytesMax));
  }
}

template <auto Read>
void in_redis(const Entry& entry, Context& context, RedisDraft& draft) {
  Read(entry, context, draft.settings);
}

constexpr Key<RedisDraft> kRedisKeys[] = {
    {"url", read_url, "redis://localhost:6379",
     "`redis://user:password@host:port/database`, or `unix:///path?db=0`. Redis 7.", kRequired},
    {"password_file", read_password_file, "./password",
     "A file whose first line is the password of the default user, instead of one in `url`."},
    {"name", read_keys_name, "weir",
     "Part of every key: servers with the same one share limits of the same name. At most 64 "
     "bytes. Default `weir`."},
    {"timeout", in_redis<duration_at<&RedisSettings::timeout, RedisSettings>>, "20ms",
     "How long a decision waits for Redis before the outage policy decides. Default `20ms`."},
    {"connections",
     in_redis<count_at<&RedisSettings::connections, 0, std::int64_t{store::redis::kConnectionsMax},
                       RedisSettings>>,
     "0",
     "Connections to Redis that all threads share, at most 64. `0`, the default: each thread has "
     "its own, which is faster, and one more keeps the server known to the others."},
};

void read_lease_most(const Entry& entry, Context& context, engine::LeaseSpec& lease) {
  const std::size_t before = context.mistakes.count();
  read_amount(entry, context, lease.most);
  if (context.mistakes.count() == before && lease.most == 0) {
    context.mistake(entry.value.place,
                    "most is '0', but it must be more than 0; write how much one server may hold "
                    "of one key");
  }
}

constexpr Key<engine::LeaseSpec> kLeaseKeys[] = {
    {"most", read_lease_most, "50",
     "The most that one server holds of one key. So much for each server, and for each lease that "
     "lapses, may pass beyond the limit. Default: a tenth of what the limit has."},
    {"length", duration_at<&engine::LeaseSpec::length>, "1s",
     "How long drawn units may be used; what was not used for so long goes back. `100ms` to `1h`. "
     "Default `1s`."},
};

constexpr std::string_view kStores[] = {"memory", "redis"};

// What is wrong with sharing this limit; empty: nothing.
std::string objection(const engine::Rule& rule) {
  if (const Status status = store::redis::check_shareable(rule.shape); !status) {
    return status.error().message;
  }
  if (engine::is_slots(rule.shape) && rule.shared->outage == engine::Outage::kLocal) {
    return "slots cannot be decided by one server alone, because it does not know whose work has "
           "ended; write 'outage: deny' or 'outage: allow'";
  }
  return {};
}

}  // namespace

void read_redis(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ url: redis://localhost:6379 }", context)) return;
  Context inner{context.mistakes, "redis"};
  RedisDraft redis{draft.read_file, draft.config.redis.emplace()};
  read_map<RedisDraft>(entry.value, kRedisKeys, inner, redis);
}

void read_store(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  const std::ptrdiff_t place = read_choice(entry, context, kStores);
  if (place == 1) limit.shared.emplace();
}

void read_outage(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  const std::ptrdiff_t place = read_choice(entry, context, kOutages);
  if (place < 0) return;
  if (!limit.shared) {
    context.mistake(entry.place,
                    "outage is given, but the limit is kept in memory, which is always there; "
                    "write 'store: redis' too, or leave it out");
    return;
  }
  limit.shared->outage = static_cast<engine::Outage>(place);
}

void read_lease(const Entry& entry, Context& context, engine::LimitSpec& limit) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ most: 50, length: 1s }", context)) return;
  if (!limit.shared) {
    context.mistake(entry.place,
                    "lease is given, but the limit is kept in memory, where nothing need be drawn "
                    "ahead; write 'store: redis' too, or leave it out");
    return;
  }
  read_map<engine::LeaseSpec>(entry.value, kLeaseKeys, context, limit.shared->lease.emplace());
}

void check_shared(Mistakes& mistakes, const Draft& draft) {
  const std::vector<engine::LimitSpec>& limits = draft.config.limits_spec.limits;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (!limits[i].shared || i >= draft.limit_places.size()) continue;
    const std::string where = fmt::format("limit '{}'", limits[i].name);
    if (!draft.config.redis) {
      mistakes.add(draft.limit_places[i].place, where,
                   "store is 'redis', but there is no 'redis' at the top level; write 'redis: { "
                   "url: redis://localhost:6379 }'");
    }
    const engine::Rule* const rule = draft.config.rules->find(limits[i].name);
    if (rule == nullptr || !rule->shared || !rule->gate_name.empty()) continue;
    if (const std::string what = objection(*rule); !what.empty()) {
      mistakes.add(draft.limit_places[i].place, where, what);
    }
  }
}

void list_redis_keys(std::vector<KeyHelp>& out) { list_keys<RedisDraft>("redis", kRedisKeys, out); }

void list_lease_keys(std::vector<KeyHelp>& out) {
  list_keys<engine::LeaseSpec>("limits: lease", kLeaseKeys, out);
}

}  // namespace weir::config
