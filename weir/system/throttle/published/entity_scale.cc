// Text to steps, and steps to a factor: the last one whose percentage is reached.

#include "weir/system/throttle/published/entity_scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/in_quotes.h"
#include "weir/base/integer.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(EntityKind::kNone)> kKinds = {
    "ACCOUNT",
    "AIRDROP",
    "CONTRACT_BYTECODE",
    "CONTRACT_STORAGE",
    "FILE",
    "NFT",
    "NODE",
    "SCHEDULE",
    "TOKEN",
    "TOKEN_ASSOCIATION",
    "TOPIC"};

Error bad_scales(std::string_view text, std::string_view what) {
  return bad_argument(
      fmt::format("entity scale factors are {}, but {}; write such as "
                  "'DEFAULT(50,3:2),NFT(0,1:1,95,7:2)'",
                  in_quotes(text), what));
}

}  // namespace

EntityKind entity_kind(std::string_view name) noexcept {
  const auto found = std::find(kKinds.begin(), kKinds.end(), name);
  return static_cast<EntityKind>(found - kKinds.begin());
}

EntityKind created_by(OperationId operation, std::int32_t nfts) noexcept {
  switch (operation) {
    case operation::kCryptoCreate:
      return EntityKind::kAccount;
    case operation::kContractCreate:
      return EntityKind::kContractBytecode;
    case network_operation("FileCreate"):
      return EntityKind::kFile;
    case operation::kTokenMint:
      return nfts > 0 ? EntityKind::kNft : EntityKind::kNone;
    case network_operation("TokenCreate"):
      return EntityKind::kToken;
    case operation::kTokenAssociate:
      return EntityKind::kTokenAssociation;
    case network_operation("ConsensusCreateTopic"):
      return EntityKind::kTopic;
    case network_operation("TokenAirdrop"):
      return EntityKind::kAirdrop;
    default:
      return EntityKind::kNone;
  }
}

// What is not of the form NAME(...) is passed over, as published.
Result<EntityScales> EntityScales::parse(std::string_view text) {
  EntityScales scales;
  std::string_view rest = text;
  for (;;) {
    const std::size_t open = rest.find('(');
    const std::size_t close = open == std::string_view::npos ? open : rest.find(')', open);
    if (close == std::string_view::npos) return scales;
    const std::string_view name = rest.substr(0, open);
    const EntityKind kind = entity_kind(name);
    if (name != "DEFAULT" && kind == EntityKind::kNone) {
      return bad_scales(text, fmt::format("{} is no kind of entity", in_quotes(name)));
    }
    Steps* const kept =
        name == "DEFAULT" ? &scales.default_ : &scales.by_kind_[static_cast<std::size_t>(kind)];
    *kept = {.is_set = true};
    std::vector<Step>& steps = kept->steps;
    const std::string_view list = rest.substr(open + 1, close - open - 1);
    const bool good = parse_triggers(list, [&](std::int32_t percent, std::string_view value) {
      const std::optional<ScaleFactor> factor = parse_scale(value);
      if (!factor) return false;
      if (!steps.empty() && !is_less(steps.back().factor, *factor)) return false;
      steps.push_back({percent, *factor});
      return true;
    });
    if (!good) {
      return bad_scales(
          text, fmt::format("the list of {} does not rise, or is incomplete", in_quotes(name)));
    }
    rest.remove_prefix(close + 1);
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
}

ScaleFactor EntityScales::factor(EntityKind kind, std::int32_t percent_used) const noexcept {
  if (kind == EntityKind::kNone) return {};
  const Steps& own = by_kind_[static_cast<std::size_t>(kind)];
  ScaleFactor chosen;
  for (const Step& step : own.is_set ? own.steps : default_.steps) {
    if (percent_used < step.percent) break;
    chosen = step.factor;
  }
  return chosen;
}

std::int32_t percent_of(std::int64_t count, std::int64_t maximum) noexcept {
  if (maximum == 0) return 100;
  return static_cast<std::int32_t>(saturate(Wide{count} * 100 / maximum));
}

}  // namespace weir::system::throttle
