// Vectors in the compiler's own extension, as wide as a register: 64 bytes with AVX-512, 32 with AVX2, 16 with SSE or
// NEON. Everything is inlined; the same source is compiled once for each instruction set (see pyproject.toml).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#define BYTES 64
#elif defined(__AVX2__)
#include <immintrin.h>
#define BYTES 32
#else
#define BYTES 16
#endif

#define INLINE static inline __attribute__((always_inline))
#define MEMBER inline __attribute__((always_inline))

namespace omegamax {

constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double INVERSE_FACTORIAL[] = {1,          1,           1. / 2,       1. / 6,        1. / 24,
                                        1. / 120,   1. / 720,    1. / 5040,    1. / 40320,    1. / 362880,
                                        1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800, 1. / 87178291200};

template <class T>
struct Simd;

template <>
struct Simd<float> {
    typedef float V __attribute__((vector_size(BYTES)));
    typedef int32_t I __attribute__((vector_size(BYTES)));
    static constexpr int W = BYTES / 4;
    static constexpr float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
    static constexpr int mantissa = 23, bias = 127;
    static constexpr int32_t sqrt_half = 0x3f3504f3;
    static constexpr float lowest_exp = -104.0f;  // exp underflows to zero below it
    static constexpr float ln2_high = 0.693145752f, ln2_low = 1.42860677e-6f;
    static constexpr int exp_terms = 7, log_terms = 5;
};

template <>
struct Simd<double> {
    typedef double V __attribute__((vector_size(BYTES)));
    typedef int64_t I __attribute__((vector_size(BYTES)));
    static constexpr int W = BYTES / 8;
    static constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcdLL;
    static constexpr double lowest_exp = -746.0;
    static constexpr double ln2_high = 0.69314718036912382, ln2_low = 1.9082149292705877e-10;
    static constexpr int exp_terms = 13, log_terms = 12;
};

template <class T> using Vec = typename Simd<T>::V;
template <class T> using Int = typename Simd<T>::I;

template <class T> INLINE Vec<T> splat(T x) { return x - Vec<T>{}; }

// Memory holds S, arithmetic is done in T: the same, or float in memory and double in registers.
template <class T, class S> struct Stored {
    typedef S V __attribute__((vector_size(sizeof(S) * Simd<T>::W)));
};
template <class T> struct Stored<T, T> {
    typedef Vec<T> V;
};

template <class T, class S> INLINE Vec<T> load(const S* p) {
    typename Stored<T, S>::V v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Vec<T>);
}

template <class T, class S> INLINE void store(S* p, Vec<T> v) {
    typename Stored<T, S>::V out = __builtin_convertvector(v, typename Stored<T, S>::V);
    std::memcpy(p, &out, sizeof out);
}

// Some of a vector, the first `count` lanes; the others are `fill`, and their memory is left alone.
#if defined(__AVX512F__)
template <class T, class S> INLINE Vec<T> load_some(const S* p, int count, T fill) {
    const __mmask16 mask = __mmask16((1 << count) - 1);
    if constexpr (sizeof(S) == 8) return (Vec<T>)_mm512_mask_loadu_pd((__m512d)splat<T>(fill), __mmask8(mask), p);
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_mask_loadu_ps((__m512)splat<T>(fill), mask, p);
    const __m512 v = _mm512_mask_loadu_ps(_mm512_set1_ps(float(fill)), mask, p);
    return (Vec<T>)_mm512_cvtps_pd(_mm512_castps512_ps256(v));
}

template <class T, class S> INLINE void store_some(S* p, Vec<T> v, int count) {
    const __mmask16 mask = __mmask16((1 << count) - 1);
    if constexpr (sizeof(S) == 8) _mm512_mask_storeu_pd(p, __mmask8(mask), (__m512d)v);
    else if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, mask, (__m512)v);
    else _mm512_mask_storeu_ps(p, mask, _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)v)));
}
#elif defined(__AVX2__)
typedef int32_t Int4 __attribute__((vector_size(16)));

// All bits of the first `count` lanes of W.
template <class I, int W> INLINE I first_lanes(int count) {
    I mask;
    for (int i = 0; i < W; i++) mask[i] = i < count ? -1 : 0;
    return mask;
}

template <class T, class S> INLINE Vec<T> load_some(const S* p, int count, T fill) {
    const Int<T> mask = first_lanes<Int<T>, Simd<T>::W>(count);
    Vec<T> v;
    if constexpr (sizeof(S) == 8) v = (Vec<T>)_mm256_maskload_pd(p, (__m256i)mask);
    else if constexpr (sizeof(T) == 4) v = (Vec<T>)_mm256_maskload_ps(p, (__m256i)mask);
    else v = (Vec<T>)_mm256_cvtps_pd(_mm_maskload_ps(p, (__m128i)__builtin_convertvector(mask, Int4)));
    return mask ? v : splat<T>(fill);
}

