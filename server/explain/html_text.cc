#include "server/explain/html_text.h"

#include "engine/tokenizer/utf8.h"

namespace hydrant::server {
namespace {

// Neither is allowed in HTML, nor is any use to a reader.
bool IsC1OrNoncharacter(char32_t c) {
  return (c >= 0x7F && c <= 0x9F) || (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
}

bool IsC0(char32_t c) { return c < 0x20 && c != '\n' && c != '\t'; }

void AppendEscaped(char32_t c, std::string& out) {
  switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      if (IsC0(c) || IsC1OrNoncharacter(c)) {
        out += engine::kReplacementCharacter;
      } else {
        engine::AppendUtf8(c, out);
      }
  }
}

void AppendVisible(char32_t c, std::string& out) {
  if (c == '\n') {
    out += "<i>↵</i>\n";
  } else if (IsC0(c) || c == 0x7F) {
    out += "<i>";
    engine::AppendUtf8(c == 0x7F ? 0x2421 : 0x2400 + c, out);
    out += "</i>";
  } else {
    AppendEscaped(c, out);
  }
}

std::string Convert(std::string_view text, void (*append)(char32_t, std::string&)) {
  std::string out;
  while (!text.empty()) {
    const engine::Utf8Sequence next = engine::ReadUtf8(text);
    const bool valid = next.kind == engine::Utf8Sequence::kCharacter;
    append(valid ? next.character : 0xFFFD, out);
    text.remove_prefix(next.kind == engine::Utf8Sequence::kUnfinished ? text.size() : next.length);
  }
  return out;
}

}  // namespace

std::string EscapeHtml(std::string_view text) { return Convert(text, AppendEscaped); }

std::string VisibleHtml(std::string_view text) { return Convert(text, AppendVisible); }

}  // namespace hydrant::server
