// What holds whenever the lock is free:
//
//  1. latest never goes back, and a call that decides does so at latest: threads may arrive
//     out of order, time does not.
//  2. book and published_ have the same policies in the same order.
//  3. An id reaches the book only if it is this account's: of this process from first_own_ on,
//     or in a range of former_.
//  4. Costs and times are checked before anything is debited; a call that returns an error has
//     debited nothing.
//  5. The account decides by the rule of its options alone. Only that rule is told what is asked;
//     reports of the service reach both.

#include "weir/system/contract/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/base/keyed_word.h"
#include "weir/system/contract/costs.h"

namespace weir::system::contract {

using engine::HoldState;

namespace {

std::optional<Error> check_policies(std::string_view account, std::span<const Policy> policies) {
  if (policies.size() > kPoliciesMax) {
    return bad_argument(fmt::format(
        "too_many_policies: account {} has {} policies, but it may have {}; leave some out",
        in_quotes(account), policies.size(), kPoliciesMax));
  }
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Policy& a = policies[j];
      const Policy& b = policies[i];
      if (a.resource != b.resource || a.period != b.period) continue;
      return bad_argument(fmt::format(
          "{}: account {} has {} and {}, but of one resource and period there may be one; leave "
          "out the larger",
          a.capacity == b.capacity ? "duplicate_policy" : "overlapping_policies",
          in_quotes(account), policy_id(a), policy_id(b)));
    }
  }
  return std::nullopt;
}

std::optional<Error> check_time(std::string_view account, std::string_view what, Duration time) {
  if (time.count() >= 0 && time <= kTimeMax) return std::nullopt;
  return bad_argument(
      fmt::format("bad_time: account {}: {} is {} ns, but it must be between 0 and a year; write a "
                  "duration such as '100ms'",
                  in_quotes(account), what, time.count()));
}

std::optional<Error> check_now(Instant now) {
  if (now.ns >= 0 && now.ns <= kInstantNsMax) return std::nullopt;
  return bad_argument(fmt::format(
      "now is {} ns, but it must lie between 0 and 2^62 ns since the Unix epoch; pass a clock's "
      "instant",
      now.ns));
}

std::optional<Error> check_options(std::string_view account, const AccountOptions& options) {
  if (auto error = check_time(account, "jitter", options.jitter)) return error;
  if (auto error = check_time(account, "hold", options.hold)) return error;
  if (auto error = check_time(account, "retry_after_default", options.retry_after_default)) {
    return error;
  }
  return options.max_delay ? check_time(account, "max_delay", *options.max_delay) : std::nullopt;
}

// A service counts what starts, however late.
Duration jitter_of(const AccountOptions& options) {
  return options.role == AccountRole::kService ? Duration{0} : options.jitter;
}

std::uint64_t fresh_owner() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace

Status Account::check(std::string_view name, const std::vector<Policy>& policies,
                      const AccountOptions& options) {
  if (auto error = check_policies(name, policies)) return std::move(*error);
  if (auto error = check_options(name, options)) return std::move(*error);
  return Done{};
}

Result<std::shared_ptr<Account>> Account::create(std::string name, std::vector<Policy> policies,
                                                 const AccountOptions& options, Instant now) {
  if (Status status = check(name, policies, options); !status) return std::move(status).error();
  if (auto error = check_now(now)) return std::move(*error);
  return std::shared_ptr<Account>(new Account(std::move(name), std::move(policies), options, now));
}

Account::Account(std::string name, std::vector<Policy> policies, const AccountOptions& options,
                 Instant now)
    : Guarded(std::in_place, options, Book(policies, jitter_of(options), now)),
      name_(std::move(name)),
      owner_(options.owner ? *options.owner : fresh_owner()),
      published_(std::move(policies), now) {}

bool Account::owns(HoldId reservation) const {
  const auto is_of = [&](std::uint64_t owner) {
    return reservation.owner == owned_word(owner, reservation.number);
  };
  if (reservation.number >= first_own_ && is_of(owner_)) return true;
  return std::any_of(former_.begin(), former_.end(), [&](const Owner& former) {
    return reservation.number >= former.first && reservation.number < former.end &&
           is_of(former.owner);
  });
}

