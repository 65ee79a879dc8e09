#include "tests/engine/naive.h"

#include <algorithm>
#include <set>
#include <variant>

namespace weir::engine::naive {
namespace {

using meter::Check;

bool glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return glob(pattern.substr(1), text) || (!text.empty() && glob(pattern, text.substr(1)));
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return glob(pattern.substr(1), text.substr(1));
}

std::optional<std::string> value_of(const Request& request, std::string_view attribute) {
  for (const Attribute& a : request.attributes) {
    if (a.name == attribute) return std::string{a.value};
  }
  return std::nullopt;
}

bool holds(const Condition& condition, const Request& request) {
  const auto value = value_of(request, condition.attribute);
  if (!value) return false;
  return std::any_of(condition.patterns.begin(), condition.patterns.end(),
                     [&](const std::string& pattern) { return glob(pattern, *value); });
}

bool all_hold(const std::vector<Condition>& conditions, const Request& request) {
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const Condition& condition) { return holds(condition, request); });
}

bool is_exempt(const LimitSpec& limit, const Request& request) {
  return std::any_of(limit.exempt.begin(), limit.exempt.end(),
                     [&](const auto& group) { return all_hold(group, request); });
}

std::int64_t weight_of(const LimitSpec& limit, const Request& request) {
  const auto value = value_of(request, limit.weigh.attribute);
  for (const auto& [text, weight] : limit.weigh.table) {
    if (value == text) return weight;
  }
  return 1;
}

// Nothing if the request names no cost in the unit.
std::optional<std::int64_t> cost_in(const Request& request, std::string_view unit) {
  for (const Cost& cost : request.costs) {
    if (cost.unit == unit) return cost.amount;
  }
  return unit == kRequests ? std::optional<std::int64_t>{1} : std::nullopt;
}

// Reading: a log stamps what is booked with its start, and has no stamp beyond the last instant.
bool takes(const MeterSpec& meter, Instant start) {
  return can_book(meter) && (kind_of(meter) != Kind::kLog || start.ns <= kInstantNsMax);
}

}  // namespace

const LimitSpec* Model::find(std::string_view limit) const {
  for (const LimitSpec& candidate : rules_.limits) {
    if (candidate.name == limit) return &candidate;
  }
  return nullptr;
}

std::vector<Draw> Model::draws(const Request& request) const {
  // Reading: a limit meets a request that names a cost in its unit, be it 0, and
  // carries all of its key attributes.
  const auto meets = [&](const LimitSpec& limit) {
    return cost_in(request, limit.unit) && all_hold(limit.when, request) &&
           !is_exempt(limit, request) &&
           std::all_of(limit.per.begin(), limit.per.end(),
                       [&](const std::string& name) { return value_of(request, name); });
  };
  // Reading: ancestors are drawn on whatever their own `when` says, unless the
  // request is exempt from them, and once however many ways lead there. One in shadow draws on
  // no enforced one, since it changes no answer.
  std::set<std::string> met;
  for (const LimitSpec& limit : rules_.limits) {
    if (!meets(limit)) continue;
    for (const LimitSpec* drawn = &limit; drawn != nullptr; drawn = find(drawn->parent)) {
      if (limit.shadow && !drawn->shadow) continue;
      if (!is_exempt(*drawn, request)) met.insert(drawn->name);
    }
  }
  std::vector<Draw> draws;
  for (const LimitSpec& limit : rules_.limits) {
    if (!met.contains(limit.name)) continue;
    Draw draw{&limit, {limit.name, {}}, weight_of(limit, request), 0};
    for (const std::string& name : limit.per) draw.key.second.push_back(*value_of(request, name));
    draw.cost = draw.weight * *cost_in(request, limit.unit);
    draws.push_back(std::move(draw));
  }
  return draws;
}

std::vector<Model::Item> Model::items(const Request& request, Instant now) const {
  std::vector<Item> items;
  for (Draw& draw : draws(request)) {
    std::unique_ptr<Meter> meter = view(draw.key, now);
    items.push_back({std::move(draw), std::move(meter), {}});
  }
  return items;
}

