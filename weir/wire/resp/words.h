// Words: a request for a decision, as the words of a command.
//
//   WEIR.ACQUIRE client=acme operation=put COST tokens=1200 HOLD 60s WAIT 5s
//                ^ attributes              ^ options, in any order
//
// Attributes come first, as NAME=VALUE; a value may hold further equals signs. COST
// takes one or more UNIT=AMOUNT and may be repeated; amounts are whole, or decimal in a unit that
// is counted in millionths.
//
// Thread safety: none. Asks belong to one thread.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/engine/engine.h"

namespace weir::wire::resp {

using Words = std::span<const std::string_view>;

// What the asks of one batch point to.
class AskPool {
 public:
  // Forgets what was read. Asks of up to `words` words in all are read next.
  void begin(std::size_t words);

  // Reads the words after the command's name, which came at `now`. `rules` tells how units are
  // counted. The ask is good until begin(). An error is the text to reply; its first word is the
  // code.
  Result<engine::Ask> read(Words words, const engine::RuleSet& rules, Instant now);

  // Reads `UNIT=AMOUNT`.
  static Result<engine::Cost> read_cost(std::string_view word, const engine::RuleSet& rules);

 private:
  Status read_want(std::string_view text, engine::Ask& ask);
  Status read_option(Words& words, const engine::RuleSet& rules, Instant now, engine::Ask& ask);

  // Each word gives one of either at most, so neither moves while asks point into it.
  std::vector<engine::Attribute> attributes_;
  std::vector<engine::Cost> costs_;
};

// Reads the words after a command's name, `LIMIT NAME=VALUE ...` in any order, into the
// values of that limit's key.
Result<std::vector<std::string_view>> read_key(Words words, const engine::RuleSet& rules);

// Whether two words are equal but for the case of their letters.
bool is_word(std::string_view word, std::string_view expected) noexcept;

}  // namespace weir::wire::resp
