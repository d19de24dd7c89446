#include "server/security/auth_tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hydrant::server {
namespace {

constexpr std::chrono::seconds kLookAgain(1);
constexpr size_t kMaxNameBytes = 64;
constexpr std::string_view kScheme = "bearer ";

bool IsName(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.' && c != '@') return false;
  }
  return true;
}

bool IsHex(const std::string& text) {
  for (const char c : text) {
    if (!absl::ascii_isxdigit(c)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<AuthTokens::Tokens> AuthTokens::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("--auth_tokens: cannot read ", path));
  Tokens tokens;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string name, hash, more;
    if (!(words >> name) || name[0] == '#') continue;
    Token token{name, {}};
    if (!IsName(name) || !(words >> hash) || words >> more || !IsHex(hash) ||
        hash.size() != 2 * token.hash.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", number,
          ": a line is a name (letters, digits and -_.@, at most 64) and the SHA-256 of a token in "
          "64 hexadecimal digits"));
    }
    const std::string bytes = absl::HexStringToBytes(hash);
    std::copy(bytes.begin(), bytes.end(), token.hash.begin());
    tokens.push_back(std::move(token));
  }
  // Also what a file is that is just being written.
  if (tokens.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no token in it"));
  return tokens;
}

AuthTokens::Version AuthTokens::VersionOf(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return {};
  return {static_cast<int64_t>(file.st_ino), file.st_size, file.st_mtim.tv_sec,
          file.st_mtim.tv_nsec};
}

absl::StatusOr<std::unique_ptr<AuthTokens>> AuthTokens::Open(const std::string& path,
                                                             const Log& log) {
  auto opened = std::unique_ptr<AuthTokens>(new AuthTokens(path, log));
  // Before reading: a change while it is read is seen later.
  opened->version_ = VersionOf(path);
  opened->looked_ = std::chrono::steady_clock::now();
  auto tokens = Read(path);
  if (!tokens.ok()) return tokens.status();
  opened->tokens_ = std::make_shared<const Tokens>(*std::move(tokens));
  return opened;
}

std::shared_ptr<const AuthTokens::Tokens> AuthTokens::Current() {
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLookAgain) return tokens_;
  looked_ = now;
  const Version version = VersionOf(path_);
  if (version == version_) return tokens_;
  version_ = version;
  auto tokens = Read(path_);
  if (tokens.ok()) {
    tokens_ = std::make_shared<const Tokens>(*std::move(tokens));
    log_.Info("the tokens have changed",
              {{"file", path_}, {"tokens", static_cast<int64_t>(tokens_->size())}});
  } else {
    log_.Error("the tokens stay as they were", {{"error", std::string(tokens.status().message())}});
  }
  return tokens_;
}

std::optional<std::string> AuthTokens::NameOf(std::string_view authorization) {
  if (authorization.size() <= kScheme.size() ||
      !absl::EqualsIgnoreCase(absl::string_view(authorization.data(), kScheme.size()),
                              absl::string_view(kScheme.data(), kScheme.size()))) {
    return std::nullopt;
  }
  const std::string_view token = authorization.substr(kScheme.size());
  Hash hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  const std::shared_ptr<const Tokens> tokens = Current();
  const Token* found = nullptr;
  // All of them, whichever it is.
  for (const Token& known : *tokens) {
    if (CRYPTO_memcmp(known.hash.data(), hash.data(), hash.size()) == 0) found = &known;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

}  // namespace hydrant::server
