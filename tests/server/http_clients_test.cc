// Real clients of HTTP, unmodified.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/http_client.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

TEST_F(HttpTest, CurlIsAnswered) {
  serve();
  const std::string url = "http://" + address();
  const std::string curl = "curl -sS --max-time 20 ";
  EXPECT_EQ(run(curl + url + "/healthz").output, "ok\n");
  EXPECT_THAT(
      run(curl + "-i " + url + "/v1/acquire --json '{\"attributes\":{\"client\":\"a\"}}'").output,
      HasSubstr("\"remaining\":999999"));
  EXPECT_THAT(run(curl + "-I " + url + "/readyz").output, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(
      run(curl + "-H 'Transfer-Encoding: chunked' --json '{}' " + url + "/v1/acquire").output,
      HasSubstr("allowed"));
  EXPECT_THAT(run(curl + "--http1.0 " + url + "/readyz").output, HasSubstr("ready"));
  // A body so large that curl asks first whether it may send it.
  EXPECT_EQ(
      run("head -c 2000000 /dev/zero | " + curl + "-o " + (dir / "out").string() +
          " -w '%{http_code}' -H 'Expect: 100-continue' --data-binary @- " + url + "/v1/acquire")
          .output,
      "413");
}

TEST_F(HttpTest, PythonHttpClientIsAnswered) {
  serve();
  const std::string port = address().substr(address().rfind(':') + 1);
  const Ran ran =
      run("/usr/bin/python3 -c \"\n"
          "import http.client, json\n"
          "json_type = {'Content-Type': 'application/json'}\n"
          "c = http.client.HTTPConnection('127.0.0.1', " +
          port +
          ", timeout=20)\n"
          "for i in range(3):\n"
          "    c.request('POST', '/v1/acquire', json.dumps({'attributes': {'client': 'py'}}), "
          "json_type)\n"
          "    r = c.getresponse()\n"
          "    print(r.status, json.load(r)['limits'][0]['remaining'])\n"
          "c.request('POST', '/v1/acquire', iter([b'{', b'}']), encode_chunked=True,\n"
          "          headers={'Transfer-Encoding': 'chunked', **json_type})\n"
          "r = c.getresponse()\n"
          "print(r.status, json.load(r)['verdict'])\n\"");
  EXPECT_EQ(ran.output, "200 999999\n200 999998\n200 999997\n200 allowed\n");
}

}  // namespace
}  // namespace weir::server
