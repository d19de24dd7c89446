#include "server/bench/client.h"

#include <google/protobuf/arena.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hydrant/v1/generation.grpc.pb.h"

namespace hydrant::server::bench {
namespace {

constexpr std::chrono::milliseconds kAskAgain(100);
constexpr int32_t kMostReserved = 4096;
constexpr int kMaxReconnectBackoffMs = 1000;
constexpr std::chrono::seconds kAnswerTimeout(1);
constexpr std::chrono::seconds kConnectTimeout(5);

absl::Status ToAbsl(const std::string& address, const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(address, ": ", status.error_message()));
}

}  // namespace

struct Client::Impl {
  Impl(const std::string& address, std::shared_ptr<grpc::Channel> channel)
      : address(address), stub(v1::Generation::NewStub(std::move(channel))) {}

  const std::string address;
  std::unique_ptr<v1::Generation::Stub> stub;
  std::atomic<int64_t> tokens = 0;
  std::mutex mutex;
  std::unordered_set<Call*> open;
  int64_t calls = 0;  // that exist: the open ones, and those that are just ending
  std::condition_variable none_left;
};

// Owns itself until OnDone.
class Client::Call final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(Impl& impl, const Clock& clock, double scheduled, OnEnd on_end)
      : impl_(impl), clock_(clock), on_end_(std::move(on_end)) {
    record_.scheduled = scheduled;
  }

  void Start(const v1::GenerateRequest& request, std::optional<double> timeout) {
    record_.arrivals.reserve(std::min(request.stopping().max_tokens(), kMostReserved));
    if (timeout) {
      context_.set_deadline(std::chrono::system_clock::now() +
                            std::chrono::microseconds(static_cast<int64_t>(*timeout * 1e6)));
    }
    record_.sent = clock_.Now();
    impl_.stub->async()->Generate(&context_, &request, this);
    StartRead(response_);
    StartCall();
  }

  // While it is among the open ones.
  void Interrupt() {
    interrupted_ = true;
    context_.TryCancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    Take(*response_);
    arena_.Reset();
    response_ = google::protobuf::Arena::CreateMessage<v1::GenerateResponse>(&arena_);
    StartRead(response_);
  }

  void OnDone(const grpc::Status& status) override {
    record_.ended = clock_.Now();
    record_.status = StatusOf(status);
    record_.interrupted = interrupted_ && !record_.status.ok();
    on_end_(std::move(record_));
    Impl& impl = impl_;
    {
      std::lock_guard lock(impl.mutex);
      impl.open.erase(this);  // from now on nobody interrupts it
    }
    delete this;
    std::lock_guard lock(impl.mutex);
    // Under the lock: the client may go, with all that gRPC holds, right after the last one.
    if (--impl.calls == 0) impl.none_left.notify_all();
  }

 private:
  void Take(const v1::GenerateResponse& response) {
    if (response.has_prompt_info()) record_.prompt_tokens = response.prompt_info().prompt_tokens();
    if (response.has_delta() && response.delta().token_ids_size() > 0) {
      const int32_t tokens = response.delta().token_ids_size();
      record_.arrivals.push_back({clock_.Now(), tokens});
      impl_.tokens.fetch_add(tokens, std::memory_order_relaxed);
    }
    if (response.has_finished()) record_.usage = response.finished().usage();
  }

  absl::Status StatusOf(const grpc::Status& status) const {
    if (!status.ok()) return ToAbsl(impl_.address, status);
    if (record_.usage) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(impl_.address, ": the stream ended with OK, but without `finished`"));
  }

  Impl& impl_;
  const Clock& clock_;
  const OnEnd on_end_;
  grpc::ClientContext context_;
  std::atomic<bool> interrupted_ = false;
  RequestRecord record_;
  // A message with one token fits in the block, so reading it allocates nothing.
  alignas(8) char block_[2048];
  google::protobuf::Arena arena_{block_, sizeof(block_)};
  v1::GenerateResponse* response_ =
      google::protobuf::Arena::CreateMessage<v1::GenerateResponse>(&arena_);
};

absl::StatusOr<std::unique_ptr<Client>> Client::Make(const std::string& address,
                                                     const ClientSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kAskAgain.count());
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kAskAgain.count());
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  auto channel = MakeChannel(address, security, arguments);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(address, *std::move(channel))));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  std::unique_lock lock(impl_->mutex);
  impl_->none_left.wait(lock, [&] { return impl_->calls == 0; });
}

absl::StatusOr<v1::GetModelInfoResponse> Client::WaitForModel(double wait_seconds) {
  const Clock clock;
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kConnectTimeout);
    v1::GetModelInfoResponse response;
    const grpc::Status status = impl_->stub->GetModelInfo(&context, {}, &response);
    if (status.ok()) return response;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || clock.Now() >= wait_seconds) {
      return ToAbsl(impl_->address, status);
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

absl::StatusOr<std::vector<uint32_t>> Client::Tokenize(const std::string& text) {
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_text(text);
  request.set_add_special_tokens(false);
  v1::TokenizeResponse response;
  const grpc::Status status = impl_->stub->Tokenize(&context, request, &response);
  if (!status.ok()) return ToAbsl(impl_->address, status);
  return std::vector<uint32_t>(response.token_ids().begin(), response.token_ids().end());
}

std::optional<v1::GetLoadResponse> Client::GetLoad() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  v1::GetLoadResponse response;
  if (!impl_->stub->GetLoad(&context, {}, &response).ok()) return std::nullopt;
  return response;
}

void Client::Start(const v1::GenerateRequest& request, const Clock& clock, double scheduled,
                   std::optional<double> timeout, OnEnd on_end) {
  auto* call = new Call(*impl_, clock, scheduled, std::move(on_end));
  {
    std::lock_guard lock(impl_->mutex);
    impl_->open.insert(call);
    ++impl_->calls;
  }
  call->Start(request, timeout);
}

void Client::InterruptAll() {
  std::lock_guard lock(impl_->mutex);
  for (Call* call : impl_->open) call->Interrupt();
}

int64_t Client::tokens() const { return impl_->tokens.load(std::memory_order_relaxed); }

}  // namespace hydrant::server::bench
