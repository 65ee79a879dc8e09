// Naive: the engine again, slow and obvious, to compare the real one with.
//
// Written from the headers, not from the sources: a map from (limit, key) to a
// meter in plain style, 256-bit integers where fractions arise, one thread, no
// sweeping, no prints. It says what a decision must be; how fast is not its concern.
//
// Readings chosen where the headers leave a choice are marked "Reading:" in the sources.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/engine/naive_meter.h"
#include "tests/support/exact.h"
#include "tests/support/on_stack.h"
#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/engine/request.h"
#include "weir/engine/rules.h"
#include "weir/meter/step.h"

namespace weir::engine::naive {

using Key = std::pair<std::string, std::vector<std::string>>;  // limit, values

struct Row {
  std::string limit;
  Verdict verdict = Verdict::kAllowed;
  bool shadow = false;
  std::int64_t cost = 0;
  std::int64_t remaining = 0;
  std::int64_t capacity = 0;
  Instant earliest{};

  friend bool operator==(const Row&, const Row&) = default;
};

struct Answer {
  Verdict verdict = Verdict::kAllowed;
  std::string binding{};  // empty: none
  std::int64_t shortfall = 0;
  Instant earliest{};
  std::int64_t granted = 0;
  std::uint64_t hold = 0;  // 0: none
  Instant hold_expires{};
  std::vector<Row> rows{};

  friend bool operator==(const Answer&, const Answer&) = default;
};

// One limit that a request meets.
struct Draw {
  const LimitSpec* limit = nullptr;
  Key key;
  std::int64_t weight = 1;
  std::int64_t cost = 0;
};

class Model {
 public:
  explicit Model(RuleSetSpec rules) : rules_(std::move(rules)) {}

  const RuleSetSpec& rules() const { return rules_; }
  const LimitSpec* find(std::string_view limit) const;

  // Which limits a request meets, in the order of the rules.
  std::vector<Draw> draws(const Request& request) const;

  // The first limit at which the request can book no start; empty: none.
  std::string unbookable(const Request& request, Instant now);

  Answer decide(const Request& request, Instant now) { return acquire(request, {}, now); }
  Answer acquire(const Request& request, const Wants& options, Instant now);
  Answer peek(const Request& request, Instant now);

  HoldState settle(std::uint64_t hold, std::span<const Cost> actual, Instant now);
  HoldState cancel(std::uint64_t hold, Instant now);
  HoldState renew(std::uint64_t hold, Duration ttl, Instant now);
  // Ends the holds whose time has come.
  void advance(Instant now);
  std::size_t active_holds() const;
  Instant next_expiry() const;

  // All that was kept is there again but what is known of ebbs.
  void restart();
  void swap(RuleSetSpec rules);
  void set_override(const Key& key, const MeterSpec& spec, Instant now);
  // False: the key has none.
  bool clear_override(const Key& key, Instant now);
  Inspection inspect(const Key& key, Instant now);
  void reset(const Key& key, Instant now);

  // Those of the key itself, or the limit's.
  const MeterSpec& parameters(const Key& key) const;
  // A copy of the key's meter, with the parameters in force.
  std::unique_ptr<Meter> view(const Key& key, Instant now) const;

  // Every key that has a meter or parameters of its own.
  std::vector<Key> keys() const;

 private:
  struct Entry {
    MeterSpec spec;  // that the meter has now; converted when it is touched
    std::unique_ptr<Meter> meter;
  };
  struct Charge {
    Key key;
    std::uint64_t birth;  // of the limit: one that was dropped and came back is another
    std::string unit;
    std::int64_t amount;
    std::int64_t weight;
    Instant charged_at;
    Kind kind;  // of the meter
    // Of a bucket or ticker: the least that was in use since; none: it is not known any more.
    std::optional<Exact> ebb{};
  };
  struct Hold {
    HoldState state = HoldState::kActive;
    Instant expires{};
    std::vector<Charge> charges;
  };
  struct Item {
    Draw draw;
    std::unique_ptr<Meter> meter;  // a copy
    meter::Check check;
  };

  std::vector<Item> items(const Request& request, Instant now) const;
  void give_back(std::uint64_t hold, Charge& charge, std::int64_t amount, Instant now);
  // Every charge of the key that is outstanding and whose ebb is known, oldest first.
  template <typename Visit>
  void for_each_ebb(const Key& key, Visit&& visit);
  // The meter was left alone since the last call that held or gave back, as far as that one knows.
  void see_ebb(const Key& key, Instant now);
  // Nothing comes back to what was charged so far.
  void drain_ebbs(const Key& key);
  // The key's meter is about to get the parameters in force.
  void reshape_ebbs(const Key& key, Instant now);
  std::int64_t grant_up_to(std::vector<Item>& items, const std::string& unit, std::int64_t want,
                           Instant now) const;
  static Answer judge(std::vector<Item>& items, Instant now);
  static std::vector<Row> rows(const std::vector<Item>& items, Instant now);
  static std::optional<Instant> booking(const std::vector<Item>& items, Instant now,
                                        Instant latest);
  void keep(std::vector<Item>& items);
  void hold(const std::vector<Item>& items, const std::vector<Charge>& charges, Duration ttl,
            Instant start, Instant now, Answer& answer);

  Meter& touch(const Key& key, Instant now);
  bool survives(const Charge& charge) const;
  std::uint64_t birth(const std::string& limit) const;

  RuleSetSpec rules_;
  std::map<Key, Entry> meters_;
  std::map<Key, MeterSpec> overrides_;
  std::map<std::string, std::uint64_t> deaths_;  // how often a limit lost all it kept
  std::map<std::uint64_t, Hold> holds_;
  std::map<Key, std::unique_ptr<Meter>> seen_;  // as such calls have left them
  std::uint64_t next_hold_ = 1;
};

std::string describe(const RuleSetSpec& rules);
std::string describe(const Key& key);
std::string describe(const Request& request);
std::string describe(const Answer& answer);
std::string describe(const Decision& decision);

// What differs between the two answers; empty: nothing. Holds are compared by
// presence and expiry.
std::string difference(const Answer& expected, const Decision& actual);

}  // namespace weir::engine::naive
