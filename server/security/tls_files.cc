#include "server/security/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace hydrant::server {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using File = std::unique_ptr<std::FILE, Freed<std::fclose>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::Status Bad(const char* flag, const std::string& path, const std::string& why) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path, ": ", why));
}

absl::StatusOr<File> Open(const char* flag, const std::string& path) {
  File file(std::fopen(path.c_str(), "re"));
  if (!file) return Bad(flag, path, std::strerror(errno));
  return file;
}

// The first in the file.
absl::StatusOr<Certificate> ReadCertificate(const char* flag, const std::string& path) {
  auto file = Open(flag, path);
  if (!file.ok()) return file.status();
  Certificate certificate(PEM_read_X509(file->get(), nullptr, nullptr, nullptr));
  if (!certificate) return Bad(flag, path, "no PEM certificate in it");
  return certificate;
}

// In place of asking the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ReadKey(const char* flag, const std::string& path) {
  auto file = Open(flag, path);
  if (!file.ok()) return file.status();
  Key key(PEM_read_PrivateKey(file->get(), nullptr, NoPassword, nullptr));
  if (!key) return Bad(flag, path, "no PEM private key in it, or one with a password");
  return key;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (!files.given()) return absl::OkStatus();
  auto certificate = ReadCertificate("--tls_cert", files.cert);
  if (!certificate.ok()) return certificate.status();
  auto key = ReadKey("--tls_key", files.key);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    return Bad("--tls_key", files.key, absl::StrCat("not the key of ", files.cert));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate->get())) > 0) {
    return Bad("--tls_cert", files.cert, "not valid yet");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate->get())) < 0) {
    return Bad("--tls_cert", files.cert, "expired");
  }
  if (files.client_ca.empty()) return absl::OkStatus();
  return ReadCertificate("--tls_client_ca", files.client_ca).status();
}

}  // namespace hydrant::server
