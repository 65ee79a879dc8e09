// What the server tests share: a server with a configuration of its own, in a folder of
// its own, on ports that the kernel chose.

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/server/client.h"
#include "tests/support/eventually.h"
#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/server.h"

namespace weir::server {

using namespace std::chrono_literals;

constexpr std::string_view kServerLimits = R"(
limits:
  - { name: per-client, per: [client], window: { limit: 1000000, every: 10000d } }
  - { name: running, per: [worker], slots: { limit: 1, queue: 16, hold: 60s } }
)";

// What a system has in force: what its routes speak to.
template <typename Part>
Part in_force(const Server& server) {
  for (const auto& system : server.systems()) {
    if (const auto* table = dynamic_cast<const wire::http::SystemRoutes<Part>*>(system->routes())) {
      return table->in_force();
    }
  }
  ADD_FAILURE() << "no system has such routes";
  return {};
}

struct ServerTest : ::testing::Test {
  ServerTest() {
    dir = std::filesystem::temp_directory_path() /
          ("weir-server-" + std::to_string(::getpid()) + "-" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir);
  }
  ~ServerTest() override {
    server.reset();
    std::filesystem::remove_all(dir);
  }

  // Starts with these settings in front of the usual limits.
  void start(const std::string& settings = "listen: { resp: 127.0.0.1:0, http: none }\n",
             std::string_view limits = kServerLimits) {
    write(settings + std::string(limits));
    auto config = config::load(path());
    ASSERT_TRUE(config) << config.error().message;
    auto started = Server::start(std::move(*config), clock);
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }
  std::string path() const { return dir / "weir.yaml"; }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string address() const { return server->addresses()[0]; }

  SystemClock clock;
  std::filesystem::path dir;
  std::unique_ptr<Server> server;
};

// What a command prints, and how it ends.
struct Ran {
  std::string output;
  int status;
};
inline Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char bytes[4096];
  while (const std::size_t read = std::fread(bytes, 1, sizeof bytes, pipe)) {
    ran.output.append(bytes, read);
  }
  ran.status = ::pclose(pipe);
  return ran;
}

}  // namespace weir::server
