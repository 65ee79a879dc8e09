#include "weir/engine/names.h"

namespace weir::engine {

std::string Names::joined() const {
  std::string all;
  for (const std::string& name : texts_) {
    if (!all.empty()) all += ", ";
    all += name;
  }
  return all.empty() ? "none" : all;
}

}  // namespace weir::engine
