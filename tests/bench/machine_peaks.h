// What the machine can do at most, measured in the same run as the kernels that are compared with
// it. All on `threads` threads together.

#ifndef HYDRANT_TESTS_BENCH_MACHINE_PEAKS_H_
#define HYDRANT_TESTS_BENCH_MACHINE_PEAKS_H_

namespace hydrant::bench {

// GB/s at which a buffer far larger than the caches is read.
double ReadBandwidth(int threads);

// 1e9 operations (a multiply and an add are two) a second of the widest int8 and bf16 dot-product
// instructions, out of registers; 0 where the machine has none.
double Int8Peak(int threads);
double BF16Peak(int threads);

}  // namespace hydrant::bench

#endif  // HYDRANT_TESTS_BENCH_MACHINE_PEAKS_H_
