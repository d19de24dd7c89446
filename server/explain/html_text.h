// Text of any kind as HTML that shows it.

#ifndef HYDRANT_SERVER_EXPLAIN_HTML_TEXT_H_
#define HYDRANT_SERVER_EXPLAIN_HTML_TEXT_H_

#include <string>
#include <string_view>

namespace hydrant::server {

// `text` with &, <, > and quotes escaped, and without what HTML may not hold: control characters
// and noncharacters become U+FFFD. For element content and for attributes in double quotes.
std::string EscapeHtml(std::string_view text);

// The same for the text of a token, where every character is to be seen: a line break as its sign
// and the break, other control characters as their pictures (U+2400 and on). The signs are in <i>.
std::string VisibleHtml(std::string_view text);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_HTML_TEXT_H_
