#include "tests/cuda_emulator/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tests/cuda_emulator/machine.h"

#ifndef __x86_64__
#error "the emulator switches stacks of x86-64 only"
#endif

// Saves the callee's registers and the stack pointer of one fiber, and takes up those of another.
extern "C" void cuda_emulator_switch(void** from, void* to);
asm(R"(
.text
.type cuda_emulator_switch, @function
.globl cuda_emulator_switch
cuda_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rdx
  jmp *%rdx
.size cuda_emulator_switch, . - cuda_emulator_switch
)");

namespace cuda_emulator {
namespace {

Range Reserve(size_t bytes, int protection) {
  void* memory =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) Fail("cannot reserve %zu bytes of address space", bytes);
  return {reinterpret_cast<uintptr_t>(memory), bytes};
}

bool Same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// Stacks at multiples of a power of two would share a few lines of every cache.
constexpr size_t kStackPitch = kStackBytes + 17 * 64;

void Yield() {
  Machine& m = TheMachine();
  cuda_emulator_switch(&m.current->stack_pointer, m.scheduler_stack_pointer);
}

void FiberMain() {
  Machine& m = TheMachine();
  m.body(m.closure);
  m.current->wait = Wait::kEnd;
  ++m.ended;
  Yield();
  std::abort();  // nobody resumes it
}

void StartFiber(Fiber& fiber) {
  Machine& m = TheMachine();
  const uintptr_t top = m.stacks.begin + (fiber.thread + 1) * kStackPitch;
  void** stack = reinterpret_cast<void**>(top);
  *--stack = nullptr;  // where FiberMain would return to; keeps the stack aligned
  *--stack = reinterpret_cast<void*>(FiberMain);
  for (int i = 0; i < 6; ++i) *--stack = nullptr;
  fiber.stack_pointer = stack;
}

uint8_t* ExchangeSlots(int warp, int phase) {
  return TheMachine().exchanged.data() + (warp * 2 + phase) * kWarp * kExchangeBytes;
}

// Waits for the other lanes of the warp at the same place.
void MeetWarp(unsigned mask, Site site) {
  Machine& m = TheMachine();
  Fiber& self = *m.current;
  if ((mask >> (self.thread % kWarp)) % 2 == 0) {
    Fail("%s:%d: the calling lane is not in mask %#x", site.file, site.line, mask);
  }
  if (mask != ~0u) Fail("%s:%d: mask %#x is not the whole warp", site.file, site.line, mask);
  self.wait = Wait::kWarp;
  self.site = site;
  ++m.warp_arrivals[self.thread / kWarp];
  Yield();
}

void ReleaseWarp(int warp) {
  Machine& m = TheMachine();
  if (m.warp_arrivals[warp] != kWarp) return;
  Fiber* lanes = &m.fibers[warp * kWarp];
  for (int lane = 0; lane < kWarp; ++lane) {
    if (!Same(lanes[lane].site, lanes[0].site)) {
      m.current = &lanes[lane];
      Fail("lanes of a warp meet at %s:%d and %s:%d", lanes[0].site.file, lanes[0].site.line,
           lanes[lane].site.file, lanes[lane].site.line);
    }
    lanes[lane].wait = Wait::kNothing;
  }
  m.warp_arrivals[warp] = 0;
  m.phases[warp] ^= 1;
  m.reduced[warp] = 0;
}

void ReleaseBlock() {
  Machine& m = TheMachine();
  if (m.at_block_barrier != static_cast<int>(m.fibers.size())) return;
  for (Fiber& fiber : m.fibers) {
    if (!Same(fiber.site, m.fibers[0].site)) {
      m.current = &fiber;
      Fail("threads of a block meet at barriers %s:%d and %s:%d", m.fibers[0].site.file,
           m.fibers[0].site.line, fiber.site.file, fiber.site.line);
    }
    fiber.wait = Wait::kNothing;
    ++fiber.block_barriers;
  }
  m.at_block_barrier = 0;
}

[[noreturn]] void ReportDeadlock() {
  Machine& m = TheMachine();
  for (Fiber& fiber : m.fibers) {
    if (fiber.wait != Wait::kBlockBarrier && fiber.wait != Wait::kWarp) continue;
    m.current = &fiber;
    Fail("waits at %s:%d for threads that never come (divergent barrier or warp operation)",
         fiber.site.file, fiber.site.line);
  }
  std::abort();
}

// Runs each lane up to its next collective operation, lanes in a random order, and again as often
// as the warp gets from one to the next on its own and a throw of dice allows. Whether any lane
// ran.
bool RunWarp(int warp) {
  Machine& m = TheMachine();
  Fiber* const lanes = &m.fibers[warp * kWarp];
  bool progress = false;
  while (true) {
    const uint64_t random = NextRandom();
    const unsigned first = random, stride = random >> 32 | 1;
    bool ran = false;
    for (unsigned i = 0; i < kWarp; ++i) {
      Fiber& fiber = lanes[(first + i * stride) % kWarp];
      if (fiber.wait != Wait::kNothing) continue;
      m.current = &fiber;
      cuda_emulator_switch(&m.scheduler_stack_pointer, fiber.stack_pointer);
      ran = true;
    }
    m.current = nullptr;
    ReleaseWarp(warp);
    progress |= ran;
    if (!ran || random >> 60 == 0) return progress;
  }
}

void RunBlock() {
  Machine& m = TheMachine();
  const int threads = static_cast<int>(m.fibers.size());
  ++m.block_serial;
  m.at_block_barrier = m.ended = 0;
  std::fill(m.warp_arrivals.begin(), m.warp_arrivals.end(), 0);
  ForgetSharedMemory();
  if (m.dynamic_bytes > 0) SharedArray(nullptr, m.dynamic_bytes);
  for (int i = 0; i < threads; ++i) {
    Fiber& fiber = m.fibers[i];
    const unsigned x = m.block.x, y = m.block.y, t = i;
    fiber = {nullptr, i, {t % x, t / x % y, t / (x * y)}, Wait::kNothing, {"", 0}, 0, 0};
    StartFiber(fiber);
  }
  // Warps in a random order, a stretch of one after a stretch of another.
  const int warps = threads / kWarp;
  while (m.ended < threads) {
    bool progress = false;
    const int first = static_cast<int>(NextRandom() % warps);
    for (int i = 0; i < warps; ++i) progress |= RunWarp((first + i) % warps);
    if (!progress) ReportDeadlock();
    ReleaseBlock();
  }
}

int& CheckedBlocks(const char* kernel) {
  auto& all = TheMachine().checked_blocks;
  for (auto& [name, count] : all) {
    if (name == kernel) return count;
  }
  return all.emplace_back(kernel, 0).second;
}

}  // namespace