std::optional<Error> Account::check_contract() const {
  if (!locked().awaits_contract()) return std::nullopt;
  return Error{ErrorCode::kUnavailable,
               fmt::format("account {}: it has no policies until its service has answered for the "
                           "first time; ask again, or write 'policies' or 'file' for it",
                           in_quotes(name_))};
}

Result<HoldId> Account::grant(const Costs& costs, Instant start, Instant expires) {
  const Result<std::uint64_t> number = locked().book.grant(costs, start, expires);
  if (!number) return number.error();
  ++granted_;
  return HoldId{owned_word(owner_, *number), *number};
}

Result<Reserved> Account::reserve(const Ask& ask, Instant now) {
  if (auto error = check_costs(ask.costs)) return std::move(*error);
  if (auto error = check_now(now)) return std::move(*error);
  if (auto error = check_time(name_, "hold", ask.hold)) return std::move(*error);
  if (ask.who.size() > kAskNameBytesMax || ask.key.size() > kAskNameBytesMax) {
    return bad_argument(
        fmt::format("who and key have {} and {} bytes, but may have {}; shorten them",
                    ask.who.size(), ask.key.size(), kAskNameBytesMax));
  }
  const std::scoped_lock lock(*this);
  if (auto error = check_contract()) return std::move(*error);
  const Instant latest = locked().advance(now);
  if (locked().options.rule == Rule::kPublished) return ask_published(ask, latest);
  Result<std::optional<Reserved>> before = answered_before(ask, latest);
  if (!before) return std::move(before).error();
  if (*before) return std::move(**before);
  locked().book.expire(latest);
  locked().book.make_room(latest);
  locked().book.settle_places(latest);
  const Offer offer = locked().book.offer(ask.costs, latest);
  Reserved reserved;
  reserved.never = offer.never;
  reserved.start = offer.start;
  reserved.debited = {0, 0};
  if (offer.binding) reserved.binding = locked().book.policies()[*offer.binding];
  if (offer.never != Never::kNot) {
    reserved.verdict = Verdict::kNever;
    ++refused_;
    return reserved;
  }
  // A caller that could start at once need not wait for a thread that read its clock later.
  const Instant start = offer.start <= latest ? now : offer.start;
  const Duration delay = start - now;
  reserved.delay_ns = delay.count();
  const std::optional<Duration> max_delay =
      ask.max_delay ? ask.max_delay : locked().options.max_delay;
  if (start > ask.deadline || (max_delay && delay > *max_delay)) {
    reserved.verdict = Verdict::kDenied;
    ++refused_;
    return reserved;
  }
  // Not longer than the account's: everything after it stays open for as long.
  const bool is_own = ask.hold.count() > 0 && ask.hold < locked().options.hold;
  reserved.expires = offer.start + (is_own ? ask.hold : locked().options.hold);
  const Result<HoldId> granted = grant(ask.costs, offer.start, reserved.expires);
  if (!granted) return granted.error();
  reserved.reservation = *granted;
  reserved.debited = ask.costs;
  remember(ask, reserved);
  return reserved;
}

// Only what was granted is remembered: what was denied may be granted the next time.
Result<std::optional<Reserved>> Account::answered_before(const Ask& ask, Instant now) {
  while (!forget_at_.empty() && forget_at_.begin()->first <= now) {
    answered_.erase(forget_at_.begin()->second);
    forget_at_.erase(forget_at_.begin());
  }
  if (ask.key.empty()) return std::optional<Reserved>();
  auto found = answered_.find(ask.key);
  if (found != answered_.end()) {
    // What was given back is to be had again.
    const Reserved& reserved = found->second.reserved;
    if (locked().book.state_of(reserved.reservation.number) == HoldState::kCancelled) {
      forget_at_.erase({reserved.expires, ask.key});
      answered_.erase(found);
      found = answered_.end();
    }
  }
  if (found == answered_.end()) {
    if (answered_.size() < kAskKeysMax) return std::optional<Reserved>();
    return Error{ErrorCode::kExhausted,
                 fmt::format("account {}: {} keys of asks are remembered, as many as an account "
                             "keeps; ask without a key, or with a shorter hold",
                             in_quotes(name_), answered_.size())};
  }
  if (found->second.costs != ask.costs) {
    return bad_argument(fmt::format(
        "key_reused: account {}: key {} stands for an ask of other costs; choose another key",
        in_quotes(name_), in_quotes(ask.key)));
  }
  Reserved again = found->second.reserved;
  again.start = later_of(again.start, now);
  again.delay_ns = (again.start - now).count();
  return std::optional(again);
}

