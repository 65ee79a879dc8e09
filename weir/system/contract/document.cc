// The documents; with repeated_key.cc all of Boost.JSON that this folder uses.

#include "weir/system/contract/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/system/contract/fraction.h"
#include "weir/system/contract/repeated_key.h"

namespace weir::system::contract {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 16;
constexpr std::size_t kUserIdBytesMax = 256;
constexpr std::size_t kTokenBytesMax = 16'384;
constexpr std::size_t kAddressBytesMax = 2048;
constexpr std::size_t kNotificationBytesMax = 4096;

Error mistake(std::string_view name, std::string_view where, std::string_view what) {
  return bad_argument(fmt::format("{}: {} {}", name, where, what));
}

std::string_view kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a text";
    case json::kind::array:
      return "a list";
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

Error wrong_type(std::string_view where, const json::value& found, std::string_view expected) {
  return mistake(
      "wrong_type", where,
      fmt::format("is {}, but it must be {}; correct the document", kind_name(found), expected));
}

Result<json::value> parse(std::string_view text) {
  if (text.size() > kDocumentBytesMax) {
    return mistake("too_large", "the document",
                   fmt::format("has {} bytes, but it may have {}; ask for one user", text.size(),
                               kDocumentBytesMax));
  }
  json::error_code problem;
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::value value =
      json::parse(json::string_view(text.data(), text.size()), problem, {}, options);
  if (problem) {
    return mistake("not_json", "the document",
                   fmt::format("cannot be read ({}); write a JSON object", problem.message()));
  }
  if (const auto key = repeated_key(text, kDepthMax)) {
    return mistake("duplicate_key", "the document",
                   fmt::format("has {} twice in one object; leave one out", in_quotes(*key)));
  }
  return value;
}

// A member of an object, or an error that names both.
Result<const json::value*> member(const json::value& parent, std::string_view where,
                                  std::string_view name) {
  const json::object* object = parent.if_object();
  if (object == nullptr) return wrong_type(where, parent, "an object");
  const json::value* value = object->if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr) {
    return mistake("missing_field", where, fmt::format("has no '{}'; write one", name));
  }
  return value;
}

// A member that may be absent or null.
const json::value* optional_member(const json::value& parent, std::string_view name) {
  const json::object* object = parent.if_object();
  if (object == nullptr) return nullptr;
  const json::value* value = object->if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::int64_t> whole_number(const json::value& value, std::string_view where) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    // Some writers put `.0` behind every number. Below 2^53 a double is exact.
    const double number = value.get_double();
    if (number == std::floor(number) && std::abs(number) < 9e15) {
      return static_cast<std::int64_t>(number);
    }
  }
  return wrong_type(where, value, "a whole number below 2^63");
}

Result<std::string> text_of(const json::value& value, std::string_view where, std::size_t most) {
  const json::string* text = value.if_string();
  if (text == nullptr) return wrong_type(where, value, "a text");
  if (text->size() > most) {
    return mistake("too_large", where,
                   fmt::format("has {} bytes, but it may have {}; shorten it", text->size(), most));
  }
  return std::string(text->data(), text->size());
}

Result<Duration> read_period(std::string_view text, std::string_view where) {
  Result<Duration> period = parse_period(text);
  if (!period) return mistake("bad_period", where, period.error().message);
  if (period->count() < 0) {
    return mistake("bad_period", where,
                   fmt::format("is {}, but it must not be negative; write one such as 'PT1M'",
                               in_quotes(text)));
  }
  return period;
}

Result<Resource> read_type_name(std::string_view name, std::string_view where) {
  const std::optional<Resource> resource = resource_named(name);
  if (resource) return *resource;
  return mistake("unknown_type", where,
                 fmt::format("is {}, but it must be REQUESTS or PROCESSING_UNITS; leave the "
                             "contract out",
                             in_quotes(name)));
}

