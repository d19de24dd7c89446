// PEM files of a TLS server, checked before they are served: gRPC itself tells of a bad file only
// in its log, and clients would learn of it by handshakes that fail.

#ifndef HYDRANT_SERVER_SECURITY_TLS_FILES_H_
#define HYDRANT_SERVER_SECURITY_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"

namespace hydrant::server {

struct TlsFiles {
  std::string cert;       // the chain, the server's own certificate first; empty: no TLS
  std::string key;        // its private key
  std::string client_ca;  // clients must have a certificate signed by one of these; empty: need not

  bool given() const { return !cert.empty(); }
};

// Whether the files are readable and PEM, the key is the certificate's, and it is valid now. Errors
// name the flag, the file and the reason.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SECURITY_TLS_FILES_H_
