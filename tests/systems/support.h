// The real program with a configuration of its own, asked over HTTP and RESP.

#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/http_client.h"
#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"

namespace weir {

// One `weir serve`. It can be killed and started again with the same files and sockets.
class Weir {
 public:
  // What is written counts from the next start or reload on.
  void configure(const std::string& settings) {
    std::ofstream(config()) << "listen: { resp: '" << resp_address() << "', http: '"
                            << http_address() << "' }\n"
                            << settings;
  }
  void start() {
    process_ = std::make_unique<Process>(std::vector<std::string>{WEIR_PROGRAM, "serve", config()});
    ASSERT_TRUE(eventually([&] { return server::Client(http_address()).is_connected(); }))
        << said();
  }
  void kill() {
    process_->signal(SIGKILL);
    EXPECT_EQ(process_->wait(), -SIGKILL);
  }
  void stop() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(), 0) << said();
  }

  server::HttpAnswer http(std::string_view request) const {
    return server::HttpClient(http_address()).ask(request);
  }
  server::HttpAnswer get(std::string_view target) const { return http(server::get(target)); }
  server::HttpAnswer post(std::string_view target, std::string_view body) const {
    return http(server::post(target, body));
  }

  std::string http_address() const { return "unix:" + path("http"); }
  std::string resp_address() const { return "unix:" + path("resp"); }
  std::string config() const { return path("weir.yaml"); }
  std::string path(std::string_view name) const { return (dir_ / name).string(); }
  std::string said() const { return process_->said(); }
  const Process& process() const { return *process_; }

 private:
  TemporaryDirectory dir_;
  std::unique_ptr<Process> process_;
};

// The body of an answer. A body that is no JSON fails the test.
inline boost::json::value json(const server::HttpAnswer& answer) {
  boost::system::error_code failed;
  boost::json::value body = boost::json::parse(answer.body, failed);
  EXPECT_FALSE(failed) << answer.status << ' ' << answer.body;
  return body;
}

}  // namespace weir
