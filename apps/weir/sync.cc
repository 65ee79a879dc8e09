#include "apps/weir/sync.h"

#include <fmt/format.h>
#include <signal.h>

#include <boost/json.hpp>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "apps/weir/exit.h"
#include "weir/base/clock.h"
#include "weir/base/in_quotes.h"
#include "weir/config/config.h"
#include "weir/engine/quantity.h"
#include "weir/fetch/transfer.h"
#include "weir/fetch/url.h"
#include "weir/server/systems/followers.h"
#include "weir/system/contract/follower.h"

namespace weir::app {
namespace {

namespace contract = weir::system::contract;
using contract::Fetch;
using contract::Fetched;
using fetch::Transferred;

bool is_good(int status) { return status >= 200 && status < 300; }

// A weir server that is told what the service said.
class Told {
 public:
  Told(std::string url, std::string token, std::string_view account)
      : url_(std::move(url)), token_(std::move(token)), transfer_({}) {
    while (url_.ends_with('/')) url_.pop_back();
    url_ += "/v1/contract/" + fetch::url_escaped(account);
  }

  // Before the service is asked for counts: what the server knows to be final by then.
  std::string look() {
    const Transferred got = transfer_.run({.url = url_, .bearer = token_});
    if (!is_good(got.status)) return error_of(got);
    boost::system::error_code error;
    const boost::json::value shown = boost::json::parse(got.body, error);
    const auto* const account = shown.if_object();  // null where it is no JSON
    const auto* const mark = account == nullptr ? nullptr : account->if_contains("mark");
    if (mark == nullptr || !mark->is_string()) {
      return fmt::format("{} shows no mark, but a weir server does; correct --to", url_);
    }
    mark_ = mark->as_string().c_str();
    return {};
  }

  // Empty: it has taken it.
  std::string tell(Fetch what, const std::string& document) {
    const std::string target = what == Fetch::kContract
                                   ? url_ + "/contract"
                                   : url_ + "/counts?mark=" + fetch::url_escaped(mark_);
    const Transferred got = transfer_.run({.method = "PUT",
                                           .url = target,
                                           .bearer = token_,
                                           .type = "application/json",
                                           .body = document});
    return is_good(got.status) ? "" : error_of(got);
  }
  void cancel() noexcept { transfer_.cancel(); }

 private:
  static constexpr std::size_t kShownBytes = 300;

  std::string error_of(const Transferred& got) const {
    return fmt::format("{}: {}{}", url_, got.status == 0 ? "" : fmt::format("{} ", got.status),
                       got.body.substr(0, kShownBytes));
  }

  std::string url_;
  std::string token_;
  fetch::Transfer transfer_;
  std::string mark_;
};

// Whole or not at all: a reader never sees half of it.
std::string save(const std::string& path, const std::string& document) {
  const std::string unfinished = path + ".new";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file << document;
  file.close();
  if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    return fmt::format("{}: cannot be written: {}", path, std::strerror(errno));
  }
  return {};
}

// The service's client, which passes on what comes.
class PassingFetcher final : public contract::Fetcher {
 public:
  PassingFetcher(contract::ServiceOptions service, std::unique_ptr<Told> told, std::string save_to)
      : user_id_(service.user_id),
        options_(service),
        service_(std::move(service)),
        told_(std::move(told)),
        save_to_(std::move(save_to)) {}

  Fetched fetch(Fetch what, const std::string& access_token) override {
    if (what == Fetch::kTokenCounts && told_ != nullptr) {
      if (std::string error = told_->look(); !error.empty()) return {0, std::move(error), {}};
    }
    Fetched reply = service_.fetch(what, access_token);
    if (!is_good(reply.status) || what == Fetch::kToken) return reply;
    const bool is_counts = what == Fetch::kTokenCounts;
    const std::string document =
        is_counts ? reply.body : contract_in(what, reply.body, access_token);
    if (document.empty()) return reply;
    std::string error;
    if (!is_counts && !save_to_.empty()) error = save(save_to_, document);
    if (error.empty() && told_ != nullptr) {
      error = told_->tell(is_counts ? Fetch::kTokenCounts : Fetch::kContract, document);
    }
    if (!error.empty()) return {0, std::move(error), {}};
    return reply;
  }
  void cancel() noexcept override {
    service_.cancel();
    if (told_ != nullptr) told_->cancel();
  }

 private:
  // A document with the user's contract; empty: there is none, as the reader of it says. A
  // listing of types becomes the contract that its defaults stand for.
  std::string contract_in(Fetch what, const std::string& body,
                          const std::string& access_token) const {
    if (what == Fetch::kContract) {
      contract::LeftOut left_out;
      auto contracts = contract::read_contracts(body, &left_out);
      if (!contracts) return {};
      const std::string asked = service_user(access_token);
      std::erase_if(*contracts, [&](const auto& each) { return !is_of(each, asked); });
      if (contracts->empty()) return {};
      for (contract::Contract& each : *contracts) each.user_id = user_id_;
      return write_contracts(*contracts);
    }
    contract::LeftOut left_out;
    auto types = contract::read_contract_types(body, &left_out);
    if (!types) return {};
    for (contract::Contract& type : *types) type.user_id = user_id_;
    return write_contracts(*types);
  }

