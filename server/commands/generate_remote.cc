#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/str_cat.h"
#include "hydrant/v1/generation.grpc.pb.h"
#include "server/commands/generate_source.h"

namespace hydrant::server {
namespace {

class Remote final : public GenerateSource {
 public:
  explicit Remote(const std::string& address) : address_(address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);  // log-probabilities of a long prompt are one message
    stub_ = v1::Generation::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  absl::Status Generate(v1::GenerateRequest request, const OnEvent& on_event) override {
    const auto reader = stub_->Generate(&context_, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) on_event(response);
    const grpc::Status status = reader->Finish();
    if (status.ok()) return absl::OkStatus();
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat(address_, ": ", status.error_message()));
  }

  void Cancel() override { context_.TryCancel(); }

 private:
  const std::string address_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

}  // namespace

std::unique_ptr<GenerateSource> RemoteSource(const std::string& address) {
  return std::make_unique<Remote>(address);
}

}  // namespace hydrant::server