std::atomic<Machine*> made_machine = nullptr;

Machine& MakeMachine() {
  static Machine* const machine = [] {
    auto* m = new Machine;
    m->stacks = Reserve(kMaxThreads * kStackPitch, PROT_READ | PROT_WRITE);
    m->shared = Reserve(2 * kMaxSharedBytes, PROT_READ | PROT_WRITE);
    m->device = Reserve(size_t{16} << 30, PROT_NONE);
    // Launches take no memory of the host's: tests count what the code under test takes.
    m->fibers.reserve(kMaxThreads);
    m->warp_arrivals.reserve(kMaxThreads / kWarp);
    m->phases.reserve(kMaxThreads / kWarp);
    m->reduced.reserve(kMaxThreads / kWarp);
    m->exchanged.reserve(kMaxThreads * 2 * kExchangeBytes);
    m->copies.resize(kMaxThreads);
    m->shared_arrays.reserve(64);
    m->checked_blocks.reserve(256);
    made_machine.store(m, std::memory_order_release);
    return m;
  }();
  return *machine;
}

void Fail(const char* format, ...) {
  const Machine& m = TheMachine();
  std::fprintf(stderr, "cuda_emulator: %s, block (%u, %u, %u), thread %d: ", m.kernel,
               m.block_index.x, m.block_index.y, m.block_index.z,
               m.current == nullptr ? -1 : m.current->thread);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "\n");
  std::abort();
}

void SetSeed(uint64_t seed) { TheMachine().random = seed * 0x9e3779b97f4a7c15u + 1; }

uint64_t NextRandom() {
  uint64_t z = (TheMachine().random += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) >> 1;
}

uint3 ThreadIndex() { return TheMachine().current->index; }
uint3 BlockIndex() { return TheMachine().block_index; }
dim3 BlockSize() { return TheMachine().block; }
dim3 GridSize() { return TheMachine().grid; }
int Lane() { return TheMachine().current->thread % kWarp; }

