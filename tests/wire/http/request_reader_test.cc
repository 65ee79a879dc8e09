#include "weir/wire/http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "weir/wire/http/response.h"

namespace weir::wire::http {
namespace {

using ::testing::HasSubstr;
using State = RequestReader::State;

constexpr RequestBounds kBounds{.header_bytes = 256, .body_bytes = 64};

const std::string kPlain =
    "POST /v1/acquire HTTP/1.1\r\nHost: w:80\r\nContent-Type: application/json\r\n"
    "Origin: https://o\r\nsec-fetch-site: none\r\n"
    "Authorization: Bearer secret\r\nWeir-Cost-X: 7\r\nContent-Length: 2\r\n\r\n{}";
const std::string kChunked =
    "POST /v1/peek HTTP/1.1\r\nHost: w:80\r\nWeir-Cost-X: 7\r\nOrigin: https://o\r\n"
    "Sec-Fetch-Site: none\r\nTransfer-Encoding: chunked\r\n\r\n"
    "1\r\n{\r\n1;a=b\r\n}\r\n0\r\nAuthorization: Bearer trailer\r\nOrigin: x\r\n\r\n";

TEST(RequestReader, ReadsARequestWhereItLies) {
  RequestReader reader(kBounds);
  HttpRequest request;
  const std::string bytes = kPlain + "GET";
  const auto step = reader.read(bytes, request);
  ASSERT_EQ(step.state, State::kWhole);
  EXPECT_EQ(step.taken, kPlain.size());
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/acquire");
  EXPECT_EQ(request.content_type, "application/json");
  EXPECT_EQ(request.token, "secret");
  EXPECT_EQ(request.body, "{}");
  EXPECT_EQ(request.body.data(), bytes.data() + kPlain.size() - 2);
  EXPECT_TRUE(request.keep_alive);
  ASSERT_EQ(request.field_count, 1u);
  EXPECT_EQ(request.fields[0].name, "Weir-Cost-X");
  EXPECT_EQ(request.fields[0].value, "7");
}

// Whatever the pieces, and wherever the bytes move meanwhile, the same is read.
TEST(RequestReader, ReadsTheSameHoweverItIsCut) {
  for (const std::string& whole : {kPlain, kChunked}) {
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
      RequestReader reader(kBounds);
      HttpRequest request;
      std::string unread = whole.substr(0, cut);
      for (;;) {
        const auto step = reader.read(unread, request);
        ASSERT_EQ(step.state, State::kPartial) << cut;
        unread = unread.substr(step.taken);
        if (step.taken == 0 || unread.empty()) break;
      }
      unread += whole.substr(cut);
      const auto step = reader.read(unread, request);
      ASSERT_EQ(step.state, State::kWhole) << cut;
      EXPECT_EQ(step.taken, unread.size()) << cut;
      EXPECT_EQ(request.body, "{}") << cut;
      ASSERT_EQ(request.field_count, 1u) << cut;
      EXPECT_EQ(request.fields[0].value, "7") << cut;
      EXPECT_EQ(request.host, "w:80") << cut;
      EXPECT_EQ(request.origin, "https://o") << cut;
      EXPECT_EQ(request.fetch_site, "none") << cut;
      EXPECT_EQ(request.token, whole == kPlain ? "secret" : "") << "a trailer is not looked at";
    }
  }
}

// Found by fuzz_http_requests: half a line end was taken for a request line.
TEST(RequestReader, SkipsALineEndThatComesInTwoPieces) {
  RequestReader reader(kBounds);
  HttpRequest request;
  const auto half = reader.read("\r", request);
  EXPECT_EQ(half.state, State::kPartial);
  EXPECT_EQ(half.taken, 0u);
  const auto whole = reader.read("\r\n" + kPlain, request);
  EXPECT_EQ(whole.state, State::kPartial);
  EXPECT_EQ(whole.taken, 2u);
  EXPECT_EQ(reader.read(kPlain, request).state, State::kWhole);
}

TEST(RequestReader, SaysHowMuchIsNeededWhenItKnows) {
  RequestReader reader(kBounds);
  HttpRequest request;
  EXPECT_EQ(reader.read(std::string_view(kPlain).substr(0, 50), request).needed, 0u);
  const std::string_view most(kPlain.data(), kPlain.size() - 1);
  EXPECT_EQ(reader.read(most, request).needed, kPlain.size());
}

TEST(RequestReader, ReadsOneRequestAfterAnother) {
  RequestReader reader(kBounds);
  HttpRequest request;
  const std::string bytes = kChunked + kPlain + kChunked + "\r\n" + kPlain;
  std::string_view left = bytes;
  std::string methods;
  while (!left.empty()) {
    const auto step = reader.read(left, request);
    ASSERT_NE(step.state, State::kBad) << step.detail;
    left.remove_prefix(step.taken);
    if (step.state == State::kWhole) methods += request.target;
  }
  EXPECT_EQ(methods, "/v1/peek/v1/acquire/v1/peek/v1/acquire");
}

TEST(RequestReader, RefusesAChunkLineOrTrailerWithoutEnd) {
  for (const std::string& endless : {std::string("1;") + std::string(300, 'x'),
                                     std::string("0\r\nT: ") + std::string(300, 'x')}) {
    RequestReader reader(kBounds);
    HttpRequest request;
    const std::string bytes =
        "POST / HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n" + endless;
    const auto step = reader.read(bytes, request);
    EXPECT_EQ(step.state, State::kBad);
    EXPECT_EQ(step.problem, Problem::kHeaderTooLarge);
  }
}

// Beast asserts when it is shown `0 CR LF` and then `0 CR LF` and one byte more.
TEST(RequestReader, ReadsALastChunkThatComesByteByByte) {
  RequestReader reader(kBounds);
  HttpRequest request;
  std::string unread = "POST / HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(reader.read(unread, request).taken, unread.size());
  unread.clear();
  for (const char byte : std::string_view("0\r\n\r")) {
    unread += byte;
    for (int i = 0; i < 2; ++i) {
      const auto step = reader.read(unread, request);
      ASSERT_EQ(step.state, State::kPartial);
      ASSERT_EQ(step.taken, 0u);
    }
  }
  unread += '\n';
  EXPECT_EQ(reader.read(unread, request).state, State::kWhole);
}

TEST(RequestReader, RefusesWhatSaysTwiceWhereItComesFrom) {
  for (const std::string field : {"Host: w", "Origin: http://w", "Sec-Fetch-Site: none"}) {
    RequestReader reader(kBounds);
    HttpRequest request;
    const std::string host = field.starts_with("Host") ? "" : "Host: w\r\n";
    const auto step =
        reader.read("GET / HTTP/1.1\r\n" + host + field + "\r\n" + field + "\r\n\r\n", request);
    EXPECT_EQ(step.state, State::kBad) << field;
    EXPECT_THAT(step.detail, HasSubstr("is there twice; send it once")) << field;
  }
}

TEST(RequestReader, SaysWhatIsWrong) {
  RequestReader reader(kBounds);
  HttpRequest request;
  const auto step = reader.read("GET / HTTP/1.1\r\nHost: w\r\nX: a\r\n b\r\n\r\n", request);
  EXPECT_EQ(step.state, State::kBad);
  EXPECT_EQ(step.problem, Problem::kBadArgument);
  EXPECT_THAT(step.detail, HasSubstr("write each field on one line"));
}

TEST(Response, IsWrittenWhole) {
  std::string out;
  append_response(
      out, {.status = 429, .content_type = "text/plain", .headers = "A: b\r\n", .body = "no"},
      "Date: today\r\n", Afterwards::kClose, true);
  EXPECT_EQ(out,
            "HTTP/1.1 429 Too Many Requests\r\nDate: today\r\nContent-Type: text/plain\r\nA: b\r\n"
            "Connection: close\r\nContent-Length: 2\r\n\r\nno");
}

TEST(Response, HasAReasonForEveryProblem) {
  for (const ProblemRow& row : problems()) EXPECT_NE(reason_of(row.status), "") << row.status;
}

TEST(DateLine, IsThatOfTheSecond) {
  DateLine date;
  EXPECT_EQ(date.at(Instant{784'111'777'999'999'999}), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
  EXPECT_EQ(date.at(Instant{784'111'778'000'000'000}), "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
}

}  // namespace
}  // namespace weir::wire::http
