// Tests which URLs can be asked, and how texts stand in them. Transfers are tested through the
// contract system's ServiceClient, which has a service to ask.

#include "weir/fetch/url.h"

#include <gmock/gmock.h>

namespace weir::fetch {
namespace {

using ::testing::HasSubstr;

TEST(Url, IsRefusedUnlessItCanBeAsked) {
  for (const char* url :
       {"http://127.0.0.1:80", "https://services.example.org/a?b=c", "http://[::1]:8080/"}) {
    EXPECT_EQ(url_trouble(url), "") << url;
  }
  for (const char* url : {"", "example.org", "ftp://example.org", "file:///etc/passwd", "http://",
                          "http://a b/", "http://me:you@example.org", "http://example.org/#x",
                          "http://example.org#", "http://example.org:99999"}) {
    EXPECT_THAT(url_trouble(url), HasSubstr("; write such as 'https://")) << url;
  }
  const std::string cut("http://example.org\0 /", 21);
  EXPECT_THAT(url_trouble(cut), HasSubstr("it must have no zero byte"));
  const std::string longest = "http://a/" + std::string(kUrlBytesMax - 9, 'x');
  EXPECT_EQ(url_trouble(longest), "");
  EXPECT_THAT(url_trouble(longest + "x"), HasSubstr("has 2049 bytes, but it may have 2048"));
}

TEST(Url, EscapesWhatIsNotPlain) {
  EXPECT_EQ(url_escaped("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(url_escaped("a b/&=\xff"), "a%20b%2F%26%3D%FF");
}

}  // namespace
}  // namespace weir::fetch