void BlockBarrier(Site site) {
  Machine& m = TheMachine();
  m.current->wait = Wait::kBlockBarrier;
  m.current->site = site;
  ++m.at_block_barrier;
  Yield();
}

void WarpBarrier(unsigned mask, Site site) {
  MeetWarp(mask, site);
  ++TheMachine().current->warp_barriers;
}

void Exchange(unsigned mask, const void* value, size_t bytes, int lane, void* result, Site site) {
  if (lane < 0 || lane >= kWarp) Fail("%s:%d: lane %d", site.file, site.line, lane);
  std::memcpy(result, Gather(mask, value, bytes, site) + lane * kExchangeBytes, bytes);
}

uint8_t* Gather(unsigned mask, const void* value, size_t bytes, Site site) {
  Machine& m = TheMachine();
  const int self = m.current->thread;
  if (bytes > kExchangeBytes) Fail("%s:%d: exchanges %zu bytes", site.file, site.line, bytes);
  // Two phases: a lane may be at the next exchange while another still reads from this one.
  uint8_t* const slots = ExchangeSlots(self / kWarp, m.phases[self / kWarp]);
  std::memcpy(slots + self % kWarp * kExchangeBytes, value, bytes);
  MeetWarp(mask, site);
  return slots;
}

int AtomicAdd(int* address, int value) {
  CheckAccess(reinterpret_cast<uintptr_t>(address), sizeof(int), true, true);
  const int before = *address;
  *address = before + value;
  return before;
}

void* SharedArray(const void* tag, size_t bytes) {
  Machine& m = TheMachine();
  constexpr size_t kAlignment = 128;
  for (const auto& [known, memory] : m.shared_arrays) {
    if (known == tag) return memory;
  }
  void* const memory = reinterpret_cast<void*>(m.shared.begin + m.shared_used);
  m.shared_used += (bytes + kAlignment - 1) / kAlignment * kAlignment + kSharedGap;
  if (m.shared_used > m.shared.bytes) Fail("too much shared memory");
  m.shared_arrays.emplace_back(tag, memory);
  DeclareShared(memory, bytes);
  return memory;
}

void* DynamicShared() {
  if (TheMachine().dynamic_bytes == 0) Fail("launched without dynamic shared memory");
  return SharedArray(nullptr, TheMachine().dynamic_bytes);
}

void LaunchBody(const char* name, dim3 grid, dim3 block, size_t shared_bytes, KernelBody body,
                const void* closure, size_t closure_bytes) {
  Machine& m = TheMachine();
  const std::lock_guard lock(m.mutex);
  m.kernel = name;
  m.block_index = {0, 0, 0};
  const size_t threads = size_t{block.x} * block.y * block.z;
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  if (blocks == 0) Fail("launched with an empty grid");
  if (grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffffu) Fail("grid too large");
  if (threads == 0 || threads > kMaxThreads || threads % kWarp != 0) {
    Fail("launched with blocks of %zu threads", threads);
  }
  if (shared_bytes > kMaxSharedBytes) Fail("launched with %zu bytes shared", shared_bytes);
  m.grid = grid;
  m.block = block;
  m.body = body;
  m.closure = closure;
  m.closure_range = {reinterpret_cast<uintptr_t>(closure), closure_bytes};
  m.dynamic_bytes = shared_bytes;
  m.first_block_serial = m.block_serial + 1;
  m.fibers.resize(threads);
  m.warp_arrivals.resize(threads / kWarp);
  m.phases.assign(threads / kWarp, 0);
  m.reduced.assign(threads / kWarp, 0);
  m.exchanged.resize(threads * 2 * kExchangeBytes);

  int& checked = CheckedBlocks(name);
  OpenDeviceMemory();
  m.running = true;
  // An affine walk over all blocks: as random as is needed here, and nothing to store.
  size_t stride = NextRandom() % blocks + 1;
  while (std::gcd(stride, blocks) != 1) ++stride;
  size_t at = NextRandom() % blocks;
  for (size_t i = 0; i < blocks; ++i, at = (at + stride) % blocks) {
    m.block_index = {static_cast<unsigned>(at % grid.x),
                     static_cast<unsigned>(at / grid.x % grid.y),
                     static_cast<unsigned>(at / grid.x / grid.y)};
    checking = checked < kBlocksChecked || NextRandom() % kThenOneIn == 0;
    if (checking) ++checked;
    RunBlock();
  }
  m.running = checking = false;
  CloseDeviceMemory();
}

}  // namespace cuda_emulator
