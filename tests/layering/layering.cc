// Reads the #include lines and the words of files, by regular expressions: what a compiler would
// make of them does not matter here.

#include "tests/layering/layering.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <regex>

namespace weir::layering {
namespace {

// In the order of the design: each may use those before it.
constexpr std::array<std::string_view, 10> kFolders = {
    "base", "meter", "engine", "fetch", "system", "store", "config", "wire", "server", "testing"};
// Design section 7: wire does not use stores or configuration.
constexpr std::array<std::string_view, 3> kSplit = {"system", "store", "wire"};
// Beside weir/, and on the same include path: they use the library, it does not know them.
constexpr std::array<std::string_view, 6> kUsers = {"apps", "bench",    "examples",
                                                    "fuzz", "simulate", "tests"};

// The home of the operating system's clocks.
constexpr std::array<std::string_view, 2> kClockFiles = {"weir/base/clock.cc", "weir/base/clock.h"};

// Those that may wait in the machine's time.
struct Napper {
  std::string_view path;
  std::string_view reason;
};
constexpr std::array<Napper, 7> kNappers = {{
    {"weir/base/timed_wait.h", "looks at its Clock in between: what others wait by"},
    {"weir/base/alarm_thread.cc", "looks at its Clock in between, each second at the latest"},
    {"weir/system/contract/follower.cc", "looks at its Clock in between, ten times a second"},
    {"weir/server/recorder.cc", "how often it writes; no instant depends on it"},
    {"weir/store/sqlite/flusher.cc", "how often it writes; no instant depends on it"},
    {"weir/store/sqlite/sampling_journal.cc", "a pause before a disk that failed is tried again"},
    {"weir/testing/redis_server.cc", "waits for a process to start"},
}};

std::vector<std::string> parts(std::string_view path) {
  std::vector<std::string> result;
  for (const auto& part : std::filesystem::path(path)) result.push_back(part.string());
  return result;
}

std::size_t height(const std::string& folder) {
  return static_cast<std::size_t>(std::find(kFolders.begin(), kFolders.end(), folder) -
                                  kFolders.begin());
}

bool is_split(const std::string& folder) {
  return std::find(kSplit.begin(), kSplit.end(), folder) != kSplit.end();
}

bool names(const std::vector<std::string>& path, std::string_view part) {
  return std::find(path.begin(), path.end(), part) != path.end();
}

// The library of a file: of weir/wire/resp/reply.h it is wire_resp, of weir/engine/internal/plan.h
// engine. A folder inside a library is part of it.
std::string library_of(const std::vector<std::string>& path) {
  return is_split(path[1]) && path.size() > 3 ? path[1] + "_" + path[2] : path[1];
}

// Why `from` may not include `to`; empty if it may.
std::string objection(const std::vector<std::string>& from, const std::vector<std::string>& to,
                      bool is_quoted) {
  if (names(to, "..") || names(to, ".")) return "it must be named from the root, as weir/...";
  if (std::find(kUsers.begin(), kUsers.end(), to[0]) != kUsers.end()) {
    return "'weir' does not use '" + to[0] + "'";
  }
  if (to[0] != "weir") {
    return is_quoted ? "what is quoted must start with weir/; others stand in <>" : "";
  }
  if (to.size() < 3) return "it names no folder of weir";
  if (height(from[1]) == kFolders.size()) return "folder '" + from[1] + "' is not in the design";
  if (height(to[1]) == kFolders.size()) return "folder '" + to[1] + "' is not in the design";
  if (height(to[1]) > height(from[1])) return "'" + from[1] + "' stands above '" + to[1] + "'";
  if (from[1] == "wire" && (to[1] == "store" || to[1] == "config")) {
    return "'wire' does not use '" + to[1] + "'";
  }
  if (names(to, "internal") && library_of(from) != library_of(to)) {
    return "only '" + library_of(to) + "' uses what is internal to it";
  }
  const bool both_inside = from.size() > 3 && to.size() > 3;
  if (from[1] == to[1] && is_split(from[1]) && both_inside && from[2] != to[2]) {
    return "'" + from[2] + "' and '" + to[2] + "' do not know each other";
  }
  return {};
}

struct Include {
  std::size_t line;
  bool is_quoted;
  std::string path;
};

std::vector<Include> includes(std::string_view text) {
  static const std::regex include(R"re(^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">])re");
  std::vector<Include> found;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    found.push_back({number, match[1].str() == "\"", match[2].str()});
  }
  return found;
}

// A line without its comment. What stands in quotes stays, `//` in it as well.
std::string_view code_of(std::string_view line) {
  bool is_quoted = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) is_quoted = !is_quoted;
    if (!is_quoted && line[i] == '/' && line[i + 1] == '/') return line.substr(0, i);
  }
  return line;
}

// What `pattern` finds in a line that has one of `words`: most have none, and regular expressions
// take their time to say so. Comments do not count. `visit` is told the line's number and the
// match.
template <typename Visit>
void for_each_match(std::string_view text, const std::regex& pattern,
                    std::initializer_list<const char*> words, const Visit& visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(code_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool has_word = std::any_of(words.begin(), words.end(), [&](const char* word) {
      return line.find(word) != std::string::npos;
    });
    std::smatch match;
    if (has_word && std::regex_search(line, match, pattern)) visit(number, match[0].str());
  }
}

