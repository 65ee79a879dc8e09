#include "weir/system/pool/allocation_message.h"

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace weir::system::pool {
namespace {

namespace json = boost::json;

constexpr std::array<std::pair<Dimension, const char*>, kRateCount> kNames{
    {{Dimension::kTokensPerMinute, "tokensPerMinute"},
     {Dimension::kRequestsPerMinute, "requestsPerMinute"},
     {Dimension::kTokensPerDay, "tokensPerDay"},
     {Dimension::kRequestsPerDay, "requestsPerDay"}}};

json::object object_of(const Allocation& allocation) {
  json::object pools;
  json::object limits;
  for (const auto& [name, pool] : allocation.pools) {
    json::object shares{{"totalSlots", pool.total_slots}};
    json::object limited;
    for (const auto& [rate, published] : kNames) {
      shares[published] = pool.left.of(rate).value_or(0);
      if (pool.left.of(rate)) limited[published] = *pool.left.of(rate);
    }
    pools[name] = std::move(shares);
    limits[name] = std::move(limited);
  }
  return {{"instanceCount", allocation.instance_count},
          {"pools", std::move(pools)},
          {"dynamicLimits", std::move(limits)}};
}

}  // namespace

std::string allocation_json(const Allocation& allocation) {
  return json::serialize(object_of(allocation));
}

std::string allocation_message(std::string_view instance, const Allocation& allocation) {
  return json::serialize(
      json::object{{"instanceId", instance}, {"allocation", object_of(allocation)}});
}

}  // namespace weir::system::pool