Result<Policy> read_policy(const json::value& value, Resource resource, const std::string& where) {
  const Result<const json::value*> capacity = member(value, where, "capacity");
  if (!capacity) return capacity.error();
  const Result<std::int64_t> units = whole_number(**capacity, where + ".capacity");
  if (!units) return units.error();
  const Result<const json::value*> sampling = member(value, where, "samplingPeriod");
  if (!sampling) return sampling.error();
  const Result<std::string> text = text_of(**sampling, where + ".samplingPeriod", kPeriodBytesMax);
  if (!text) return text.error();
  const Result<Duration> period = read_period(*text, where + ".samplingPeriod");
  if (!period) return period.error();
  std::optional<std::int64_t> refill_ns;
  if (const json::value* given = optional_member(value, "nanosBetweenRefills")) {
    const Result<std::int64_t> nanos = whole_number(*given, where + ".nanosBetweenRefills");
    if (!nanos) return nanos.error();
    refill_ns = *nanos;
  }
  Result<Policy> policy = make_policy(resource, *units, *period, refill_ns);
  if (!policy) {
    // The name stays first.
    std::string message = policy.error().message;
    message.insert(message.find(':') + 2, where + ": ");
    return bad_argument(std::move(message));
  }
  return policy;
}

Result<std::vector<Policy>> read_policies(const json::value* list, Resource resource,
                                          const std::string& where) {
  std::vector<Policy> policies;
  if (list == nullptr) return policies;
  const json::array* rows = list->if_array();
  if (rows == nullptr) return wrong_type(where, *list, "a list");
  if (rows->size() > kPoliciesMax) {
    return mistake("too_many", where,
                   fmt::format("has {} policies, but it may have {}; leave some out", rows->size(),
                               kPoliciesMax));
  }
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    const Result<Policy> policy = read_policy((*rows)[i], resource, place);
    if (!policy) return policy.error();
    for (const Policy& other : policies) {
      if (other.period != policy->period) continue;
      return mistake(
          other.capacity == policy->capacity ? "duplicate_policy" : "overlapping_policies", place,
          fmt::format("is {} after {}, but of one period there may be one; leave out "
                      "the larger",
                      policy_id(*policy), policy_id(other)));
    }
    policies.push_back(*policy);
  }
  return policies;
}

Result<Contract> read_type(const json::value& type, const std::string& where) {
  Contract contract;
  const Result<const json::value*> name = member(type, where, "name");
  if (!name) return name.error();
  const Result<std::string> text = text_of(**name, where + ".name", kUserIdBytesMax);
  if (!text) return text.error();
  const Result<Resource> resource = read_type_name(*text, where + ".name");
  if (!resource) return resource.error();
  contract.resource = *resource;
  Result<std::vector<Policy>> defaults = read_policies(optional_member(type, "defaultPolicies"),
                                                       *resource, where + ".defaultPolicies");
  if (!defaults) return defaults.error();
  contract.default_policies = std::move(*defaults);
  return contract;
}

Result<Contract> read_contract(const json::value& row, const std::string& where) {
  const Result<const json::value*> type = member(row, where, "type");
  if (!type) return type.error();
  Result<Contract> contract = read_type(**type, where + ".type");
  if (!contract) return contract;
  if (const json::value* id = optional_member(row, "id")) {
    const Result<std::int64_t> number = whole_number(*id, where + ".id");
    if (!number) return number.error();
    contract->id = *number;
  }
  if (const json::value* user = optional_member(row, "userId")) {
    Result<std::string> text = text_of(*user, where + ".userId", kUserIdBytesMax);
    if (!text) return text.error();
    contract->user_id = std::move(*text);
  }
  if (const json::value* address = optional_member(row, "@id")) {
    Result<std::string> text = text_of(*address, where + ".@id", kAddressBytesMax);
    if (!text) return text.error();
    contract->address = std::move(*text);
  }
  if (const json::value* notification = optional_member(row, "usageNotificationExtra")) {
    contract->notification = json::serialize(*notification);
    if (contract->notification.size() > kNotificationBytesMax) {
      return mistake("too_large", where + ".usageNotificationExtra",
                     fmt::format("has {} bytes, but it may have {}; shorten it",
                                 contract->notification.size(), kNotificationBytesMax));
    }
  }
  Result<std::vector<Policy>> policies =
      read_policies(optional_member(row, "policies"), contract->resource, where + ".policies");
  if (!policies) return policies.error();
  contract->policies = std::move(*policies);
  if (contract->effective().empty()) {
    return mistake("missing_policies", where,
                   "has no policies, and its type no defaultPolicies; write some");
  }
  return contract;
}