void Account::remember(const Ask& ask, const Reserved& reserved) {
  if (!ask.who.empty()) {
    names_.erase(names_.begin(), names_.lower_bound(locked().book.first_number()));
    names_.emplace(reserved.reservation.number, ask.who);
  }
  if (ask.key.empty()) return;
  answered_.emplace(ask.key, Answered{ask.costs, reserved});
  forget_at_.emplace(reserved.expires, ask.key);
}

Listing Account::list(std::string_view who, std::uint64_t after, std::size_t most) const {
  const std::scoped_lock lock(*this);
  const Book& book = locked().book;
  Listing listing;
  const std::uint64_t first = book.first_number();
  const std::uint64_t end = first + book.reservations().size();
  const std::uint64_t begin = std::max(first, after < end ? after + 1 : end);
  for (std::uint64_t number = begin; number < end; ++number) {
    if (listing.rows.size() >= std::min(most, kListedMax) || number - begin >= kLookedAtMax) {
      listing.next = number - 1;
      break;
    }
    const Book::Reservation& one = book.reservations()[static_cast<std::size_t>(number - first)];
    if (one.state != HoldState::kActive || book.is_place(number)) continue;
    const auto name = names_.find(number);
    if (!who.empty() && (name == names_.end() || name->second != who)) continue;
    listing.rows.push_back({id_of(number), one.start, one.expires, one.costs,
                            name == names_.end() ? std::string() : name->second});
  }
  return listing;
}

// Of this process, or of the one before that made it.
HoldId Account::id_of(std::uint64_t number) const {
  std::uint64_t owner = owner_;
  for (const Owner& former : former_) {
    if (number < first_own_ && number >= former.first && number < former.end) owner = former.owner;
  }
  return {owned_word(owner, number), number};
}

Error Account::wrong_rule(std::string_view what) const {
  return bad_argument(fmt::format(
      "wrong_rule: account {} follows the published rule, which {}; write 'rule: reservation' "
      "for it",
      in_quotes(name_), what));
}

Result<Reserved> Account::ask_published(const Ask& ask, Instant now) {
  if (ask.deadline != kForever || ask.max_delay) {
    return wrong_rule(
        "debits every ask, however long it must wait, and so knows no deadline and no max_delay; "
        "leave them out, or");
  }
  if (!ask.who.empty() || !ask.key.empty()) {
    return wrong_rule("makes no reservations, and so knows no who and no key; leave them out, or");
  }
  const Result<Delay> delay = published_.ask(ask.costs, now);
  if (!delay) return delay.error();
  Reserved reserved;
  reserved.delay_ns = delay->delay_ns;
  reserved.start = Instant{saturate(now.ns + delay->delay_ns)};
  reserved.debited = ask.costs;
  // The sums fit: 2^62 for each of 2^64 asks.
  asked_.requests_micro += ask.costs.requests_micro;
  asked_.processing_units_micro += ask.costs.processing_units_micro;
  if (delay->binding) reserved.binding = published_.policies()[*delay->binding];
  ++granted_;
  return reserved;
}

Result<Committed> Account::commit(HoldId reservation, const std::optional<Costs>& actual,
                                  Instant now) {
  if (actual) {
    if (auto error = check_costs(*actual)) return std::move(*error);
  }
  if (auto error = check_now(now)) return std::move(*error);
  const std::scoped_lock lock(*this);
  if (!owns(reservation)) return Committed{};
  Committed committed{locked().book.commit(reservation.number, actual, locked().advance(now)), {}};
  if (committed.state == HoldState::kSettled) {
    committed.debited = locked().book.settled(reservation.number);
  }
  return committed;
}

