#include "server/security/auth_tokens.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/ascii.h"

namespace hydrant::server {
namespace {

// The SHA-256 of "secret" and of "abc", as sha256sum prints them.
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class AuthTokensTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  // As deployments do: the new file takes the old one's place at once.
  void Replace(const std::string& text) {
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  std::unique_ptr<AuthTokens> Open() {
    auto tokens = AuthTokens::Open(path_);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return tokens.ok() ? *std::move(tokens) : nullptr;
  }
  std::string Error() { return std::string(AuthTokens::Open(path_).status().message()); }

  const std::string path_ = testing::TempDir() + "/auth_tokens_test";
};

TEST_F(AuthTokensTest, NamesTheTokensOwner) {
  Write(std::string("# people\n\nalice ") + kSecret + "\nbob@ci.example  " +
        absl::AsciiStrToUpper(kAbc) + "\n");
  auto tokens = Open();
  EXPECT_EQ(tokens->NameOf("Bearer secret"), "alice");
  EXPECT_EQ(tokens->NameOf("bearer abc"), "bob@ci.example");
  for (const char* other : {"", "Bearer ", "Bearer", "secret", "Basic secret", "Bearer secre",
                            "Bearer secret ", "Bearer  secret", "Bearer Secret"}) {
    EXPECT_EQ(tokens->NameOf(other), std::nullopt) << other;
  }
  // The hash itself opens nothing.
  EXPECT_EQ(tokens->NameOf(std::string("Bearer ") + kSecret), std::nullopt);
}

TEST_F(AuthTokensTest, ABadFileIsRefusedByItsLine) {
  const std::string good = std::string("alice ") + kSecret;
  for (const std::string& line :
       {std::string("alice"), good.substr(0, good.size() - 1), good + "0", good + " more",
        std::string("alice ") + std::string(64, 'g'), std::string("al/ice ") + kSecret,
        std::string(65, 'a') + " " + kSecret}) {
    Write(good + "\n" + line + "\n");
    EXPECT_NE(Error().find(path_ + ":2:"), std::string::npos) << line << ": " << Error();
  }
  Write("# nobody\n");
  EXPECT_NE(Error().find("no token"), std::string::npos);
  std::remove(path_.c_str());
  EXPECT_NE(Error().find(path_), std::string::npos);
}

TEST_F(AuthTokensTest, AChangedFileIsSeenAndABadOneIsNot) {
  Replace(std::string("alice ") + kSecret + "\n");
  auto tokens = Open();
  ASSERT_EQ(tokens->NameOf("Bearer secret"), "alice");
  Replace(std::string("bob ") + kAbc + "\n");
  while (!tokens->NameOf("Bearer abc")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(tokens->NameOf("Bearer secret"), std::nullopt);

  testing::internal::CaptureStderr();
  std::remove(path_.c_str());
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_EQ(tokens->NameOf("Bearer abc"), "bob");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("stay as they were"), std::string::npos);
}

}  // namespace
}  // namespace hydrant::server
