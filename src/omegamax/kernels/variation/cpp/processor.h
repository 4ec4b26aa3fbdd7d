// Two versions of a function where it pays: plain, and for processors with AVX2. The same arithmetic in both.
#pragma once

#define ALWAYS inline __attribute__((always_inline))

#if defined(__x86_64__)
#define WITH_AVX2 __attribute__((target("avx2")))
#else
#define WITH_AVX2
#endif

namespace omegamax {

inline bool has_avx2() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

}  // namespace omegamax
