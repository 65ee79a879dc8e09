// An operation as JSON, both ways. Members are read by name, and one that is not known is refused:
// the history must mean what it says.

#include "weir/system/compute/operation.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "weir/base/in_quotes.h"

namespace weir::system::compute {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 25> kNames = {"register",
                                                     "unregister",
                                                     "lock",
                                                     "add",
                                                     "unlock",
                                                     "auto_on",
                                                     "auto_off",
                                                     "equal",
                                                     "support",
                                                     "unsupport",
                                                     "shares",
                                                     "strategy",
                                                     "join",
                                                     "leave",
                                                     "set_epoch_length",
                                                     "set_mana",
                                                     "set_block_time",
                                                     "set_min_lock",
                                                     "set_max_portals",
                                                     "open_pool",
                                                     "stake",
                                                     "exit",
                                                     "withdraw",
                                                     "set_min_stake",
                                                     "set_exit_rate"};

struct Bad {
  std::string message;
};

[[noreturn]] void wrong(std::string_view member, std::string_view expected) {
  throw Bad{fmt::format("member '{}' must be {}; write it so", member, expected)};
}

std::string text_of(const json::value& value, std::string_view member) {
  if (!value.is_string()) wrong(member, "a text");
  return std::string(value.as_string());
}

std::int64_t number_of(const json::value& value, std::string_view member) {
  if (!value.is_int64()) wrong(member, "a whole number below 2^63");
  return value.as_int64();
}

template <typename Value, typename Read>
std::vector<Value> list_of(const json::value& value, std::string_view member, Read read) {
  if (!value.is_array()) wrong(member, "a list");
  std::vector<Value> values;
  for (const json::value& item : value.as_array()) values.push_back(read(item, member));
  return values;
}

void read_member(std::string_view name, const json::value& value, Operation& operation) {
  if (name == "wallet") {
    operation.wallet = text_of(value, name);
  } else if (name == "portals") {
    operation.portals = list_of<std::string>(value, name, text_of);
  } else if (name == "amount") {
    Result<Amount> amount = parse_parts(name, text_of(value, name));
    if (!amount) throw Bad{amount.error().message};
    operation.amount = *amount;
  } else if (name == "value") {
    operation.value = number_of(value, name);
  } else if (name == "auto") {
    if (!value.is_bool()) wrong(name, "true or false");
    operation.is_auto = value.as_bool();
  } else if (name == "workers") {
    operation.workers = list_of<WorkerId>(value, name, number_of);
  } else if (name == "basis_points") {
    operation.basis_points = list_of<std::int64_t>(value, name, number_of);
  } else if (name == "name") {
    operation.name = text_of(value, name);
  } else if (name == "event") {
    operation.event = text_of(value, name);
  } else if (name == "block") {
    operation.block = number_of(value, name);
  } else if (name != "op") {
    throw Bad{fmt::format("member {} is not known; leave it out", in_quotes(name))};
  }
}

Operation read(const json::value& document) {
  if (!document.is_object()) throw Bad{"it must be an object; write '{\"op\":…}'"};
  const json::object& object = document.as_object();
  const json::value* op = object.if_contains("op");
  if (op == nullptr) throw Bad{"member 'op' is missing; write the operation"};
  const std::string name = text_of(*op, "op");
  Operation operation;
  std::size_t place = 0;
  while (place < kNames.size() && kNames[place] != name) ++place;
  if (place == kNames.size()) {
    throw Bad{
        fmt::format("op is {}, which is no operation; write one such as 'lock'", in_quotes(name))};
  }
  operation.op = static_cast<Op>(place);
  for (const auto& member : object) read_member(member.key(), member.value(), operation);
  return operation;
}

}  // namespace

std::string_view to_string(Op op) noexcept { return kNames[static_cast<std::size_t>(op)]; }

std::string operation_text(const Operation& operation) {
  json::object object;
  object["op"] = to_string(operation.op);
  if (!operation.wallet.empty()) object["wallet"] = operation.wallet;
  if (!operation.portals.empty()) {
    object["portals"] = json::array(operation.portals.begin(), operation.portals.end());
  }
  if (operation.amount != 0) object["amount"] = parts_text(operation.amount);
  if (operation.value != 0) object["value"] = operation.value;
  if (operation.is_auto) object["auto"] = true;
  if (!operation.workers.empty()) {
    object["workers"] = json::array(operation.workers.begin(), operation.workers.end());
  }
  if (!operation.basis_points.empty()) {
    object["basis_points"] =
        json::array(operation.basis_points.begin(), operation.basis_points.end());
  }
  if (!operation.name.empty()) object["name"] = operation.name;
  if (!operation.event.empty()) object["event"] = operation.event;
  if (operation.block) object["block"] = *operation.block;
  return json::serialize(object);
}

Result<Operation> parse_operation(std::string_view where, std::string_view text) {
  json::error_code problem;
  const json::value document = json::parse(json::string_view(text.data(), text.size()), problem);
  if (problem) return bad_argument(fmt::format("{}: it is not JSON: {}", where, problem.message()));
  try {
    return read(document);
  } catch (const Bad& bad) {
    return bad_argument(fmt::format("{}: {}", where, bad.message));
  }
}

}  // namespace weir::system::compute