Result<const json::array*> data_list(const json::value& document) {
  const Result<const json::value*> data = member(document, "the document", "data");
  if (!data) return data.error();
  const json::array* rows = (*data)->if_array();
  if (rows == nullptr) return wrong_type("data", **data, "a list");
  if (rows->size() > kContractsMax) {
    return mistake("too_many", "data",
                   fmt::format("has {} contracts, but it may have {}; ask for one user",
                               rows->size(), kContractsMax));
  }
  return rows;
}

// Whether `name` is of an unknown type, which is then noted.
bool leaves_out(LeftOut* left_out, std::string_view name) {
  if (left_out == nullptr || resource_named(name)) return false;
  const std::string_view known = name.substr(0, kTypeNameBytesMax);
  if (left_out->size() < kLeftOutMax &&
      std::find(left_out->begin(), left_out->end(), known) == left_out->end()) {
    left_out->emplace_back(known);
  }
  return true;
}

// The type's name in a row of types, or in the type of a contract; empty: there is none.
std::string_view type_in(const json::value& row) {
  const json::value* const type = optional_member(row, "type");
  const json::value* const name = optional_member(type == nullptr ? row : *type, "name");
  if (name == nullptr || !name->is_string()) return {};
  return {name->get_string().data(), name->get_string().size()};
}

using ReadRow = Result<Contract> (*)(const json::value&, const std::string&);

Result<std::vector<Contract>> read_rows(std::string_view text, ReadRow read_row,
                                        LeftOut* left_out) {
  const Result<json::value> document = parse(text);
  if (!document) return document.error();
  const Result<const json::array*> rows = data_list(*document);
  if (!rows) return rows.error();
  std::vector<Contract> contracts;
  std::vector<std::pair<std::string, Resource>> seen;
  for (std::size_t i = 0; i < (*rows)->size(); ++i) {
    const std::string_view type = type_in((**rows)[i]);
    if (!type.empty() && leaves_out(left_out, type)) continue;
    Result<Contract> contract = read_row((**rows)[i], fmt::format("data[{}]", i));
    if (!contract) return contract.error();
    seen.emplace_back(contract->user_id, contract->resource);
    contracts.push_back(std::move(*contract));
  }
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end()) {
    return mistake("duplicate_contract", "data",
                   fmt::format("has two contracts of type {} for user {}, but there may be one; "
                               "leave one out",
                               type_name(twice->second), in_quotes(twice->first)));
  }
  return contracts;
}

// What is left, rounded down; a debt is rounded away from zero.
Result<std::int64_t> read_left(const json::value& value, const std::string& where) {
  if (!value.is_number()) return wrong_type(where, value, "a number");
  const double number = value.to_number<double>();
  const Result<Fraction> amount = decimal_of(where, std::abs(number));
  if (!amount) return mistake("wrong_type", where, amount.error().message);
  const Rounding rounding = number < 0 ? Rounding::kUp : Rounding::kDown;
  const Result<std::int64_t> micro = micro_of(where, *amount, rounding);
  if (!micro) return mistake("wrong_type", where, micro.error().message);
  return number < 0 ? -*micro : *micro;
}

// For people: `1 minute`, `31 days`, in the largest unit that it is a whole number of.
std::string nice_period(Duration period) {
  struct Unit {
    Duration length;
    std::string_view name;
  };
  constexpr Unit kUnits[] = {{std::chrono::hours{24}, "day"},
                             {std::chrono::hours{1}, "hour"},
                             {std::chrono::minutes{1}, "minute"},
                             {std::chrono::seconds{1}, "second"}};
  for (const Unit& unit : kUnits) {
    if (period.count() == 0 || period % unit.length != Duration{0}) continue;
    const std::int64_t count = period / unit.length;
    return fmt::format("{} {}{}", count, unit.name, count == 1 ? "" : "s");
  }
  return period_text(period);
}

json::object json_policy(const Policy& policy) {
  return {{"capacity", policy.capacity},
          {"samplingPeriod", period_text(policy.period)},
          {"nanosBetweenRefills", policy.refill_ns},
          {"niceSamplingPeriod", nice_period(policy.period)}};
}

json::array json_policies(std::span<const Policy> policies) {
  json::array rows;
  for (const Policy& policy : policies) rows.push_back(json_policy(policy));
  return rows;
}

json::object json_type(const Contract& contract) {
  return {{"name", std::string(type_name(contract.resource))},
          {"suffix", std::string(suffix(contract.resource))},
          {"defaultPolicies", json_policies(contract.default_policies)}};
}

}  // namespace

