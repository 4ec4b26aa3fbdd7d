// Loops of one function for the vector registers of several processors.
#pragma once

// Compiled for several processors, of which the right one is chosen when the library is loaded.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define OMEGAMAX_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define OMEGAMAX_WIDE
#endif