  std::string service_user(const std::string& access_token) const {
    return contract::user_of(options_, access_token);
  }

  const std::string user_id_;
  const contract::ServiceOptions options_;
  contract::ServiceClient service_;
  std::unique_ptr<Told> told_;
  std::string save_to_;
};

Result<const config::ContractSettings*> choose(const config::Config& config,
                                               const std::string& account) {
  std::vector<const config::ContractSettings*> following;
  std::string names;
  for (const config::ContractSettings& each : config.contracts) {
    if (!each.sync) continue;
    if (each.name == account) return &each;
    following.push_back(&each);
    names += (names.empty() ? "" : ", ") + in_quotes(each.name);
  }
  if (account.empty() && following.size() == 1) return following[0];
  if (following.empty()) {
    return bad_argument(fmt::format(
        "{}: no account follows a service; write 'sync: {{ url: ... }}' for one under 'contracts'",
        config.path));
  }
  return bad_argument(fmt::format("{}: account {} does not follow a service; --account may be {}",
                                  config.path, account.empty() ? "(none)" : in_quotes(account),
                                  names));
}

std::string left_text(std::int64_t micro) {
  return (micro < 0 ? "-" : "") +
         engine::amount_text(micro < 0 ? -std::max(micro, -kForever.ns) : micro,
                             engine::UnitScale::kMicro);
}

void print(contract::Account& account, Instant now, bool json) {
  const contract::AccountView view = account.view(now);
  if (json) {
    std::string left;
    for (const contract::PolicyView& row : view.policies) {
      left += fmt::format("{}\"{}\":{}", left.empty() ? "" : ",", policy_id(row.policy),
                          left_text(row.left_micro));
    }
    fmt::print("{{\"account\":{},\"left\":{{{}}}}}\n",
               boost::json::serialize(boost::json::string(account.name())), left);
  } else {
    fmt::print("{}\n", account.name());
    for (const contract::PolicyView& row : view.policies) {
      fmt::print("  {}  {} left\n", policy_id(row.policy), left_text(row.left_micro));
    }
  }
  std::fflush(stdout);
}

// What a follower tells, until the first round is over.
class Rounds {
 public:
  void add(bool is_good) {
    const std::scoped_lock lock(lock_);
    if (!first_) first_ = is_good;
    came_.notify_all();
  }
  bool wait_for_first() {
    std::unique_lock lock(lock_);
    came_.wait(lock, [&] { return first_.has_value(); });
    return *first_;
  }

 private:
  std::mutex lock_;
  std::condition_variable came_;
  std::optional<bool> first_;
};

}  // namespace

int run_sync(const SyncOptions& options) {
  const auto refuse = [](const Error& error, int code) {
    fmt::print(stderr, "{}\n", error.message);
    return code;
  };
  const Result<config::Config> config = config::load(options.path);
  if (!config) return refuse(config.error(), kExitFailed);
  const Result<const config::ContractSettings*> chosen = choose(*config, options.account);
  if (!chosen) return refuse(chosen.error(), kExitUsage);
  const config::ContractSettings& settings = **chosen;
  std::unique_ptr<Told> told;
  if (!options.to.empty()) {
    if (const std::string trouble = fetch::url_trouble(options.to); !trouble.empty()) {
      return refuse(bad_argument("--to " + trouble), kExitUsage);
    }
    told = std::make_unique<Told>(options.to, options.token, settings.name);
  }
  // Blocked before any thread starts, so that only this one takes them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  if (!options.once) ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  SystemClock clock;
  // Shows what the service says, with nothing kept in hand.
  const auto mirror = contract::Account::create(settings.name, settings.policies,
                                                {.jitter = Duration{0}}, clock.now());
  if (!mirror) return refuse(mirror.error(), kExitFailed);
  Rounds rounds;
  const auto log = server::log_follower(make_log(options.log));
  const auto listener = [&](const contract::FollowerEvent& event) {
    log(event);
    if (event.kind != contract::FollowerEvent::Kind::kRound) return;
    if (event.error.empty()) print(**mirror, clock.now(), options.json);
    rounds.add(event.error.empty());
  };
  const contract::Follower follower(
      *mirror, *settings.sync,
      std::make_unique<PassingFetcher>(settings.sync->service, std::move(told), options.save),
      clock, listener);
  if (options.once) return rounds.wait_for_first() ? kExitOk : kExitUnreachable;
  int signal = 0;
  ::sigwait(&signals, &signal);
  return kExitOk;
}

}  // namespace weir::app
