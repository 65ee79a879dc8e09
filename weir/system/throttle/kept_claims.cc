#include "weir/system/throttle/kept_claims.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

namespace weir::system::throttle {
namespace {

constexpr std::string_view kForm = "claims 1";

// The words of a line, one after the other.
class LineWords {
 public:
  explicit LineWords(std::string_view line) noexcept : left_(line) {}

  bool at_end() const noexcept { return left_.empty(); }
  std::string_view next() noexcept {
    const std::size_t space = left_.find(' ');
    const std::string_view word = left_.substr(0, space);
    left_ = space == std::string_view::npos ? std::string_view() : left_.substr(space + 1);
    return word;
  }
  template <typename Number>
  bool number(Number& into) noexcept {
    const std::string_view word = next();
    const auto read = std::from_chars(word.data(), word.data() + word.size(), into);
    return !word.empty() && read.ec == std::errc{} && read.ptr == word.data() + word.size();
  }

 private:
  std::string_view left_;
};

constexpr std::string_view kItemKinds = "bgy";

bool read_claim(std::string_view line, KeptClaim& claim) {
  LineWords words(line);
  if (!words.number(claim.number) || claim.number == 0 || !words.number(claim.word)) return false;
  const std::string_view role = words.next();
  if (role != "f" && role != "c") return false;
  claim.role = role == "c" ? SetRole::kConsensus : SetRole::kFrontEnd;
  if (!words.number(claim.at.seconds) || !words.number(claim.at.nanos)) return false;
  if (claim.at.nanos < 0 || claim.at.nanos > 999'999'999) return false;
  while (!words.at_end()) {
    // At most gas, bytes and every bucket.
    if (claim.items.size() == kBucketsMax + 2) return false;
    ThrottleSet::KeptItem& item = claim.items.emplace_back();
    const std::string_view kind = words.next();
    if (kind.size() != 1 || kItemKinds.find(kind) == std::string_view::npos) return false;
    item.kind = static_cast<Claims::Kind>(kItemKinds.find(kind));
    if (!words.number(item.bucket) || !words.number(item.amount) || item.amount < 0) return false;
  }
  return true;
}

}  // namespace

std::string to_text(const ClaimSheet& sheet) {
  std::string text = fmt::format("{} {} {}\n", kForm, sheet.front_end_shape, sheet.consensus_shape);
  const auto out = std::back_inserter(text);
  for (const KeptClaim& claim : sheet.claims) {
    fmt::format_to(out, "{} {} {} {} {}", claim.number, claim.word,
                   claim.role == SetRole::kConsensus ? 'c' : 'f', claim.at.seconds, claim.at.nanos);
    for (const ThrottleSet::KeptItem& item : claim.items) {
      fmt::format_to(out, " {} {} {}", kItemKinds[static_cast<std::size_t>(item.kind)], item.bucket,
                     item.amount);
    }
    text += '\n';
  }
  return text;
}

Result<ClaimSheet> parse_claim_sheet(std::string_view text) {
  ClaimSheet sheet;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    number += 1;
    bool is_sound = end != std::string_view::npos;
    if (is_sound && number == 1) {
      LineWords words(line);
      is_sound = words.next() == "claims" && words.next() == "1" &&
                 words.number(sheet.front_end_shape) && words.number(sheet.consensus_shape) &&
                 words.at_end();
    } else if (is_sound) {
      is_sound =
          sheet.claims.size() < kClaimsOfSheet && read_claim(line, sheet.claims.emplace_back());
    }
    if (!is_sound) {
      return bad_argument(fmt::format(
          "claims: line {} is not one of a sheet of claims; the others of the state are used",
          number));
    }
    text.remove_prefix(end + 1);
  }
  if (number == 0) return bad_argument("claims: the sheet is empty; it must begin with 'claims 1'");
  return sheet;
}

}  // namespace weir::system::throttle