HoldState Account::release(HoldId reservation, Instant now) {
  if (check_now(now)) return HoldState::kGone;
  const std::scoped_lock lock(*this);
  if (!owns(reservation)) return HoldState::kGone;
  return locked().book.release(reservation.number, locked().advance(now));
}

std::optional<Costs> Account::reserved(HoldId reservation) const {
  const std::scoped_lock lock(*this);
  if (!owns(reservation)) return std::nullopt;
  return locked().book.reserved(reservation.number);
}

Result<Consumed> Account::consume(const Costs& costs, Instant now) {
  if (auto error = check_costs(costs)) return std::move(*error);
  if (auto error = check_now(now)) return std::move(*error);
  const std::scoped_lock lock(*this);
  if (locked().options.rule == Rule::kPublished) {
    return wrong_rule("tells how long to wait and never refuses; reserve, or");
  }
  if (auto error = check_contract()) return std::move(*error);
  now = locked().advance(now);
  locked().book.expire(now);
  locked().book.make_room(now);
  locked().book.settle_places(now);
  Consumed consumed;
  consumed.debited = {0, 0};
  // Those who have a later start come first.
  const Instant base = locked().book.first_start(now);
  consumed.refusal = refusal_of(locked().book.standing(costs, base), base - now);
  if (consumed.refusal) {
    ++refused_;
    consumed.policies = locked().book.policies();
    return consumed;
  }
  const Result<HoldId> granted = grant(costs, now, now + locked().options.hold);
  if (!granted) return granted.error();
  consumed.reservation = *granted;
  consumed.debited = costs;
  return consumed;
}

Status Account::feedback(const Met& met, Instant now) {
  if (auto error = check_costs(met.costs)) return std::move(*error);
  if (auto error = check_now(now)) return std::move(*error);
  const std::scoped_lock lock(*this);
  if (locked().options.rule == Rule::kPublished) {
    return wrong_rule("keeps its values whatever a worker meets; leave refusals unreported, or");
  }
  std::optional<std::size_t> violated;
  if (met.violated) {
    const std::vector<Policy>& known = locked().book.policies();
    const auto found = std::find(known.begin(), known.end(), *met.violated);
    if (found == known.end()) {
      return bad_argument(fmt::format(
          "account {}: policy {} is not one of its own; name one that it has now, or none",
          in_quotes(name_), policy_id(*met.violated)));
    }
    violated = static_cast<std::size_t>(found - known.begin());
  }
  now = locked().advance(now);
  Costs costs = met.costs;
  if (met.reservation) {
    if (!owns(met.reservation)) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("account {}: the reservation is not one of its own; report the one "
                               "that was refused, or none",
                               in_quotes(name_))};
    }
    locked().book.expire(now);
    costs = locked().book.reserved(met.reservation.number).value_or(costs);
    // The service has debited nothing.
    locked().book.release(met.reservation.number, now);
  }
  if (met.retry_after) {
    locked().book.lower(costs, *met.retry_after, violated, now,
                        unit_of(locked().options.retry_after));
  } else {
    // The default says nothing about any policy.
    locked().book.hold_off(locked().options.retry_after_default, now);
  }
  ++refusals_met_;
  return Done{};
}

Totals Account::finals() const {
  const std::scoped_lock lock(*this);
  Totals finals = locked().book.finals();
  finals.at = locked().latest;
  return finals;
}

Status Account::refresh(std::span<const std::optional<std::int64_t>> left_micro, Instant now) {
  if (auto error = check_now(now)) return std::move(*error);
  const std::scoped_lock lock(*this);
  if (left_micro.size() != locked().book.policies().size()) {
    return bad_argument(fmt::format("account {}: {} counts for {} policies; give one for each",
                                    in_quotes(name_), left_micro.size(),
                                    locked().book.policies().size()));
  }
  refresh_locked(left_micro, locked().book.finals(), locked().advance(now));
  return Done{};
}