template <typename Visit>
std::size_t for_each_file(const std::string& root, std::string_view folder, const Visit& visit) {
  std::size_t files = 0;
  const std::string below = root + "/" + std::string(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(below)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cc") continue;
    ++files;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    visit(std::filesystem::relative(entry.path(), root).string(), text);
  }
  return files;
}

}  // namespace

std::vector<std::string> violations(std::string_view path, std::string_view text) {
  std::vector<std::string> found;
  for (const Include& include : includes(text)) {
    const std::string why = objection(parts(path), parts(include.path), include.is_quoted);
    if (why.empty()) continue;
    found.push_back(std::string(path) + ":" + std::to_string(include.line) + ": includes " +
                    include.path + ", but " + why);
  }
  return found;
}

std::vector<std::string> violations_below(const std::string& root, std::size_t& files) {
  std::vector<std::string> found;
  files = for_each_file(root, "weir", [&](const std::string& path, const std::string& text) {
    for (std::string& violation : violations(path, text)) found.push_back(std::move(violation));
  });
  return found;
}

void add_uses(std::string_view path, std::string_view text, Uses& uses) {
  const std::string library = library_of(parts(path));
  std::set<std::string>& used = uses[library];
  for (const Include& include : includes(text)) {
    const std::vector<std::string> to = parts(include.path);
    if (to[0] == "weir" && library_of(to) != library) used.insert(library_of(to));
  }
}

Uses uses_below(const std::string& root) {
  Uses uses;
  for_each_file(root, "weir", [&](const std::string& path, const std::string& text) {
    add_uses(path, text, uses);
  });
  return uses;
}

std::vector<std::string> clocks(std::string_view path, std::string_view text) {
  // Of the standard library, of the system, and the processor's counter. A function of one word
  // that is also a word of ours counts only if it is called as the C library's.
  static const std::regex clock(
      R"re(\b(?:steady|system|high_resolution|file|utc|tai|gps)_clock\b)re"
      R"re(|\b(?:clock_gettime|clock_getres|gettimeofday|timespec_get|ftime)\b)re"
      R"re(|\bCLOCK_[A-Z]+\b|\w*rdtscp?\b|\bcntvct_el0\b)re"
      R"re(|(?:^|[^\w.>:])(?:(?:std)?::)?time\s*\(\s*(?:nullptr|NULL|0|&))re"
      R"re(|(?:^|[^\w.>:])(?:std)?::clock\s*\(\s*\))re");
  if (std::find(kClockFiles.begin(), kClockFiles.end(), path) != kClockFiles.end()) return {};
  std::vector<std::string> found;
  for_each_match(text, clock, {"clock", "CLOCK", "time", "rdtsc", "cntvct"},
                 [&](std::size_t number, const std::string& what) {
                   found.push_back(std::string(path) + ":" + std::to_string(number) +
                                   ": names a clock ('" + what +
                                   "'), which only weir/base/clock does; take a weir::Clock, or "
                                   "monotonic_clock()");
                 });
  return found;
}

std::vector<std::string> clocks_below(const std::string& root, std::size_t& files) {
  std::vector<std::string> found;
  files = 0;
  for (const std::string_view folder : {"weir", "apps"}) {
    files += for_each_file(root, folder, [&](const std::string& path, const std::string& text) {
      for (std::string& clock : clocks(path, text)) found.push_back(std::move(clock));
    });
  }
  return found;
}

namespace {

std::vector<std::string> naps_of_any(std::string_view path, std::string_view text) {
  // Functions of ours are called wait_for, too: those of the standard library are given a lock, or
  // a span that is written out.
  static const std::regex nap(
      R"re(\b(?:sleep_for|sleep_until|usleep|nanosleep)\b)re"
      R"re(|(?:\.|->)wait_(?:for|until)\s*\(\s*(?:\w*lock\w*\s*,|std::chrono|\w*Duration\b|\d))re");
  std::vector<std::string> found;
  for_each_match(text, nap, {"sleep", "wait_for", "wait_until"},
                 [&](std::size_t number, const std::string& what) {
                   found.push_back(std::string(path) + ":" + std::to_string(number) +
                                   ": waits in the machine's time ('" + what +
                                   "'); wait by a weir::Clock, as weir/base/timed_wait.h does");
                 });
  return found;
}

}  // namespace

std::vector<std::string> naps(std::string_view path, std::string_view text) {
  const bool may = std::any_of(kNappers.begin(), kNappers.end(),
                               [&](const Napper& napper) { return napper.path == path; });
  return may ? std::vector<std::string>{} : naps_of_any(path, text);
}

std::vector<std::string> naps_below(const std::string& root, std::vector<std::string>& needless) {
  std::vector<std::string> found;
  std::set<std::string> nappers;
  for (const std::string_view folder : {"weir", "apps"}) {
    for_each_file(root, folder, [&](const std::string& path, const std::string& text) {
      for (std::string& nap : naps(path, text)) found.push_back(std::move(nap));
      if (!naps_of_any(path, text).empty()) nappers.insert(path);
    });
  }
  for (const Napper& napper : kNappers) {
    if (!nappers.contains(std::string(napper.path))) needless.emplace_back(napper.path);
  }
  return found;
}

}  // namespace weir::layering
