// Described: whether what was asked and answered is what /openapi.json describes.
//
// The Desk (support.h) asks it about every call of every test. An answer must have a
// status, a type of content, headers and a body that the operation describes; a request
// that was read without a problem must be as the operation says.

#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/json_schema.h"
#include "weir/wire/http/api.h"
#include "weir/wire/http/problem.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

class Described {
 public:
  explicit Described(Api& api) : api_(api), schemas_(cached(api.openapi())) {}

  const JsonSchemas& schemas() const noexcept { return *schemas_; }
  const boost::json::object& components() const {
    return schemas_->document().at("components").at("schemas").as_object();
  }
  const boost::json::value& operation(const Route& route) const {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c + 32);
    return schemas_->document().at("paths").at(route.path).at(method);
  }

  // What is wrong; empty: nothing. `is_head`: there is no body.
  std::string trouble_of(const Answer& answer, bool is_head) const {
    const bool has_route = answer.route < api_.routes().size();
    const boost::json::value none = {{"content", {{kProblemType, {{"schema", kProblemSchema}}}}}};
    const boost::json::value& response =
        has_route ? response_of(operation(*api_.routes()[answer.route]), answer.status) : none;
    if (has_route) {
      std::string trouble = trouble_of_headers(response, answer.headers);
      if (!trouble.empty()) return trouble;
    }
    return trouble_of_content(response, answer, is_head);
  }

  // The same of a request that `route` has read.
  std::string trouble_of(const Route& route, std::string_view body) const {
    if (route.body.empty()) return {};
    boost::json::error_code error;
    const boost::json::value value = boost::json::parse(body, error);
    if (error) return error.message();
    return schemas_->mismatch(
        operation(route).at_pointer("/requestBody/content/application~1json/schema"), value);
  }

  // Fails the test where a call or its answer is not as it is described. `waits`: there is no
  // answer yet.
  void expect(const Call& call, const Answer& answer, bool waits) const {
    if (!waits) expect(answer, call.method == "HEAD");
    if (answer.route >= api_.routes().size()) return;
    if (!waits && answer.content_type == kProblemType) return;
    const Route& route = *api_.routes()[answer.route];
    const std::string trouble = trouble_of(route, call.body);
    EXPECT_EQ(trouble, "") << route.name
                           << " took a body that /openapi.json does not describe: " << call.body;
  }
  void expect(const Answer& answer, bool is_head = false) const {
    const std::string trouble = trouble_of(answer, is_head);
    const bool has_route = answer.route < api_.routes().size();
    EXPECT_EQ(trouble, "") << (has_route ? api_.routes()[answer.route]->name : "no route")
                           << " answered " << answer.status
                           << " with what /openapi.json does not describe: " << answer.headers
                           << answer.body;
  }

 private:
  static constexpr std::string_view kDefault = "default";
  inline static const boost::json::value kProblemSchema = {
      {"$ref", "#/components/schemas/Problem"}};

  // One document serves the desks of all tests that have it.
  static std::shared_ptr<const JsonSchemas> cached(const std::string& text) {
    static std::string last;
    static std::shared_ptr<const JsonSchemas> schemas;
    if (schemas == nullptr || last != text) {
      last = text;
      schemas = std::make_shared<JsonSchemas>(boost::json::parse(text));
    }
    return schemas;
  }

  static const boost::json::value& response_of(const boost::json::value& operation,
                                               unsigned status) {
    const boost::json::object& responses = operation.at("responses").as_object();
    const auto* const own = responses.if_contains(std::to_string(status));
    return own != nullptr ? *own : responses.at(kDefault);
  }

  std::string trouble_of_headers(const boost::json::value& response, std::string_view lines) const {
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find("\r\n"));
      lines.remove_prefix(line.size() + 2);
      const std::string_view name = line.substr(0, line.find(": "));
      const boost::json::object& object = response.as_object();
      const auto* const headers = object.if_contains("headers");
      const auto* const header =
          headers == nullptr ? nullptr : headers->as_object().if_contains(name);
      if (header == nullptr) return fmt::format("header {} is described nowhere", name);
      const boost::json::value& schema = header->at("schema");
      const std::string_view text = line.substr(name.size() + 2);
      const bool is_text = schema.at("type") == "string";
      const std::string why =
          schemas_->mismatch(schema, is_text ? boost::json::value(text) : boost::json::parse(text));
      if (!why.empty()) return fmt::format("header {}: {}", name, why);
    }
    return {};
  }

  std::string trouble_of_content(const boost::json::value& response, const Answer& answer,
                                 bool is_head) const {
    const std::string_view type = answer.content_type.substr(0, answer.content_type.find(';'));
    const boost::json::object& contents = response.at("content").as_object();
    if (contents.empty() && type.empty() && answer.body.empty()) return {};
    const auto* const content = contents.if_contains(type);
    if (content == nullptr) return fmt::format("content of type {} is described nowhere", type);
    if (is_head || answer.is_stream) return {};
    if (!type.ends_with("json"))
      return schemas_->mismatch(content->at("schema"), boost::json::value(answer.body));
    boost::json::error_code error;
    const boost::json::value value = boost::json::parse(answer.body, error);
    return error ? error.message() : schemas_->mismatch(content->at("schema"), value);
  }

  Api& api_;
  std::shared_ptr<const JsonSchemas> schemas_;
};

}  // namespace weir::wire::http
