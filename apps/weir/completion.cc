#include "apps/weir/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

namespace weir::app {
namespace {

// The words of `{a,b}` in an option's type, where its values are known.
std::string choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::string words = type.substr(open + 1, close - open - 1);
  for (char& c : words) c = c == ',' ? ' ' : c;
  return words;
}

bool takes_file(const CLI::Option& option) { return option.get_type_name().starts_with("FILE"); }

// What follows an option that takes a value.
std::string value_rules(const CLI::App& command) {
  std::string rules;
  std::string others;  // anything may follow them
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    const std::string name = "--" + option->get_lnames().front();
    const std::string choices = choices_of(*option);
    if (takes_file(*option) || !choices.empty()) {
      rules += fmt::format("        {}) COMPREPLY=($(compgen {} -- \"$cur\")); return ;;\n", name,
                           choices.empty() ? "-f" : fmt::format("-W '{}'", choices));
    } else {
      others += (others.empty() ? "" : "|") + name;
    }
  }
  if (!others.empty()) rules += fmt::format("        {}) return ;;\n", others);
  return rules;
}

// What may stand where no value is wanted.
std::string word_rule(const CLI::App& command) {
  std::string words;
  std::string files;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      if (takes_file(*option)) files = " -f";
      const std::string choices = choices_of(*option);
      if (!choices.empty()) words += choices + ' ';
    }
    for (const std::string& name : option->get_lnames()) words += "--" + name + ' ';
  }
  for (const CLI::App* sub : command.get_subcommands({})) words += sub->get_name() + ' ';
  if (!words.empty()) words.pop_back();
  return fmt::format("COMPREPLY=($(compgen -W '{}'{} -- \"$cur\"))", words, files);
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string script =
      "# bash completion for weir; made by `weir completion bash`.\n"
      "_weir() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=\n"
      "  COMPREPLY=()\n"
      "  [[ $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}\n"
      "  case $command in\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    script += fmt::format("    {})\n", command->get_name());
    if (const std::string rules = value_rules(*command); !rules.empty()) {
      script += fmt::format("      case $prev in\n{}      esac\n", rules);
    }
    script += fmt::format("      {} ;;\n", word_rule(*command));
  }
  script += fmt::format(
      "    *)\n      {} ;;\n"
      "  esac\n"
      "}}\n"
      "complete -F _weir weir\n",
      word_rule(app));
  return script;
}

}  // namespace weir::app