std::int64_t Model::grant_up_to(std::vector<Item>& items, const std::string& unit,
                                std::int64_t want, Instant now) const {
  std::int64_t least = want;
  for (const Item& item : items) {
    if (item.draw.limit->unit != unit || item.draw.limit->shadow || item.draw.weight == 0) continue;
    least = std::min(least, std::max<std::int64_t>(0, item.meter->level(now)) / item.draw.weight);
  }
  const std::int64_t asked = std::max<std::int64_t>(1, least);
  for (Item& item : items) {
    if (item.draw.limit->unit == unit) item.draw.cost = item.draw.weight * asked;
  }
  return asked;
}

Answer Model::judge(std::vector<Item>& items, Instant now) {
  Answer answer{.earliest = now};
  for (Item& item : items) item.check = item.meter->check(now, item.draw.cost);

  // Never binds before everything, then whatever keeps it waiting longest; of
  // equals the first.
  const Item* binding = nullptr;
  for (const Item& item : items) {
    if (item.draw.limit->shadow || item.check.allowed()) continue;
    const bool worse =
        binding == nullptr ||
        (item.check.verdict == Verdict::kNever && binding->check.verdict != Verdict::kNever) ||
        (item.check.verdict == binding->check.verdict &&
         item.check.earliest > binding->check.earliest);
    if (worse) binding = &item;
  }
  if (binding != nullptr) {
    answer.verdict = binding->check.verdict;
    answer.binding = binding->draw.limit->name;
    answer.shortfall = binding->check.shortfall;
    answer.earliest = binding->check.earliest;
  }
  return answer;
}

std::vector<Row> Model::rows(const std::vector<Item>& items, Instant now) {
  std::vector<Row> rows;
  for (const Item& item : items) {
    rows.push_back({item.draw.limit->name, item.check.verdict, item.draw.limit->shadow,
                    item.draw.cost, std::max<std::int64_t>(0, item.meter->level(now)),
                    item.meter->capacity(), item.check.earliest});
  }
  return rows;
}

std::optional<Instant> Model::booking(const std::vector<Item>& items, Instant now, Instant latest) {
  Instant start = now;
  for (const Item& item : items) {
    // Reading: what takes nothing of a limit may start whenever that pleases the others.
    if (item.draw.limit->shadow || item.draw.cost == 0) continue;
    if (item.check.verdict == Verdict::kNever) return std::nullopt;
    start = std::max(start, item.check.earliest);
  }
  const bool all_take = std::all_of(items.begin(), items.end(), [&](const Item& item) {
    return item.draw.limit->shadow || item.draw.cost == 0 || takes(item.draw.limit->meter, start);
  });
  return all_take && start <= latest ? std::optional{start} : std::nullopt;
}

void Model::keep(std::vector<Item>& items) {
  for (Item& item : items) {
    meters_[item.draw.key] = {parameters(item.draw.key), std::move(item.meter)};
  }
}

void Model::hold(const std::vector<Item>& items, const std::vector<Charge>& charges, Duration ttl,
                 Instant start, Instant now, Answer& answer) {
  std::optional<Duration> lasts;
  if (ttl > Duration{0}) lasts = ttl;
  // Reading: slots in shadow say how long it lasts only if there are no others.
  for (const bool in_shadow : {false, true}) {
    if (lasts) break;
    for (const Item& item : items) {
      const auto* slots = std::get_if<SlotsSpec>(&parameters(item.draw.key));
      if (slots == nullptr || item.draw.limit->shadow != in_shadow) continue;
      lasts = std::min(lasts.value_or(slots->hold), slots->hold);
    }
  }
  if (!lasts) return;
  answer.hold = next_hold_++;
  answer.hold_expires = start + *lasts;
  for (const Charge& charge : charges) {
    if (!charge.ebb) continue;
    see_ebb(charge.key, now);
    for (const Item& item : items) {
      if (item.draw.key == charge.key) seen_[charge.key] = item.meter->copy();
    }
  }
  holds_[answer.hold] = {HoldState::kActive, answer.hold_expires, charges};
}

std::string Model::unbookable(const Request& request, Instant now) {
  std::vector<Item> asked = items(request, now);
  const auto found = std::find_if(asked.begin(), asked.end(), [](const Item& item) {
    return !item.draw.limit->shadow && item.draw.cost > 0 && !can_book(item.draw.limit->meter);
  });
  if (found == asked.end()) return {};
  const std::string name = found->draw.limit->name;
  // Reading: as a peek, it touches what there is, but begins nothing.
  std::erase_if(asked, [&](const Item& item) { return !meters_.contains(item.draw.key); });
  for (const Item& item : asked) reshape_ebbs(item.draw.key, now);
  keep(asked);
  return name;
}

