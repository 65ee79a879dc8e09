// A client of HTTP for the server tests, on a raw socket: it sends what it is told to,
// however wrong, and reads one answer at a time.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/server/client.h"
#include "tests/server/support.h"

namespace weir::server {

struct HttpAnswer {
  int status = 0;  // 0: none came
  std::string head{};
  std::string body{};

  // The value of a field, or `(missing)`.
  std::string field(std::string_view name) const {
    const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) return "(missing)";
    const std::size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

inline std::string get(std::string_view target, std::string_view fields = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + std::string(fields) +
         "\r\n";
}
// As JSON, unless the fields say what it is.
inline std::string with_body(std::string_view method, std::string_view target,
                             std::string_view body, std::string_view fields = "") {
  const bool has_type = fields.find("Content-Type:") != std::string_view::npos;
  return std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
         std::string(fields) + (has_type ? "" : "Content-Type: application/json\r\n") +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
inline std::string post(std::string_view target, std::string_view body,
                        std::string_view fields = "") {
  return with_body("POST", target, body, fields);
}

class HttpClient : public Client {
 public:
  using Client::Client;

  HttpAnswer read(bool has_body = true) {
    HttpAnswer answer;
    answer.head = receive_until("\r\n\r\n");
    if (!answer.head.starts_with("HTTP/1.1 ")) return answer;
    answer.status = std::atoi(answer.head.c_str() + 9);
    const std::string length = answer.field("Content-Length");
    if (has_body && length != "(missing)") answer.body = receive(std::stoul(length));
    return answer;
  }
  HttpAnswer ask(std::string_view request) {
    send(request);
    return read();
  }
};

struct HttpTest : ServerTest {
  static constexpr const char* kListen = "listen: { resp: none, http: 127.0.0.1:0 }\n";

  // With settings besides where to listen.
  void serve(const std::string& settings = "", std::string_view limits = kServerLimits) {
    start(kListen + settings, limits);
  }
  HttpAnswer ask(std::string_view request) { return HttpClient(address()).ask(request); }

  // Takes the only slot of worker w, and says which hold has it.
  std::string take_slot() {
    const std::string body = ask(post("/v1/acquire", kSlot)).body;
    const std::size_t begin = body.find("\"hold\":\"") + 8;
    return body.substr(begin, body.find('"', begin) - begin);
  }
  bool someone_waits() {
    return eventually([&] { return server->engine().usage().waiters == 1; });
  }

  static constexpr std::string_view kAcme = R"({"attributes":{"client":"acme"}})";
  static constexpr std::string_view kSlot = R"({"attributes":{"worker":"w"}})";
  static constexpr std::string_view kPatient = R"({"attributes":{"worker":"w"},"wait":"20s"})";
};

}  // namespace weir::server