template <class T, class S> INLINE void store_some(S* p, Vec<T> v, int count) {
    const Int<T> mask = first_lanes<Int<T>, Simd<T>::W>(count);
    if constexpr (sizeof(S) == 8) _mm256_maskstore_pd(p, (__m256i)mask, (__m256d)v);
    else if constexpr (sizeof(T) == 4) _mm256_maskstore_ps(p, (__m256i)mask, (__m256)v);
    else _mm_maskstore_ps(p, (__m128i)__builtin_convertvector(mask, Int4), _mm256_cvtpd_ps((__m256d)v));
}
#else
template <class T, class S> INLINE Vec<T> load_some(const S* p, int count, T fill) {
    Vec<T> v = splat<T>(fill);
    for (int i = 0; i < count; i++) v[i] = T(p[i]);
    return v;
}

template <class T, class S> INLINE void store_some(S* p, Vec<T> v, int count) {
    for (int i = 0; i < count; i++) p[i] = S(v[i]);
}
#endif

// `yes` where the comparison held, `no` elsewhere.
template <class T> INLINE Vec<T> select(Int<T> where, Vec<T> yes, Vec<T> no) { return where ? yes : no; }
template <class T> INLINE Vec<T> keep(Int<T> where, Vec<T> v) { return (Vec<T>)(where & (Int<T>)v); }
template <class T> INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) { return a > b ? a : b; }
template <class T> INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) { return a < b ? a : b; }

template <class T> INLINE Vec<T> square_root(Vec<T> v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 8) return (Vec<T>)_mm512_sqrt_pd((__m512d)v);
    // A Newton step on the processor's estimate: four times the speed of its square root.
    Vec<T> r = (Vec<T>)_mm512_rsqrt14_ps((__m512)v);
    Vec<T> root = v * r;
    root += (v - root * root) * r * T(0.5);
    return keep<T>(v > 0, root);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 8) return (Vec<T>)_mm256_sqrt_pd((__m256d)v);
    else return (Vec<T>)_mm256_sqrt_ps((__m256)v);
#else
    for (int i = 0; i < Simd<T>::W; i++) v[i] = std::sqrt(v[i]);
    return v;
#endif
}

template <class T> INLINE bool any(Int<T> flags) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)flags, (__m512i)flags) != 0;
#else
    int64_t words[BYTES / 8], all = 0;
    std::memcpy(words, &flags, sizeof words);
    for (int64_t word : words) all |= word;
    return all != 0;
#endif
}

// Lanes of a and b in a given order, those of b counted from W.
template <class T, int... I> INLINE Vec<T> shuffle(Vec<T> a, Vec<T> b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, I...);
#else
    return __builtin_shuffle(a, b, Int<T>{I...});
#endif
}

template <class T> using Lanes = std::make_integer_sequence<int, Simd<T>::W>;

template <int STEP, class T, int... I> INLINE Vec<T> swap_lanes(Vec<T> v, std::integer_sequence<int, I...>) {
    return shuffle<T, (I ^ STEP)...>(v, v);
}

// Sum or maximum of the lanes, in a fixed order, in every lane.
template <class T, int STEP = Simd<T>::W / 2> INLINE Vec<T> across_sum(Vec<T> v) {
    v += swap_lanes<STEP, T>(v, Lanes<T>());
    if constexpr (STEP > 1) return across_sum<T, STEP / 2>(v);
    return v;
}

template <class T, int STEP = Simd<T>::W / 2> INLINE Vec<T> across_max(Vec<T> v) {
    v = maximum<T>(v, swap_lanes<STEP, T>(v, Lanes<T>()));
    if constexpr (STEP > 1) return across_max<T, STEP / 2>(v);
    return v;
}

// Appends the lanes of `v` that are flagged to `out`, which has room for a whole vector; returns how many.
template <class T> INLINE int64_t compact(T* out, Vec<T> v, Int<T> flags) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
        __mmask16 m = _mm512_test_epi32_mask((__m512i)flags, (__m512i)flags);
        _mm512_storeu_ps(out, _mm512_maskz_compress_ps(m, (__m512)v));
        return __builtin_popcount(m);
    } else {
        __mmask8 m = _mm512_test_epi64_mask((__m512i)flags, (__m512i)flags);
        _mm512_storeu_pd(out, _mm512_maskz_compress_pd(m, (__m512d)v));
        return __builtin_popcount(m);
    }
