// Vectors in the compiler's own extension, as wide as a register: 64 bytes with AVX-512, 32 with AVX2, 16 with SSE or
// NEON. Everything is inlined; the same source is compiled once for each instruction set (see pyproject.toml).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX512F__)
#include <immintrin.h>
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif

#define INLINE static inline __attribute__((always_inline))
#define MEMBER inline __attribute__((always_inline))

namespace omegamax {

constexpr double INF = std::numeric_limits<double>::infinity();

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

template <class T, class S> INLINE Vec<T> load_some(const S* p, int count, T fill) {
    Vec<T> v = splat<T>(fill);
    for (int i = 0; i < count; i++) v[i] = T(p[i]);
    return v;
}

template <class T, class S> INLINE void store_some(S* p, Vec<T> v, int count) {
    for (int i = 0; i < count; i++) p[i] = S(v[i]);
}

// `yes` where the comparison held, `no` elsewhere.
template <class T> INLINE Vec<T> pick(Int<T> where, Vec<T> yes, Vec<T> no) { return where ? yes : no; }
template <class T> INLINE Vec<T> keep(Int<T> where, Vec<T> v) { return (Vec<T>)(where & (Int<T>)v); }
template <class T> INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) { return a > b ? a : b; }
template <class T> INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) { return a < b ? a : b; }

template <class T> INLINE Vec<T> square_root(Vec<T> v) {
    for (int i = 0; i < Simd<T>::W; i++) v[i] = std::sqrt(v[i]);
    return v;
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

// Sum or maximum of the lanes, in a fixed order, in every lane.
template <class T> INLINE Vec<T> across_sum(Vec<T> v) {
    constexpr int W = Simd<T>::W;
    for (int step = W / 2; step; step /= 2) {
        Int<T> other;
        for (int i = 0; i < W; i++) other[i] = i ^ step;
        v += __builtin_shuffle(v, other);
    }
    return v;
}

template <class T> INLINE Vec<T> across_max(Vec<T> v) {
    constexpr int W = Simd<T>::W;
    for (int step = W / 2; step; step /= 2) {
        Int<T> other;
        for (int i = 0; i < W; i++) other[i] = i ^ step;
        v = maximum<T>(v, __builtin_shuffle(v, other));
    }
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

// Rows of a W x W block become columns.
template <class T> INLINE void transpose(Vec<T>* r) {
    constexpr int W = Simd<T>::W;
    for (int step = 1; step < W; step *= 2) {
        Int<T> low, high;
        for (int i = 0; i < W; i++) {
            low[i] = i & step ? (i ^ step) + W : i;
            high[i] = i & step ? i + W : i ^ step;
        }
        for (int i = 0; i < W; i++)
            if (!(i & step)) {
                Vec<T> a = r[i], b = r[i + step];
                r[i] = __builtin_shuffle(a, b, low);
                r[i + step] = __builtin_shuffle(a, b, high);
            }
    }
}

template <class T> INLINE Vec<T> exponential(Vec<T> x) {
    typedef Simd<T> S;
    x = maximum<T>(x, splat<T>(S::lowest_exp));
    // exp(x) = 2^n exp(r), |r| <= ln(2) / 2. The scale goes in as two factors, so that tiny results stay exact.
    Vec<T> n = x * T(1.4426950408889634) + S::round - S::round;
    Vec<T> r = x - n * S::ln2_high - n * S::ln2_low;
    Vec<T> series = splat<T>(1);
    for (int k = S::exp_terms; k > 0; k--) series = series * r * T(1.0 / k) + T(1);
    Int<T> power = __builtin_convertvector(n, Int<T>);
    Int<T> half = power >> 1;
    Vec<T> first = (Vec<T>)((half + S::bias) << S::mantissa);
    Vec<T> second = (Vec<T>)((power - half + S::bias) << S::mantissa);
    return series * first * second;
}

// log(w) = k ln 2 + 2 atanh(f / (2 + f)), f being `near` (w - 1, however it is known) where w is close to 1. For w > 0.
template <class T> INLINE Vec<T> logarithm_parts(Vec<T> w, Vec<T> near) {
    typedef Simd<T> S;
    Int<T> bits = (Int<T>)w - S::sqrt_half;
    Int<T> k = bits >> S::mantissa;
    Int<T> f_bits = (bits & ((decltype(S::sqrt_half + 0)(1) << S::mantissa) - 1)) + S::sqrt_half;
    Vec<T> f = pick<T>(k == 0, near, (Vec<T>)f_bits - T(1));
    Vec<T> s = f / (f + T(2));
    Vec<T> square = s * s;
    Vec<T> series = splat<T>(T(2.0 / (2 * S::log_terms - 1)));
    for (int i = S::log_terms - 2; i >= 0; i--) series = series * square + T(2.0 / (2 * i + 1));
    Vec<T> n = __builtin_convertvector(k, Vec<T>);
    return n * S::ln2_high + (s * series + n * S::ln2_low);
}

template <class T> INLINE Vec<T> logarithm(Vec<T> w) { return logarithm_parts<T>(w, w - T(1)); }
template <class T> INLINE Vec<T> log_one_plus(Vec<T> t) { return logarithm_parts<T>(t + T(1), t); }

}  // namespace omegamax