void Account::refresh(std::span<const Count> counts, const Totals& before, Instant now) {
  if (check_now(now)) return;
  const std::scoped_lock lock(*this);
  refresh_counts_locked(counts, before, now);
}

void Account::refresh_counts_locked(std::span<const Count> counts, const Totals& before,
                                    Instant now) {
  const std::vector<Policy>& known = locked().book.policies();
  std::vector<std::optional<std::int64_t>> left_micro(known.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (const Count& count : counts) {
      if (count.resource == known[i].resource && count.period == known[i].period) {
        left_micro[i] = count.left_micro;
      }
    }
  }
  refresh_locked(left_micro, before, locked().advance(now));
}

void Account::refresh_locked(std::span<const std::optional<std::int64_t>> left_micro,
                             const Totals& before, Instant now) {
  locked().book.expire_all(now);
  std::vector<std::optional<std::int64_t>> unseen_less(left_micro.begin(), left_micro.end());
  for (std::size_t i = 0; i < left_micro.size(); ++i) {
    if (!left_micro[i]) continue;
    published_.set_left(i, *left_micro[i], now);
    const Resource resource = locked().book.policies()[i].resource;
    // Sums of a process before this one may be larger.
    const Wide unseen_micro =
        std::max<Wide>(0, locked().book.finals().of(resource) - before.of(resource));
    // Debt beyond the largest cost counts as that.
    // cppcheck-suppress constStatement  ; it takes the braces for another statement
    unseen_less[i] = saturate(std::max(Wide{*left_micro[i]} - unseen_micro, -Wide{kCostMicroMax}));
  }
  locked().book.refresh(unseen_less, now, earlier_of(before.at, now));
  const auto is_named = [](const std::optional<std::int64_t>& left) { return left.has_value(); };
  if (std::any_of(left_micro.begin(), left_micro.end(), is_named)) refreshed_at_ = now;
}

Status Account::change(std::vector<Policy> policies, Instant now) {
  if (auto error = check_policies(name_, policies)) return std::move(*error);
  if (auto error = check_now(now)) return std::move(*error);
  const std::scoped_lock lock(*this);
  now = locked().advance(now);
  if (policies == locked().book.policies()) return Done{};
  change_locked(std::move(policies), now);
  return Done{};
}

Status Account::change(std::vector<Policy> policies, std::span<const Count> counts,
                       const Totals& before, Instant now) {
  if (auto error = check_policies(name_, policies)) return std::move(*error);
  if (auto error = check_now(now)) return std::move(*error);
  const std::scoped_lock lock(*this);
  now = locked().advance(now);
  if (policies != locked().book.policies()) change_locked(std::move(policies), now);
  refresh_counts_locked(counts, before, now);
  return Done{};
}

void Account::change_locked(std::vector<Policy> policies, Instant now) {
  published_ = published_.changed(policies, now);
  locked().book.change(std::move(policies), now);
}

Status Account::change_options(const AccountOptions& options) {
  if (auto error = check_options(name_, options)) return std::move(*error);
  const std::scoped_lock lock(*this);
  if (options.role != locked().options.role || options.rule != locked().options.rule) {
    return bad_argument(fmt::format(
        "account {}: its role and rule cannot change while it has reservations and values; leave "
        "them, or restart",
        in_quotes(name_)));
  }
  locked().book.set_jitter(jitter_of(options));
  locked().options = options;
  return Done{};
}

AccountOptions Account::options() const {
  const std::scoped_lock lock(*this);
  return locked().options;
}

std::uint64_t Account::overages_clipped() const {
  const std::scoped_lock lock(*this);
  return locked().book.clipped();
}

std::vector<Policy> Account::policies() const {
  const std::scoped_lock lock(*this);
  return locked().book.policies();
}

void Account::set_given(std::vector<Contract> given) {
  const std::scoped_lock lock(*this);
  given_ = std::move(given);
}

std::vector<Contract> Account::given() const {
  const std::scoped_lock lock(*this);
  return given_;
}

