// Fields are written one by one, little endian. The reader checks each against its bound as it
// comes, and remembers that one was wrong, so one check at the end is enough.

#include "weir/system/contract/account_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weir::system::contract {

using engine::HoldState;

namespace {

constexpr std::uint64_t kFormat = 2;
constexpr std::uint64_t kFormerFormat = 1;  // without `counted`
constexpr std::size_t kCountedBytes = 2;
constexpr std::size_t kReservationBytes = 33 + kCountedBytes;
constexpr std::size_t kLoweringBytes = 25;
constexpr std::size_t kOwnerBytes = 24;
constexpr std::size_t kPolicyBytes = 25;

// Little endian, whatever the machine's own order.
class Writer {
 public:
  void put(std::uint64_t value, std::size_t bytes = 8) {
    for (std::size_t i = 0; i < bytes; ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  void put(std::int64_t value) { put(static_cast<std::uint64_t>(value)); }
  void put(Instant at) { put(at.ns); }
  void put(Wide level_fs) {
    put(static_cast<std::uint64_t>(level_fs));
    put(static_cast<std::uint64_t>(level_fs >> 64));
  }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes_.size() + bytes); }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads zeros past the end, and remembers that it did, or that something was out of range.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  std::uint64_t get(std::size_t bytes = 8) {
    if (left_.size() < bytes) {
      fail();
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{octet(i)} << (8 * i);
    left_ = left_.subspan(bytes);
    return value;
  }
  std::int64_t integer(std::int64_t least, std::int64_t most) {
    const auto value = static_cast<std::int64_t>(get());
    if (value >= least && value <= most) return value;
    fail();
    return least;
  }
  Instant instant() { return Instant{integer(0, kForever.ns)}; }
  Wide level_fs() {
    const std::uint64_t low = get();
    const auto high = static_cast<std::int64_t>(get());
    const Wide value = Wide{high} << 64 | low;
    if (value >= kLevelMin && value <= kLevelMax) return value;
    fail();
    return 0;
  }
  // One of so many.
  std::uint8_t choice(std::uint8_t count) {
    const std::uint64_t value = get(1);
    if (value < count) return static_cast<std::uint8_t>(value);
    fail();
    return 0;
  }
  // How many of something follow; none if so many cannot be there.
  std::size_t count(std::size_t bytes_each, std::size_t most) {
    const std::size_t count = get(4);
    if (count <= most && count <= left_.size() / bytes_each) return count;
    fail();
    return 0;
  }
  void fail() {
    left_ = {};
    whole_ = false;
  }
  bool is_whole() const { return whole_; }
  bool is_done() const { return whole_ && left_.empty(); }

 private:
  std::uint8_t octet(std::size_t i) const { return static_cast<std::uint8_t>(left_[i]); }

  std::span<const std::byte> left_;
  bool whole_ = true;
};

std::vector<Policy> read_policies(Reader& in) {
  std::vector<Policy> policies(in.count(kPolicyBytes, kPoliciesMax));
  for (Policy& policy : policies) {
    const auto resource = static_cast<Resource>(in.choice(2));
    const std::int64_t capacity = in.integer(0, kCapacityMax);
    const Duration period{in.integer(0, kForever.ns)};
    const std::int64_t refill_ns = in.integer(1, kNeverRefills);
    const Result<Policy> made = make_policy(resource, capacity, period, refill_ns);
    if (made) {
      policy = *made;
    } else {
      in.fail();
    }
  }
  return policies;
}

void write(Writer& out, const std::vector<Policy>& policies) {
  out.put(policies.size(), 4);
  for (const Policy& policy : policies) {
    out.put(static_cast<std::uint64_t>(policy.resource), 1);
    out.put(policy.capacity);
    out.put(policy.period.count());
    out.put(policy.refill_ns);
  }
}

void write(Writer& out, const Book::Saved& book) {
  for (const Wide level_fs : book.levels_fs) out.put(level_fs);
  out.put(book.at);
  out.put(book.not_before);
  out.put(book.first_number);
  out.reserve(book.reservations.size() * kReservationBytes);
  out.put(book.reservations.size(), 4);
  for (const Book::Reservation& each : book.reservations) {
    out.put(each.start);
    out.put(each.expires);
    out.put(each.costs.requests_micro);
    out.put(each.costs.processing_units_micro);
    out.put(static_cast<std::uint64_t>(each.state), 1);
    out.put(each.counted.to_ulong(), kCountedBytes);
  }
  out.put(book.lowerings.size(), 4);
  for (const Book::Lowering& each : book.lowerings) {
    out.put(each.at);
    out.put(each.policy, 1);
    out.put(each.by_fs);
  }
}

// Whatever the bytes are, everything in it is in range.
Book::Saved read_book(Reader& in, std::vector<Policy> policies, std::uint64_t format) {
  Book::Saved book;
  for (std::size_t i = 0; i < policies.size(); ++i) book.levels_fs.push_back(in.level_fs());
  book.at = in.instant();
  book.not_before = in.instant();
  book.first_number = in.get();
  if (book.first_number == 0 || book.first_number > std::uint64_t{1} << 63) in.fail();
  const std::size_t counted_bytes = format == kFormerFormat ? 0 : kCountedBytes;
  const std::size_t count =
      in.count(kReservationBytes - kCountedBytes + counted_bytes, kReservationsMax);
  Instant last{};
  for (std::size_t i = 0; i < count && in.is_whole(); ++i) {
    Book::Reservation& each = book.reservations.emplace_back();
    each.start = in.instant();
    each.expires = in.instant();
    each.costs.requests_micro = in.integer(0, kCostMicroMax);
    each.costs.processing_units_micro = in.integer(0, kCostMicroMax);
    each.state = static_cast<HoldState>(in.choice(4));
    each.counted = in.get(counted_bytes);
    // A cancelled one may lie after those that took its place.
    if (each.state == HoldState::kCancelled) continue;
    if (each.start < last && each.state == HoldState::kActive) in.fail();
    last = later_of(last, each.start);
  }
  const std::size_t lowerings = in.count(kLoweringBytes, kLoweringsMax);
  for (std::size_t i = 0; i < lowerings && in.is_whole(); ++i) {
    Book::Lowering& each = book.lowerings.emplace_back();
    each.at = in.instant();
    each.policy = in.choice(static_cast<std::uint8_t>(policies.size()));
    each.by_fs = in.level_fs();
    if (each.by_fs < 0) in.fail();
  }
  book.policies = std::move(policies);
  return book;
}

}  // namespace

std::vector<std::byte> write_state(const AccountState& state) {
  Writer out;
  out.put(kFormat, 1);
  out.put(state.saved_at);
  out.put(static_cast<std::uint64_t>(state.rule), 1);
  write(out, state.book.policies);
  write(out, state.book);
  for (const Wide level_fs : state.published_fs) out.put(level_fs);
  out.put(state.published_at);
  out.put(state.refreshed_at.value_or(kForever));
  const std::size_t most = std::min(state.owners.size(), kOwnersMax);
  out.put(most, 4);
  for (std::size_t i = state.owners.size() - most; i < state.owners.size(); ++i) {
    out.put(state.owners[i].owner);
    out.put(state.owners[i].first);
    out.put(state.owners[i].end);
  }
  return std::move(out).take();
}

Result<AccountState> read_state(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const std::uint64_t format = in.get(1);
  if (in.is_whole() && format != kFormat && format != kFormerFormat) {
    return bad_argument(
        fmt::format("its format is {}, not {} or {}", format, kFormerFormat, kFormat));
  }
  AccountState state;
  state.saved_at = in.instant();
  state.rule = static_cast<Rule>(in.choice(2));
  std::vector<Policy> policies = read_policies(in);
  const std::size_t count = policies.size();
  state.book = read_book(in, std::move(policies), format);
  for (std::size_t i = 0; i < count; ++i) state.published_fs.push_back(in.level_fs());
  state.published_at = in.instant();
  const Instant refreshed_at = in.instant();
  if (refreshed_at != kForever) state.refreshed_at = refreshed_at;
  state.owners.resize(in.count(kOwnerBytes, kOwnersMax));
  for (Owner& former : state.owners) former = {in.get(), in.get(), in.get()};
  if (!in.is_done()) return bad_argument("it is not as an account was saved");
  return state;
}

void move_back(AccountState& state, Duration by) {
  const auto move = [by](Instant& at) {
    if (at != kForever) at = later_of(Instant{0}, at - by);
  };
  move(state.book.at);
  move(state.book.not_before);
  for (Book::Reservation& each : state.book.reservations) {
    move(each.start);
    move(each.expires);
  }
  for (Book::Lowering& each : state.book.lowerings) move(each.at);
  move(state.published_at);
  if (state.refreshed_at) move(*state.refreshed_at);
}

}  // namespace weir::system::contract
