#include "server/trace_context.h"

#include <gtest/gtest.h>

namespace hydrant::server {
namespace {

// The standard's own example.
constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

std::string Header(const std::string& version = "00", const std::string& trace = kTrace,
                   const std::string& span = kSpan, const std::string& rest = "01") {
  return version + "-" + trace + "-" + span + "-" + rest;
}

TEST(TraceContextTest, ReadsIdsAndFlag) {
  const auto context = ParseTraceparent(Header());
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(context->span_id, kSpan);
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(ParseTraceparent(Header("00", kTrace, kSpan, "00"))->sampled);
  EXPECT_FALSE(ParseTraceparent(Header("00", kTrace, kSpan, "fe"))->sampled);
  EXPECT_TRUE(ParseTraceparent(Header("00", kTrace, kSpan, "ff"))->sampled);
}

TEST(TraceContextTest, ALaterVersionMaySayMore) {
  EXPECT_TRUE(ParseTraceparent(Header("01")));
  EXPECT_TRUE(ParseTraceparent(Header("01", kTrace, kSpan, "01-more")));
  EXPECT_FALSE(ParseTraceparent(Header("01", kTrace, kSpan, "01more")));
}

TEST(TraceContextTest, WhatIsNoneIsIgnored) {
  for (const std::string& header : {
           std::string(),
           std::string("00"),
           Header("ff"),
           Header("0x"),
           Header("00", std::string(32, '0')),
           Header("00", kTrace, std::string(16, '0')),
           Header("00", "4BF92F3577B34DA6A3CE929D0E0E4736"),
           Header("00", kTrace, kSpan, "0"),
           Header("00", kTrace, kSpan, "0g"),
           Header("00", kTrace, kSpan, "01-more"),
           Header("00", std::string(kTrace).substr(1), std::string(kSpan) + "0"),
           std::string(55, '-'),
       }) {
    EXPECT_FALSE(ParseTraceparent(header)) << header;
  }
}

}  // namespace
}  // namespace hydrant::server
