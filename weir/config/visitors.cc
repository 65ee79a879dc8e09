// `http:`: whose requests are answered.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/in_quotes.h"
#include "weir/config/draft.h"
#include "weir/config/keys.h"
#include "weir/engine/quantity.h"

namespace weir::config {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

// Of a host, without a port: `weir.internal`, an address in digits as well.
bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= kHostNameBytesMax && text.front() != '.' &&
         text.back() != '.' && text.find("..") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
         });
}

bool is_bracketed_address(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  in6_addr address{};
  return ::inet_pton(AF_INET6, std::string(text.substr(1, text.size() - 2)).c_str(), &address) == 1;
}

// As browsers write it: scheme, host and a port that is not the scheme's own; no path.
bool is_origin(std::string_view text) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  const bool is_secure = text.starts_with(kHttps);
  if (!is_secure && !text.starts_with(kHttp)) return false;
  text.remove_prefix(is_secure ? kHttps.size() : kHttp.size());
  const std::size_t after = text.starts_with('[') ? text.find(']') : 0;
  if (after == std::string_view::npos) return false;
  const std::size_t colon = text.find(':', after);
  const std::string_view host = text.substr(0, colon);
  if (!is_host_name(host) && !is_bracketed_address(host)) return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view digits = text.substr(colon + 1);
  const Result<std::int64_t> port = engine::parse_count("port", digits, 1, 65535);
  return port && digits == std::to_string(*port) && *port != (is_secure ? 443 : 80);
}

// A text or a list of them, each as `is_right` says.
void read_names(const Entry& entry, Context& context, bool (*is_right)(std::string_view),
                std::string_view expected, std::vector<std::string>& out) {
  const bool is_list = entry.value.kind == TreeNode::Kind::kList;
  const std::vector<TreeNode> one = is_list ? std::vector<TreeNode>{} : std::vector{entry.value};
  const std::vector<TreeNode>& nodes = is_list ? entry.value.items : one;
  if (nodes.empty() || nodes.size() > kVisitorsMax) {
    context.mistake(entry.value.place,
                    fmt::format("{} has {} values, but it must have 1 to {}; write some, or leave "
                                "out the key",
                                entry.key, nodes.size(), kVisitorsMax));
    return;
  }
  for (const TreeNode& node : nodes) {
    if (!check_text(node, entry.key, context)) continue;
    std::string text = lower_case(node.text);
    if (is_right(text)) {
      out.push_back(std::move(text));
    } else {
      context.mistake(node.place, fmt::format("{} has {}, but it must be {}", entry.key,
                                              in_quotes(node.text), expected));
    }
  }
}

void read_origins(const Entry& entry, Context& context, Visitors& visitors) {
  read_names(entry, context, is_origin,
             "scheme and host as a browser sends them, without a path and without the usual port; "
             "write one such as 'https://dash.example' or 'http://127.0.0.1:3000'",
             visitors.origins);
}

void read_hosts(const Entry& entry, Context& context, Visitors& visitors) {
  read_names(entry, context, is_host_name,
             "a name without scheme and port, of letters, digits, '-', '_' and dots; write one "
             "such as 'weir.internal'",
             visitors.hosts);
}

constexpr Key<Visitors> kVisitorKeys[] = {
    {"origins", read_origins, "[https://dash.example]",
     "Pages that may ask though they are of another site: their origins, at most 64."},
    {"hosts", read_hosts, "[weir.internal]",
     "Names by which the server is asked, besides loopback names and literal addresses: at most "
     "64."},
};

}  // namespace

void read_visitors(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ hosts: [weir.internal] }", context)) return;
  Context inner{context.mistakes, "http"};
  read_map<Visitors>(entry.value, kVisitorKeys, inner, draft.config.visitors);
}

void list_visitor_keys(std::vector<KeyHelp>& out) {
  list_keys<Visitors>("http", kVisitorKeys, out);
}

}  // namespace weir::config