#else
    if (!any<T>(flags)) return 0;
    int64_t n = 0;
    for (int i = 0; i < Simd<T>::W; i++) {
        out[n] = v[i];
        n += flags[i] != 0;
    }
    return n;
#endif
}

// The inverse: flagged lanes take the next entries of `packed`, the others 0; `n` counts what was taken.
template <class T> INLINE Vec<T> expand(const T* packed, Int<T> flags, int64_t& n) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
        __mmask16 m = _mm512_test_epi32_mask((__m512i)flags, (__m512i)flags);
        packed += n, n += __builtin_popcount(m);
        return (Vec<T>)_mm512_maskz_expand_ps(m, _mm512_loadu_ps(packed));
    } else {
        __mmask8 m = _mm512_test_epi64_mask((__m512i)flags, (__m512i)flags);
        packed += n, n += __builtin_popcount(m);
        return (Vec<T>)_mm512_maskz_expand_pd(m, _mm512_loadu_pd(packed));
    }
#else
    Vec<T> v{};
    if (any<T>(flags))
        for (int i = 0; i < Simd<T>::W; i++)
            if (flags[i]) v[i] = packed[n++];
    return v;
#endif
}

template <int STEP, class T, int... I> INLINE void exchange(Vec<T>& a, Vec<T>& b, std::integer_sequence<int, I...>) {
    constexpr int W = Simd<T>::W;
    Vec<T> low = shuffle<T, (I & STEP ? (I ^ STEP) + W : I)...>(a, b);
    b = shuffle<T, (I & STEP ? I + W : I ^ STEP)...>(a, b);
    a = low;
}

// Rows of a W x W block become columns.
template <class T, int STEP = 1> INLINE void transpose(Vec<T>* r) {
    constexpr int W = Simd<T>::W;
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        if (!(i & STEP)) exchange<STEP, T>(r[i], r[i + STEP], Lanes<T>());
    if constexpr (2 * STEP < W) transpose<T, 2 * STEP>(r);
}

// With fewer TERMS, less accurate: enough for results that end up in float.
template <class T, int TERMS = Simd<T>::exp_terms> INLINE Vec<T> exponential(Vec<T> x) {
    typedef Simd<T> S;
    x = maximum<T>(x, splat<T>(S::lowest_exp));
    // exp(x) = 2^n exp(r), |r| <= ln(2) / 2. The scale goes in as two factors, so that tiny results stay exact.
    Vec<T> n = x * T(1.4426950408889634) + S::round - S::round;
    Vec<T> r = x - n * S::ln2_high - n * S::ln2_low;
    Vec<T> series = splat<T>(T(INVERSE_FACTORIAL[TERMS]));
#pragma GCC unroll 16
    for (int k = TERMS - 1; k >= 0; k--) series = series * r + T(INVERSE_FACTORIAL[k]);
    Int<T> power = __builtin_convertvector(n, Int<T>);
    Int<T> half = power >> 1;
    Vec<T> first = (Vec<T>)((half + S::bias) << S::mantissa);
    Vec<T> second = (Vec<T>)((power - half + S::bias) << S::mantissa);
    return series * first * second;
}

// log(w) = k ln 2 + 2 atanh(f / (2 + f)), f being `near` (w - 1, however it is known) where w is close to 1. For w > 0.
template <class T, int TERMS> INLINE Vec<T> logarithm_parts(Vec<T> w, Vec<T> near) {
    typedef Simd<T> S;
    Int<T> bits = (Int<T>)w - S::sqrt_half;
    Int<T> k = bits >> S::mantissa;
    Int<T> f_bits = (bits & ((decltype(S::sqrt_half + 0)(1) << S::mantissa) - 1)) + S::sqrt_half;
    Vec<T> f = select<T>(k == 0, near, (Vec<T>)f_bits - T(1));
    Vec<T> s = f / (f + T(2));
    Vec<T> square = s * s;
    Vec<T> series = splat<T>(T(2.0 / (2 * TERMS - 1)));
#pragma GCC unroll 16
    for (int i = TERMS - 2; i >= 0; i--) series = series * square + T(2.0 / (2 * i + 1));
    Vec<T> n = __builtin_convertvector(k, Vec<T>);
    return n * S::ln2_high + (s * series + n * S::ln2_low);
}

template <class T> INLINE Vec<T> logarithm(Vec<T> w) { return logarithm_parts<T, Simd<T>::log_terms>(w, w - T(1)); }
template <class T, int TERMS = Simd<T>::log_terms> INLINE Vec<T> log_one_plus(Vec<T> t) {
    return logarithm_parts<T, TERMS>(t + T(1), t);
}

}  // namespace omegamax