Answer Model::acquire(const Request& request, const Wants& options, Instant now) {
  std::vector<Item> asked = items(request, now);
  for (const Item& item : asked) reshape_ebbs(item.draw.key, now);
  std::int64_t granted = 0;
  if (!options.up_to.empty()) {
    granted = grant_up_to(asked, options.up_to, *cost_in(request, options.up_to), now);
  }
  Answer answer = judge(asked, now);
  Instant start = now;
  if (answer.verdict == Verdict::kDenied && options.book_within > Duration{0}) {
    if (const auto booked = booking(asked, now, now + options.book_within)) {
      start = *booked;
      answer = {.earliest = start};
    }
  }
  if (answer.verdict == Verdict::kAllowed) {
    answer.granted = granted;
    std::vector<Charge> charges;
    for (Item& item : asked) {
      // Reading: a shadow limit counts what it would have admitted, no more. Of what is booked
      // that is a start that its meter would take.
      if (item.draw.limit->shadow && item.draw.cost > 0) {
        const bool booked = start != now;
        const bool can_book = takes(item.draw.limit->meter, start);
        if (booked && (!can_book || !item.meter->check(start, item.draw.cost).allowed())) continue;
        if (!booked && !item.check.allowed()) continue;
      }
      // For a meter of which nothing is taken no time passes, be the start a later one.
      Instant charged_at = start;
      if (item.draw.cost > 0 && start != now) {
        charged_at = item.meter->book(now, start, item.draw.cost);
      } else if (item.draw.cost > 0) {
        charged_at = item.meter->charge(now, item.draw.cost);
      }
      charges.push_back({item.draw.key, birth(item.draw.limit->name), item.draw.limit->unit,
                         item.draw.cost, item.draw.weight, charged_at,
                         kind_of(item.draw.limit->meter)});
      if (item.draw.cost > 0 && item.meter->has_ebbs()) {
        charges.back().ebb = item.meter->in_use(now);
      }
    }
    hold(asked, charges, options.hold, start, now, answer);
  }
  answer.rows = rows(asked, now);
  keep(asked);
  return answer;
}

Answer Model::peek(const Request& request, Instant now) {
  // Reading: it reports what there is, since nothing has been taken. It touches
  // what there is, but begins nothing.
  std::vector<Item> asked = items(request, now);
  for (const Item& item : asked) reshape_ebbs(item.draw.key, now);
  Answer answer = judge(asked, now);
  answer.rows = rows(asked, now);
  std::erase_if(asked, [&](const Item& item) { return !meters_.contains(item.draw.key); });
  keep(asked);
  return answer;
}

template <typename Visit>
void Model::for_each_ebb(const Key& key, Visit&& visit) {
  for (auto& [id, hold] : holds_) {
    if (hold.state != HoldState::kActive) continue;
    for (Charge& charge : hold.charges) {
      if (charge.key == key && survives(charge) && charge.ebb) visit(id, charge);
    }
  }
}

void Model::see_ebb(const Key& key, Instant now) {
  const auto seen = seen_.find(key);
  if (seen == seen_.end()) return;
  const Exact low = seen->second->in_use(now);
  for_each_ebb(key,
               [&](std::uint64_t, Charge& charge) { charge.ebb = std::min(*charge.ebb, low); });
}

void Model::drain_ebbs(const Key& key) {
  seen_.erase(key);
  for_each_ebb(key, [](std::uint64_t, Charge& charge) { charge.ebb = 0; });
}

void Model::reshape_ebbs(const Key& key, Instant now) {
  const auto found = meters_.find(key);
  if (found == meters_.end() || same_parameters(found->second.spec, parameters(key))) return;
  if (kind_of(found->second.spec) != kind_of(parameters(key))) return drain_ebbs(key);
  if (!seen_.contains(key)) return;
  see_ebb(key, now);
  std::unique_ptr<Meter> reshaped = view(key, now);
  for_each_ebb(key, [&](std::uint64_t, Charge& charge) {
    charge.ebb = reshaped->reshaped_use(*found->second.meter, *charge.ebb);
  });
  seen_[key] = std::move(reshaped);
}

