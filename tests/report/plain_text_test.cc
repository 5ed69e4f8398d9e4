#include "libquant/report/plain_text.h"

#include "libquant/report/html_text.h"
#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("text of files becomes valid and harmless UTF-8") {
  CHECK(PlainText("é ∞ 漢 😀\nb") == "é ∞ 漢 😀\nb");
  CHECK(PlainText("a\tb") == "a b");
  CHECK(PlainText(std::string_view("a\0b\x01\x7F", 5)) == "a�b��");
  CHECK(PlainText("\xC2\x85") == "�");                    // a control character of the second set
  CHECK(PlainText("\xE2\x80\xAEgnp.exe") == "�gnp.exe");  // turns the reading direction
  CHECK(PlainText("\xEF\xBF\xBE\xEF\xB7\x90") == "��");   // noncharacters
  CHECK(PlainLine("a\nb") == "a b");
}

TEST_CASE("bytes that are no UTF-8 are replaced one by one") {
  CHECK(PlainText("\xFF") == "�");
  CHECK(PlainText("\xC0\x80") == "��");            // too long a form of U+0000
  CHECK(PlainText("\xE0\x80\xAF") == "���");       // of "/"
  CHECK(PlainText("\xED\xA0\x80") == "���");       // a surrogate
  CHECK(PlainText("\xF4\x90\x80\x80") == "����");  // past the last character
  CHECK(PlainText("a\xE2\x82") == "a��");          // cut off
  CHECK(PlainText("\xE2\x82z") == "��z");
}

TEST_CASE("long lines lose their middle, by characters") {
  CHECK(ElidedLine("abcdefgh", 8) == "abcdefgh");
  CHECK(ElidedLine("abcdefghi", 8) == "abcd…ghi");
  CHECK(ElidedLine("äöüéèêñçß", 4) == "äö…ß");
  CHECK(ElidedLine("abc", 1) == "…");
  CHECK(ElidedLine("abc", 0).empty());
}

TEST_CASE("text means nothing to HTML") {
  CHECK(HtmlText("<a href=\"x\" id='y'>&amp;</a>") == "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
  // Elided before it is escaped: no entity is cut through.
  CHECK(HtmlElided("<<<<<<<<", 5) == "&lt;&lt;…&lt;&lt;");
}

TEST_CASE("numbers as a person reads them") {
  CHECK(ReadableNumber(0) == "0");
  CHECK(ReadableNumber(-0.0) == "0");
  CHECK(ReadableNumber(1234567) == "1,234,567");
  CHECK(ReadableNumber(-123) == "-123");
  CHECK(ReadableNumber(0.1 + 0.2) == "0.3");
  CHECK(ReadableNumber(1.5e-7) == "1.5e-7");
  CHECK(ReadableNumber(1e15) == "1e15");
  CHECK(Position(-0.01) == "0");
  CHECK(Position(12.34) == "12.3");
}

TEST_CASE("base64 of a hash") {
  CHECK(Base64OfHex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") ==
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

}  // namespace
}  // namespace quant
