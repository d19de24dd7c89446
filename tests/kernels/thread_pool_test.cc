#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace hydrant::kernels::cpu {
namespace {

TEST(ThreadPool, RunsTheJobOnceOnEachMember) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> calls(threads);
    for (int job = 1; job <= 200; ++job) {
      pool.Run([&](int member) { calls[member].fetch_add(1); });
      for (const auto& count : calls) ASSERT_EQ(count.load(), job);
    }
  }
}

TEST(ThreadPool, ForEachVisitsEachIndexOnce) {
  ThreadPool pool(3);
  for (const int64_t count : {0, 1, 2, 7, 100, 1001}) {
    for (const int64_t grain : {1, 4, 2000}) {
      std::vector<std::atomic<int>> visits(count);
      pool.ForEach(count, grain, [&](int64_t i, int member) {
        ASSERT_GE(member, 0);
        ASSERT_LT(member, 3);
        visits[i].fetch_add(1);
      });
      for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
    }
  }
}

TEST(ThreadPool, WakesMembersThatSleep) {
  ThreadPool pool(4);
  for (int job = 0; job < 5; ++job) {
    usleep(5000);  // far longer than members spin
    std::atomic<int> calls{0};
    pool.Run([&](int) { calls.fetch_add(1); });
    ASSERT_EQ(calls.load(), 4);
  }
}

// The caller has finished long before the last member: it sleeps, and is woken.
TEST(ThreadPool, WaitsForTheSlowest) {
  ThreadPool pool(3);
  for (int job = 0; job < 5; ++job) {
    std::atomic<int> done{0};
    pool.Run([&](int member) {
      if (member != 0) usleep(5000 * member);
      done.fetch_add(1);
    });
    ASSERT_EQ(done.load(), 3);
  }
}

TEST(ThreadPool, WritesOfAJobAreSeenByTheNext) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int job = 0; job < 300; ++job) {
    // Another member than in the job before writes each element.
    pool.Run([&](int member) {
      for (size_t i = 0; i < values.size(); ++i) {
        if ((i + job) % 4 == static_cast<size_t>(member)) ++values[i];
      }
    });
  }
  for (const int64_t value : values) ASSERT_EQ(value, 300);
}

}  // namespace
}  // namespace hydrant::kernels::cpu