void Account::set_followed(std::optional<Followed> followed) {
  const std::scoped_lock lock(*this);
  locked().followed = std::move(followed);
}

AccountView Account::view(Instant now) {
  const std::scoped_lock lock(*this);
  now = locked().advance(now);
  locked().book.expire_all(now);
  AccountView view;
  Published published = published_;
  published.advance(now);
  const std::vector<Standing> rows = locked().book.standing({0, 0}, now);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Policy& policy = locked().book.policies()[i];
    const Wide level_fs =
        locked().options.rule == Rule::kPublished ? published.levels_fs()[i] : rows[i].level_fs;
    PolicyView row{policy, left_micro(policy, level_fs), 0};
    const Wide missing_fs = full_fs(policy) - level_fs;
    row.full_in_ns = policy.is_fixed() && missing_fs > 0 ? Wide{-1} : wait_ns(missing_fs);
    view.policies.push_back(row);
  }
  view.outstanding = locked().book.outstanding();
  view.outstanding_costs = locked().book.outstanding_costs();
  view.last_start = locked().book.last_start();
  view.refreshed_at = refreshed_at_;
  view.followed = locked().followed;
  view.finals = locked().book.finals();
  view.finals.at = now;
  view.asked = asked_;
  view.overages_clipped = locked().book.clipped();
  view.refusals_met = refusals_met_;
  view.granted = granted_;
  view.refused = refused_;
  return view;
}

// --- beyond the process

std::uint64_t Account::changes() const {
  const std::scoped_lock lock(*this);
  return locked().book.changes() + published_.changes();
}

std::vector<std::byte> Account::save(Instant now) const {
  std::unique_lock lock(*this);
  AccountState state{.saved_at = later_of(now, locked().latest),
                     .rule = locked().options.rule,
                     .book = locked().book.saved(),
                     .published_fs = {published_.levels_fs().begin(), published_.levels_fs().end()},
                     .published_at = published_.at(),
                     .refreshed_at = refreshed_at_,
                     .owners = former_};
  const std::uint64_t first_own = first_own_;
  lock.unlock();  // a million reservations take a while to write
  // Those whose reservations may still be ended.
  std::erase_if(state.owners,
                [&](const Owner& former) { return former.end <= state.book.first_number; });
  state.owners.push_back(
      {owner_, first_own, state.book.first_number + state.book.reservations.size()});
  return write_state(state);
}

Status Account::restore(std::span<const std::byte> bytes, Instant now) {
  Result<AccountState> read = read_state(bytes);
  if (!read) return std::move(read).error();
  AccountState state = *std::move(read);
  move_back(state, std::max(Duration{0}, state.saved_at - now));

  const std::scoped_lock lock(*this);
  const std::vector<Policy> configured = locked().book.policies();
  const std::vector<Policy> saved = state.book.policies;
  first_own_ = state.book.first_number + state.book.reservations.size();
  former_ = std::move(state.owners);
  refreshed_at_ = state.refreshed_at;
  locked().book = Book(std::move(state.book), locked().book.jitter());
  published_ = Published(saved, std::move(state.published_fs), state.published_at);
  if (state.rule != locked().options.rule) follow_other_rule(now);
  // An account without policies of its own learnt those it had.
  if (!configured.empty() && configured != saved) change_locked(configured, now);
  return Done{};
}

// Only the rule that an account follows has been told what was used.
void Account::follow_other_rule(Instant now) {
  std::vector<std::optional<std::int64_t>> left;
  if (locked().options.rule == Rule::kReservation) {
    published_.advance(now);
    for (std::size_t i = 0; i < published_.policies().size(); ++i) {
      left.emplace_back(left_micro(published_.policies()[i], published_.levels_fs()[i]));
    }
    locked().book.refresh(left, now);
    return;
  }
  const std::vector<Standing> rows = locked().book.standing({0, 0}, now);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    published_.set_left(i, left_micro(locked().book.policies()[i], rows[i].level_fs), now);
  }
}

}  // namespace weir::system::contract