// Reading: a window and a log count by instants, which what was carried over from another kind of
// meter does not have. A bucket and a ticker get no more than was in use all the time since.
void Model::give_back(std::uint64_t hold, Charge& charge, std::int64_t amount, Instant now) {
  Meter& meter = touch(charge.key, now);
  const Kind kind = kind_of(find(charge.key.first)->meter);
  if (!meter.has_ebbs()) {
    const bool by_instants = kind == Kind::kWindow || kind == Kind::kLog;
    if (!by_instants || kind == charge.kind) meter.give_back(now, charge.charged_at, amount);
    return;
  }
  see_ebb(charge.key, now);
  const Exact ebb = charge.ebb ? *charge.ebb : meter.left_of(charge.amount, charge.charged_at, now);
  const Exact given = std::min({meter.use_of(amount), ebb, meter.in_use(now)});
  meter.free(now, given);
  const bool is_known = charge.ebb.has_value();
  const Exact left = ebb - given;
  // Those charged later saw the level higher all their time, those before only since then.
  for_each_ebb(charge.key, [&](std::uint64_t other, Charge& seen) {
    if (is_known && other < hold) {
      seen.ebb = std::min(*seen.ebb, left);
    } else {
      seen.ebb = std::max(Exact{0}, Exact{*seen.ebb - given});
    }
  });
  if (seen_.contains(charge.key)) seen_[charge.key] = meter.copy();
}

HoldState Model::settle(std::uint64_t id, std::span<const Cost> actual, Instant now) {
  const auto found = holds_.find(id);
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  Hold& hold = found->second;
  if (hold.state != HoldState::kActive) return hold.state;
  for (Charge& charge : hold.charges) {
    if (!survives(charge)) continue;
    std::int64_t used = charge.amount;
    for (const Cost& cost : actual) {
      if (cost.unit == charge.unit) used = cost.amount * charge.weight;
    }
    if (naive::is_slots(find(charge.key.first)->meter)) used = 0;
    if (used > charge.amount) {
      const LimitSpec& limit = *find(charge.key.first);
      Meter& meter = touch(charge.key, now);
      see_ebb(charge.key, now);
      meter.owe(now, used - charge.amount, limit.overage.value_or(10 * meter.capacity()));
      if (seen_.contains(charge.key)) seen_[charge.key] = meter.copy();
    }
    if (used < charge.amount) give_back(id, charge, charge.amount - used, now);
  }
  hold.state = HoldState::kSettled;
  return HoldState::kSettled;
}

HoldState Model::cancel(std::uint64_t id, Instant now) {
  const auto found = holds_.find(id);
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  Hold& hold = found->second;
  if (hold.state != HoldState::kActive) return hold.state;
  for (Charge& charge : hold.charges) {
    if (!survives(charge) || charge.amount == 0) continue;
    give_back(id, charge, charge.amount, now);
  }
  hold.state = HoldState::kCancelled;
  return HoldState::kCancelled;
}

HoldState Model::renew(std::uint64_t id, Duration ttl, Instant now) {
  const auto found = holds_.find(id);
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  if (found->second.state == HoldState::kActive) found->second.expires = now + ttl;
  return found->second.state;
}

void Model::advance(Instant now) {
  for (auto& [id, hold] : holds_) {
    if (hold.state != HoldState::kActive || hold.expires > now) continue;
    hold.state = HoldState::kGone;
    for (const Charge& charge : hold.charges) {
      if (!survives(charge) || !naive::is_slots(find(charge.key.first)->meter)) continue;
      touch(charge.key, now).give_back(now, charge.charged_at, charge.amount);
    }
  }
}

std::size_t Model::active_holds() const {
  return static_cast<std::size_t>(std::count_if(holds_.begin(), holds_.end(), [](const auto& hold) {
    return hold.second.state == HoldState::kActive;
  }));
}

Instant Model::next_expiry() const {
  Instant next = kForever;
  for (const auto& [id, hold] : holds_) {
    if (hold.state == HoldState::kActive) next = std::min(next, hold.expires);
  }
  return next;
}

void Model::restart() {
  seen_.clear();
  for (auto& [id, hold] : holds_) {
    for (Charge& charge : hold.charges) charge.ebb.reset();
  }
}