Result<std::vector<Contract>> read_contracts(std::string_view text, LeftOut* left_out) {
  return read_rows(text, read_contract, left_out);
}

Result<std::vector<Contract>> read_contract_types(std::string_view text, LeftOut* left_out) {
  return read_rows(text, read_type, left_out);
}

Result<std::vector<Account::Count>> read_token_counts(std::string_view text, LeftOut* left_out) {
  const Result<json::value> document = parse(text);
  if (!document) return document.error();
  const Result<const json::value*> data = member(*document, "the document", "data");
  if (!data) return data.error();
  if (!(*data)->is_object()) return wrong_type("data", **data, "an object");
  std::vector<Account::Count> counts;
  for (const auto& [type, periods] : (*data)->get_object()) {
    if (leaves_out(left_out, std::string_view(type.data(), type.size()))) continue;
    const std::string where = fmt::format("data.{}", std::string_view(type.data(), type.size()));
    const Result<Resource> resource =
        read_type_name(std::string_view(type.data(), type.size()), "data");
    if (!resource) return resource.error();
    if (!periods.is_object()) return wrong_type(where, periods, "an object");
    if (periods.get_object().size() > kPoliciesMax) {
      return mistake("too_many", where,
                     fmt::format("has {} periods, but it may have {}; leave some out",
                                 periods.get_object().size(), kPoliciesMax));
    }
    for (const auto& [key, count] : periods.get_object()) {
      const Result<Duration> period = read_period(std::string_view(key.data(), key.size()), where);
      if (!period) return period.error();
      for (const Account::Count& other : counts) {
        if (other.resource != *resource || other.period != *period) continue;
        return mistake("duplicate_count", where,
                       fmt::format("has {} under another spelling too; leave one out",
                                   in_quotes(std::string_view(key.data(), key.size()))));
      }
      const Result<std::int64_t> left =
          read_left(count, fmt::format("{}.{}", where, std::string_view(key.data(), key.size())));
      if (!left) return left.error();
      counts.push_back({*resource, *period, *left});
    }
  }
  return counts;
}

bool is_of(const Contract& contract, std::string_view user_id) {
  return user_id.empty() || contract.user_id.empty() || contract.user_id == user_id;
}

Result<std::vector<Policy>> policies_of(std::span<const Contract> contracts,
                                        std::string_view user_id) {
  std::vector<Policy> policies;
  bool found = false;
  for (const Contract& contract : contracts) {
    if (user_id.empty() && contract.user_id != contracts[0].user_id) {
      return mistake("unknown_user", "the document",
                     fmt::format("has contracts of {} and of {}; say whose are meant",
                                 in_quotes(contracts[0].user_id), in_quotes(contract.user_id)));
    }
    if (!is_of(contract, user_id)) continue;
    found = true;
    policies.insert(policies.end(), contract.effective().begin(), contract.effective().end());
  }
  if (!found) {
    return mistake("unknown_user", "the document",
                   fmt::format("has no contract of user {}; correct the id", in_quotes(user_id)));
  }
  return policies;
}

std::vector<Contract> contracts_of(std::span<const Contract> contracts, std::string_view user_id) {
  std::vector<Contract> own;
  std::copy_if(contracts.begin(), contracts.end(), std::back_inserter(own),
               [&](const Contract& each) { return is_of(each, user_id); });
  return own;
}

std::string write_contracts(std::span<const Contract> contracts) {
  json::array rows;
  for (const Contract& contract : contracts) {
    rows.push_back(json::object{
        {"@id", contract.address.empty() ? fmt::format("/aux/ratelimit/contract/{}", contract.id)
                                         : contract.address},
        {"id", contract.id},
        {"policies", json_policies(contract.policies)},
        {"usageNotificationExtra", contract.notification.empty()
                                       ? json::value(json::object{})
                                       : json::parse(contract.notification)},
        {"userId", contract.user_id},
        {"type", json_type(contract)}});
  }
  const json::object document{{"data", std::move(rows)},
                              {"links", json::object{{"currentToken", "0"}}}};
  return json::serialize(document);
}

std::string write_contract_types(std::span<const Contract> types) {
  json::array rows;
  for (const Contract& type : types) rows.push_back(json_type(type));
  return json::serialize(json::object{{"data", std::move(rows)}});
}

