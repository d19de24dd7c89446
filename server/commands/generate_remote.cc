#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "hydrant/v1/generation.grpc.pb.h"
#include "server/commands/generate_source.h"

namespace hydrant::server {
namespace {

class Remote final : public GenerateSource {
 public:
  Remote(const std::string& address, std::shared_ptr<grpc::Channel> channel)
      : address_(address), stub_(v1::Generation::NewStub(std::move(channel))) {}

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

absl::StatusOr<std::unique_ptr<GenerateSource>> RemoteSource(const std::string& address,
                                                             const ClientSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // log-probabilities of a long prompt are one message
  auto channel = MakeChannel(address, security, arguments);
  if (!channel.ok()) return channel.status();
  return std::make_unique<Remote>(address, *std::move(channel));
}

}  // namespace hydrant::server