void Model::swap(RuleSetSpec rules) {
  const RuleSetSpec old = std::exchange(rules_, std::move(rules));
  for (const LimitSpec& limit : old.limits) {
    // Slots count what is in flight and the others what was spent: between these
    // nothing is kept.
    const LimitSpec* kept = find(limit.name);
    if (kept != nullptr && naive::is_slots(kept->meter) == naive::is_slots(limit.meter)) continue;
    deaths_[limit.name] += 1;
    const auto dropped = [&](const auto& entry) { return entry.first.first == limit.name; };
    std::erase_if(meters_, dropped);
    std::erase_if(overrides_, dropped);
    std::erase_if(seen_, dropped);
  }
  // Reading: parameters of its own end with the kind of meter they are for.
  std::erase_if(overrides_, [&](const auto& entry) {
    return kind_of(entry.second) != kind_of(find(entry.first.first)->meter);
  });
}

void Model::set_override(const Key& key, const MeterSpec& spec, Instant now) {
  overrides_[key] = spec;
  // Reading: parameters of its own make a key known, so an empty ticker begins here.
  touch(key, now);
}

bool Model::clear_override(const Key& key, Instant now) {
  if (!overrides_.contains(key)) return false;
  overrides_.erase(key);
  touch(key, now);
  return true;
}

Inspection Model::inspect(const Key& key, Instant now) {
  if (meters_.contains(key)) touch(key, now);
  const std::unique_ptr<Meter> meter = view(key, now);
  return {meter->level(now), meter->capacity(), overrides_.contains(key), 0};
}

void Model::reset(const Key& key, Instant now) {
  // What is in flight was not spent: slots come back when the work ends.
  if (std::holds_alternative<SlotsSpec>(parameters(key))) return;
  for (auto& [id, hold] : holds_) {
    for (Charge& charge : hold.charges) {
      if (charge.key == key) charge.amount = charge.weight = 0;
    }
  }
  // Reading: a key that was asked before stays known, so an empty ticker begins anew
  // here, not when it is asked again.
  seen_.erase(key);
  if (meters_.erase(key) > 0) touch(key, now);
}

std::vector<Key> Model::keys() const {
  std::set<Key> keys;
  for (const auto& [key, entry] : meters_) keys.insert(key);
  for (const auto& [key, spec] : overrides_) keys.insert(key);
  return {keys.begin(), keys.end()};
}

const MeterSpec& Model::parameters(const Key& key) const {
  const auto overridden = overrides_.find(key);
  return overridden != overrides_.end() ? overridden->second : find(key.first)->meter;
}

std::unique_ptr<Meter> Model::view(const Key& key, Instant now) const {
  const MeterSpec& spec = parameters(key);
  const auto found = meters_.find(key);
  if (found == meters_.end()) return make_meter(spec, now);
  const Entry& entry = found->second;
  if (same_parameters(entry.spec, spec)) return entry.meter->copy();
  // A meter back in its initial state cannot be told from none.
  if (entry.meter->is_initial(now)) return make_meter(spec, now);
  if (kind_of(entry.spec) == kind_of(spec)) {
    std::unique_ptr<Meter> meter = entry.meter->copy();
    meter->reshape(spec, now);
    return meter;
  }
  // Another kind of meter: what was spent is spent there.
  std::unique_ptr<Meter> meter = make_meter(spec, now);
  const std::int64_t spent = entry.meter->capacity() - entry.meter->level(now);
  if (spent > 0) meter->charge(now, spent);
  return meter;
}

Meter& Model::touch(const Key& key, Instant now) {
  reshape_ebbs(key, now);
  std::unique_ptr<Meter> meter = view(key, now);
  Entry& entry = meters_[key];
  entry = {parameters(key), std::move(meter)};
  return *entry.meter;
}

// Reading: a limit that was dropped and came back is another one, which owes
// nothing to holds from before.
bool Model::survives(const Charge& charge) const {
  return find(charge.key.first) != nullptr && birth(charge.key.first) == charge.birth;
}

std::uint64_t Model::birth(const std::string& limit) const {
  const auto found = deaths_.find(limit);
  return found == deaths_.end() ? 0 : found->second;
}

}  // namespace weir::engine::naive
