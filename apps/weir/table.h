// A table of texts, as commands print it: the first column to the left, the others to the right.

#pragma once

#include <string>
#include <vector>

namespace weir::app {

// Requires rows of equal length, the first of them the headings.
void print_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace weir::app
