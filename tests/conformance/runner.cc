#include "tests/conformance/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <vector>

namespace weir::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFailuresShown = 10;  // of one file

struct FileReport {
  std::size_t passed = 0;
  std::vector<std::string> failures;
  std::map<std::string, std::size_t> skipped;  // reason to count
};

std::vector<fs::path> case_files(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& system : fs::directory_iterator(directory, ignored)) {
    if (!system.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(system.path())) {
      if (file.path().extension() == ".jsonl") files.push_back(file.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

const OptionalCases* optional_kind(std::span<const OptionalCases> kinds, std::string_view system,
                                   const boost::json::object& recorded) {
  for (const OptionalCases& kind : kinds) {
    const boost::json::value* value = recorded.if_contains(kind.field);
    if (kind.system == system && value != nullptr && value->is_string() &&
        value->as_string() == kind.value) {
      return &kind;
    }
  }
  return nullptr;
}

std::string label(const boost::json::object& recorded, std::size_t line_number) {
  const boost::json::value* id = recorded.if_contains("id");
  return id != nullptr && id->is_string() ? std::string(id->as_string())
                                          : fmt::format("line {}", line_number);
}

void run_case(const std::string& line, std::size_t line_number, std::string_view system,
              const Family* family, std::span<const OptionalCases> optional_cases,
              FileReport& report) {
  std::string name = fmt::format("line {}", line_number);
  try {
    const boost::json::value parsed = parse_line(line);
    const boost::json::object& recorded = parsed.as_object();
    name = label(recorded, line_number);
    if (const OptionalCases* kind = optional_kind(optional_cases, system, recorded)) {
      report.skipped[fmt::format("optional {} '{}'", kind->field, kind->value)] += 1;
    } else if (family == nullptr) {
      report.skipped["family not known"] += 1;
    } else if (Failure failure = family->run(recorded)) {
      report.failures.push_back(name + ": " + *failure);
    } else {
      report.passed += 1;
    }
  } catch (const std::exception& problem) {
    // Boost.JSON reports a malformed or surprising case by throwing.
    report.failures.push_back(name + ": cannot be read: " + problem.what());
  }
}

FileReport run_file(const fs::path& path, const Family* family, std::string_view system,
                    std::span<const OptionalCases> optional_cases) {
  FileReport report;
  std::ifstream file(path);
  if (!file) report.failures.push_back(path.string() + ": cannot be opened");
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty()) run_case(line, number, system, family, optional_cases, report);
  }
  if (file.bad()) report.failures.push_back(path.string() + ": cannot be read to its end");
  return report;
}

}  // namespace

Totals run_directory(const std::string& directory, std::span<const Family> families,
                     std::span<const OptionalCases> optional_cases, std::ostream& out) {
  Totals totals;
  for (const fs::path& path : case_files(directory)) {
    const std::string system = path.parent_path().filename().string();
    const std::string name = system + "/" + path.stem().string();
    const auto known = std::find_if(families.begin(), families.end(),
                                    [&](const Family& family) { return family.name == name; });
    const FileReport report =
        run_file(path, known == families.end() ? nullptr : &*known, system, optional_cases);

    std::size_t skipped = 0;
    std::string reasons;
    for (const auto& [reason, count] : report.skipped) {
      skipped += count;
      reasons += fmt::format("{}{} ({})", reasons.empty() ? ": " : ", ", reason, count);
    }
    out << fmt::format("{} {} passed, {} failed", name, report.passed, report.failures.size());
    if (skipped > 0) out << fmt::format(", {} skipped{}", skipped, reasons);
    out << '\n';
    for (std::size_t i = 0; i < std::min(kFailuresShown, report.failures.size()); ++i) {
      out << "  " << report.failures[i] << '\n';
    }
    if (report.failures.size() > kFailuresShown) {
      out << fmt::format("  and {} more\n", report.failures.size() - kFailuresShown);
    }
    totals.passed += report.passed;
    totals.failed += report.failures.size();
    totals.skipped += skipped;
    totals.files += 1;
  }
  return totals;
}

}  // namespace weir::conformance
