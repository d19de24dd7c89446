#include "server/security/client_credentials.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/command_line.h"
#include "server/security/local_address.h"

namespace hydrant::server {
namespace {

class Bearer final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit Bearer(const std::string& token) : value_("Bearer " + token) {}
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->emplace("authorization", value_);
    return grpc::Status::OK;
  }

 private:
  const std::string value_;
};

absl::StatusOr<std::string> Read(const char* flag, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file && !text.empty()) return text;
  return absl::NotFoundError(absl::StrCat(flag, ": cannot read ", path, ", or it is empty"));
}

absl::StatusOr<std::string> ReadToken(const ClientSecurity& security) {
  auto token = Read("--token_file", security.token_file);
  if (!token.ok()) return token;
  if (const char* value = std::getenv("HYDRANT_TOKEN"); token->empty() && value) *token = value;
  absl::StripAsciiWhitespace(&*token);
  for (const char c : *token) {
    // gRPC aborts the process over a header that is none.
    if (!absl::ascii_isgraph(c)) {
      return absl::InvalidArgumentError("the token has characters that no token has");
    }
  }
  return token;
}

bool UsesTls(const ClientSecurity& s) {
  return s.tls || !s.ca.empty() || !s.cert.empty() || !s.key.empty() || !s.server_name.empty();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Tls(const ClientSecurity& security) {
  grpc::SslCredentialsOptions options;
  for (const auto& [flag, path, text] :
       {std::tuple{"--tls_ca", &security.ca, &options.pem_root_certs},
        {"--tls_cert", &security.cert, &options.pem_cert_chain},
        {"--tls_key", &security.key, &options.pem_private_key}}) {
    auto read = Read(flag, *path);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  return grpc::SslCredentials(options);
}

}  // namespace

void AddClientSecurityFlags(CLI::App& app, ClientSecurity& security) {
  app.add_flag("--tls", security.tls, "Connects by TLS; so does each of the next four");
  app.add_option("--tls_ca", security.ca, "CA of the server's certificate (PEM); default: system's")
      ->type_name("FILE");
  CLI::Option* cert =
      app.add_option("--tls_cert", security.cert, "Own certificate chain (PEM)")->type_name("FILE");
  CLI::Option* key = app.add_option("--tls_key", security.key, "Its private key (PEM)")
                         ->type_name("FILE")
                         ->needs(cert);
  cert->needs(key);
  app.add_option("--tls_server_name", security.server_name,
                 "Name in the server's certificate; default: the host of --server")
      ->type_name("NAME");
  app.add_option("--token_file", security.token_file,
                 "File of the bearer token; default: the environment's HYDRANT_TOKEN, if any")
      ->type_name("FILE");
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const ClientSecurity& security,
                                                           grpc::ChannelArguments arguments) {
  auto token = ReadToken(security);
  if (!token.ok()) return token.status();
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (UsesTls(security)) {
    auto tls = Tls(security);
    if (!tls.ok()) return tls.status();
    credentials = *std::move(tls);
    if (!security.server_name.empty()) arguments.SetSslTargetNameOverride(security.server_name);
  } else if (!token->empty()) {
    const auto local = LocalConnectTypeOf(address);
    if (!local) {
      return absl::InvalidArgumentError(
          absl::StrCat("a token goes to ", address, " by TLS only: give --tls, or --tls_ca"));
    }
    credentials = grpc::experimental::LocalCredentials(*local);
  }
  if (!token->empty()) {
    credentials = grpc::CompositeChannelCredentials(
        credentials, grpc::experimental::MetadataCredentialsFromPlugin(
                         std::make_unique<Bearer>(*token), GRPC_SECURITY_NONE));
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace hydrant::server