std::vector<Contract> published_contracts(const std::vector<Contract>& given,
                                          std::span<const Policy> policies,
                                          const std::string& user_id, std::int64_t first_id) {
  std::vector<Contract> published;
  for (const Policy& policy : policies) {
    const auto is_same = [&](const Contract& each) { return each.resource == policy.resource; };
    if (std::any_of(published.begin(), published.end(), is_same)) continue;
    Contract made{.id = first_id + static_cast<std::int64_t>(policy.resource),
                  .resource = policy.resource};
    const auto from = std::find_if(given.begin(), given.end(), is_same);
    if (from != given.end()) {
      const std::int64_t own_id = made.id;
      made = *from;
      if (made.id == 0) made.id = own_id;  // a type has none
    }
    made.user_id = user_id;
    std::vector<Policy> in_force;
    std::copy_if(policies.begin(), policies.end(), std::back_inserter(in_force),
                 [&](const Policy& each) { return each.resource == policy.resource; });
    if (made.effective() != in_force) made.policies = std::move(in_force);
    published.push_back(std::move(made));
  }
  return published;
}

// Plain numbers, `1000.0` for a thousand, which need no JSON library to be read.
std::string write_token_counts(std::span<const PolicyView> policies) {
  std::string out = R"({"data":{)";
  for (const Resource resource : {Resource::kRequests, Resource::kProcessingUnits}) {
    bool is_first = true;
    for (const PolicyView& row : policies) {
      if (row.policy.resource != resource) continue;
      if (is_first && out.back() != '{') out += ',';
      out += is_first ? fmt::format(R"("{}":{{)", type_name(resource)) : std::string(",");
      is_first = false;
      // The lowest there is has no opposite; it is off by a millionth of a unit then.
      const std::int64_t size = std::abs(std::max(row.left_micro, -kForever.ns));
      std::string fraction = fmt::format("{:06}", size % kMicro);
      while (fraction.size() > 1 && fraction.back() == '0') fraction.pop_back();
      out += fmt::format(R"("{}":{}{}.{})", period_text(row.policy.period),
                         row.left_micro < 0 ? "-" : "", size / kMicro, fraction);
    }
    if (!is_first) out += '}';
  }
  return out += "}}";
}

Result<AccessToken> read_access_token(std::string_view text) {
  const Result<json::value> document = parse(text);
  if (!document) return document.error();
  const Result<const json::value*> token = member(*document, "the token", "access_token");
  if (!token) return token.error();
  Result<std::string> token_text = text_of(**token, "access_token", kTokenBytesMax);
  if (!token_text) return token_text.error();
  Duration lasts = kTokenLasts;
  bool is_time = true;
  if (const json::value* said = optional_member(*document, "expires_in")) {
    const Result<std::int64_t> seconds = whole_number(*said, "expires_in");
    if (!seconds) return seconds.error();
    is_time = *seconds >= 1 && *seconds <= std::int64_t{366} * 86'400;
    if (is_time) lasts = std::chrono::seconds{*seconds};
  }
  if (!is_time || token_text->empty()) {
    return mistake("wrong_type", "the token",
                   "must not be empty and must last between a second and a year");
  }
  return AccessToken{std::move(*token_text), lasts};
}

namespace {

// base64url, padded or not. Nothing: it is not that.
std::optional<std::string> from_base64url(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_lower = c >= 'a' && c <= 'z';
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_upper && !is_lower && !is_digit && c != '-' && c != '_') return std::nullopt;
    int value = c == '-' ? 62 : 63;
    if (is_upper) value = c - 'A';
    if (is_lower) value = c - 'a' + 26;
    if (is_digit) value = c - '0' + 52;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

}  // namespace

std::optional<std::string> subject_of(std::string_view access_token) {
  const std::size_t first = access_token.find('.');
  if (first == std::string_view::npos || access_token.size() > kTokenBytesMax) return std::nullopt;
  const std::size_t second = access_token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto payload = from_base64url(access_token.substr(first + 1, second - first - 1));
  if (!payload) return std::nullopt;
  const Result<json::value> claims = parse(*payload);
  if (!claims) return std::nullopt;
  const json::value* const subject = optional_member(*claims, "sub");
  if (subject == nullptr) return std::nullopt;
  Result<std::string> user = text_of(*subject, "sub", kUserIdBytesMax);
  if (!user || user->empty()) return std::nullopt;
  return std::move(*user);
}

}  // namespace weir::system::contract
