#include "weir/server/listeners.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using ErrorNumber = boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr std::size_t kGroupBytes = 65'536;  // of a group's entry with its members
constexpr auto kAcceptPause = std::chrono::milliseconds{100};  // when the process has no more files

Error cannot_listen(const config::Address& address, const ErrorNumber& error) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("listen: cannot listen on {}: {}; stop what is using it, or write "
                           "another address",
                           address.text(), error.message())};
}

// A name or a number.
std::optional<gid_t> group_of(const std::string& text) {
  gid_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && at == end) return number;
  std::vector<char> words(kGroupBytes);
  group found{};
  group* result = nullptr;
  if (::getgrnam_r(text.c_str(), &found, words.data(), words.size(), &result) != 0) return {};
  return result == nullptr ? std::nullopt : std::optional(found.gr_gid);
}

// While it lives, what is made is for the owner only. Other threads' files are then stricter too.
struct OwnerOnly {
  OwnerOnly() : before(::umask(0177)) {}
  ~OwnerOnly() { ::umask(before); }
  OwnerOnly(const OwnerOnly&) = delete;
  OwnerOnly& operator=(const OwnerOnly&) = delete;

  const mode_t before;
};

// Lets in whom the configuration says, after the owner alone.
Status let_in(const config::Address& address) {
  const auto failed = [&](std::string_view what, int code) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("listen: {}: {}: {}; write a mode and a group that this user may set",
                             address.text(), what, std::generic_category().message(code))};
  };
  if (!address.group.empty()) {
    const std::optional<gid_t> id = group_of(address.group);
    if (!id) return failed(fmt::format("group {}", in_quotes(address.group)), ENOENT);
    if (::lchown(address.path.c_str(), static_cast<uid_t>(-1), *id) != 0) {
      return failed(fmt::format("group {}", in_quotes(address.group)), errno);
    }
  }
  if (::chmod(address.path.c_str(), address.mode) != 0) {
    return failed(fmt::format("mode {:04o}", address.mode), errno);
  }
  return Done{};
}

// A socket file without a listener is left over from a process that was killed.
void remove_stale_socket(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  asio::io_context context;
  stream_protocol::socket probe(context);
  ErrorNumber error;
  probe.connect(stream_protocol::endpoint(path), error);
  if (error == asio::error::connection_refused) ::unlink(path.c_str());
}

}  // namespace

struct Listeners::Listener {
  virtual ~Listener() = default;
  virtual void accept() = 0;
  virtual void close() = 0;
};

template <typename Transport>
struct Listeners::ListenerAt final : Listener {
  using Acceptor = typename Transport::acceptor;
  static constexpr bool kIsTcp = std::is_same_v<Transport, tcp>;

  ListenerAt(Listeners& all, Protocol spoken)
      : listeners(all), protocol(spoken), acceptor(all.loops_[0]->context()) {}

  ErrorNumber bind(const typename Transport::endpoint& endpoint) {
    ErrorNumber error;
    acceptor.open(endpoint.protocol(), error);
    if constexpr (kIsTcp) {
      if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    }
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(kBacklog, error);
    return error;
  }

  void accept() override {
    Loop& loop = *listeners.loops_[listeners.next_loop_++ % listeners.loops_.size()];
    acceptor.async_accept(
        loop.context(), [this, &loop](const ErrorNumber& error, typename Transport::socket socket) {
          if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
          if (error) return accept_later();
          if constexpr (kIsTcp) {
            ErrorNumber ignored;
            socket.set_option(tcp::no_delay(true), ignored);
          }
          listeners.welcome_(protocol, loop, Socket(std::move(socket)));
          accept();
        });
  }

  // Out of files, most likely: those who wait in the backlog are taken later.
  void accept_later() {
    auto pause = std::make_shared<asio::steady_timer>(listeners.loops_[0]->context(), kAcceptPause);
    pause->async_wait([this, pause](const ErrorNumber&) {
      if (acceptor.is_open()) accept();
    });
  }

  void close() override {
    ErrorNumber ignored;
    acceptor.close(ignored);
  }

  Listeners& listeners;
  const Protocol protocol;
  Acceptor acceptor;
};

Listeners::Listeners(std::vector<std::unique_ptr<Loop>>& loops, Welcome welcome)
    : loops_(loops), welcome_(std::move(welcome)) {}
Listeners::~Listeners() = default;

Status Listeners::listen(const config::Address& address, Protocol protocol) {
  config::Address bound = address;
  ErrorNumber error;
  if (address.kind == config::Address::Kind::kUnix) {
    remove_stale_socket(address.path);
    auto listener = std::make_unique<ListenerAt<stream_protocol>>(*this, protocol);
    {
      const OwnerOnly owner_only;
      error = listener->bind(stream_protocol::endpoint(address.path));
    }
    listeners_.push_back(std::move(listener));
    if (!error) {
      if (Status status = let_in(address); !status) {
        ::unlink(address.path.c_str());
        return status;
      }
    }
  } else {
    const auto host = asio::ip::make_address(address.host, error);
    if (error) return cannot_listen(address, error);
    auto listener = std::make_unique<ListenerAt<tcp>>(*this, protocol);
    error = listener->bind(tcp::endpoint(host, address.port));
    if (!error) bound.port = listener->acceptor.local_endpoint(error).port();
    listeners_.push_back(std::move(listener));
  }
  if (error) return cannot_listen(address, error);
  bound_.push_back(std::move(bound));
  return Done{};
}

void Listeners::start() {
  for (const auto& listener : listeners_) listener->accept();
}

void Listeners::close() {
  for (const auto& listener : listeners_) listener->close();
}

void Listeners::remove_files() const {
  for (const config::Address& address : bound_) {
    if (address.kind == config::Address::Kind::kUnix) ::unlink(address.path.c_str());
  }
}

}  // namespace weir::server
