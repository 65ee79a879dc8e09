// Engine options: the bounds of one engine, chosen once.
//
// Addresses for all keys are set aside at once, memory for a key when it comes: about
// 54 bytes. What is asked for beyond a bound is refused, or an error; the table in
// docs/reference/library.md says which.
//
// An engine whose state is to outlive it is durable, and is made again with the same
// `secret` and `owner`: its prints and the ids of its holds were made with them.
//
// Thread safety: none needed. Options are values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/base/integer.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"

namespace weir::engine {

class DecisionSink;  // ask.h

enum class WhenFull : std::uint8_t {
  kRefuse,  // a new key is refused
  kEvict,   // the meter of the same limit nearest to its initial state makes room
};

// What messages call the settings that more of something takes. An embedder's are members of
// EngineOptions; who reads them from elsewhere gives the names that stand there.
struct SettingNames {
  std::string_view keys = "keys_max";
  std::string_view ad_hoc_keys = "ad_hoc_keys_max";
  std::string_view when_full = "when_full";
  std::string_view log_runs = "log_runs_max";
  std::string_view holds = "holds_max";
  std::string_view overrides = "overrides_max";
  std::string_view hold = "hold_max";
  std::string_view wait = "wait_max";
  std::string_view book = "book_max";
  std::string_view declare_attribute = "declare it in the rule set";
  std::string_view declare_unit = "declare the unit";
};

struct EngineOptions {
  std::size_t keys_max = 10'000'000;       // meters in the table
  WhenFull when_full = WhenFull::kRefuse;  // what happens to one key more of a limit
  std::size_t ad_hoc_keys_max = 0;         // of them, for ad_hoc.h; 0: a fair share
  std::size_t log_runs_max = 16'000'000;   // 16 bytes each
  std::size_t holds_max = 1'000'000;
  std::size_t waiters_max = 65'536;
  std::size_t overrides_max = 65'536;
  // What one request may ask for. Who calls the library is the program itself, so its bounds are
  // none; the server's are `bounds.hold`, `bounds.wait` and `bounds.book`.
  Duration hold_max{kTermMax / 2};  // of a hold, and of what renews it
  Duration wait_max = Duration::max();
  Duration book_max = Duration::max();
  std::size_t heavy_keys = 64;            // kept for each limit, with their texts
  std::uint32_t heavy_sample_every = 64;  // decisions of a busy thread for each one looked at
  std::optional<Secret> secret{};         // of the prints; none: a fresh one
  std::optional<std::uint64_t> owner{};   // key of the ids of its holds; none: a fresh one
  bool durable = false;                   // changes are kept until a store has collected them
  SettingNames names{};                   // texts that outlive the engine
  DecisionSink* sink = nullptr;           // is told of every ask, and outlives the engine
};

}  // namespace weir::engine
