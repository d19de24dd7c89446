// One explanation as one HTML page: self-contained, without a script and without anything fetched.

#ifndef HYDRANT_SERVER_EXPLAIN_PAGE_H_
#define HYDRANT_SERVER_EXPLAIN_PAGE_H_

#include <string>

#include "server/explain/explanation.h"

namespace hydrant::server {

// UTF-8. Its size grows with the tokens of the text; the heat map's has a bound.
std::string MakePage(const Explanation& explanation);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_PAGE_H_
