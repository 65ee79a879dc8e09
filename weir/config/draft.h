// Draft: a configuration while it is read.
//
// Between the readers of settings, throttles, limits and meters. Each of them has a table of
// rows; see keys.h.

#pragma once

#include <string>
#include <vector>

#include "weir/config/config.h"
#include "weir/config/document.h"
#include "weir/config/keys.h"
#include "weir/config/mistakes.h"
#include "weir/engine/limit.h"

namespace weir::config {

// A limit of the file, in the order of Config::limits_spec.
struct LimitPlace {
  Place place{};
  bool is_broken = false;  // a mistake in it has been reported
};

struct Draft {
  Config config{};
  std::vector<Place> resp_places{};  // of the listeners
  std::vector<Place> http_places{};
  std::vector<LimitPlace> limit_places{};
  Place units_place{};
  Place attributes_place{};
  Place throttles_place{};
  Place sampling_place{};
  ReadFile read_file{};
};

// The whole file.
void read_settings(const TreeNode& root, Mistakes& mistakes, Draft& draft);
void list_settings_keys(std::vector<KeyHelp>& out);

// `limits:`. Units must have been read before.
void read_limits(const Entry& entry, Context& context, Draft& draft);
void list_limit_keys(std::vector<KeyHelp>& out);

// `throttles:`. Units and attributes must have been read before, limits after it.
void read_throttles(const Entry& entry, Context& context, Draft& draft);
// Once limits have been read.
void add_throttles_limit(Draft& draft);
void list_throttle_keys(std::vector<KeyHelp>& out);

// `sampling:`. Attributes and bounds must have been read before, limits after it.
void read_sampling(const Entry& entry, Context& context, Draft& draft);
// Once limits have been read.
void add_sampling_limit(Draft& draft);
void list_sampling_keys(std::vector<KeyHelp>& out);

// Puts a gate that runs into a configuration that is to replace another, and compiles it.
Status put_gate(Config& next, std::string_view limit, const std::shared_ptr<engine::Gate>& gate);

// The parameters of one meter, into limit.meter. The entry's key is the meter's name.
void read_bucket(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_window(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_log(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_ticker(const Entry& entry, Context& context, engine::LimitSpec& limit);
void read_slots(const Entry& entry, Context& context, engine::LimitSpec& limit);
void list_meter_keys(std::vector<KeyHelp>& out);

// Compiles the limits and gives each mistake that shows only there its place.
void compile_limits(Mistakes& mistakes, Draft& draft);

}  // namespace weir::config
