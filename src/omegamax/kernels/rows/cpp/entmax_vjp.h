// Entmax: vector-Jacobian products from the output p and the incoming gradient g. Two or three sweeps over a row; vectors
// of p that are all zero cost a test and a store.
#pragma once

#include "layout.h"

namespace omegamax {

// The vectors of one row (ACROSS the lanes) or of W rows (one in each lane), in memory, with the ragged ones at the end.
template <class T, class S, bool ACROSS>
struct Span {
    // s may be too large for S where the two differ: it is then computed twice rather than kept.
    static constexpr bool keeps = std::is_same<T, S>::value;

    int64_t n, stride, full;  // vectors, distance between them, how many of them are whole
    int some;                 // entries in use in the others
    Span(Shape s, int lanes)
        : n(ACROSS ? (s.K + Simd<T>::W - 1) / Simd<T>::W : s.K),
          stride(ACROSS ? Simd<T>::W : s.inner),
          full(ACROSS ? s.K / Simd<T>::W : (lanes == Simd<T>::W ? s.K : 0)),
          some(ACROSS ? int(s.K % Simd<T>::W) : lanes) {}
    MEMBER Vec<T> get(const S* from, int64_t i) const {
        return i < full ? load<T>(from + i * stride) : load_some<T>(from + i * stride, some, T(0));
    }
    MEMBER void put(S* to, int64_t i, Vec<T> v) const {
        if (i < full) store<T>(to + i * stride, v);
        else store_some<T>(to + i * stride, v, some);
    }
    MEMBER Vec<T> total(Sum<T>& sum) const { return sum.template value<ACROSS>(); }
};

// s = p^(2 - alpha) on the support.

template <class T>
struct ConstantWeight {  // alpha = 2
    static constexpr bool cheap = true;
    MEMBER Vec<T> operator()(Vec<T> p) const { return keep<T>(p > 0, splat<T>(1)); }
};

template <class T>
struct IdentityWeight {  // alpha = 1
    static constexpr bool cheap = true;
    MEMBER Vec<T> operator()(Vec<T> p) const { return p; }
};

template <class T, int N>
struct QuarterPower {  // alpha = 2 - N/4: a power of the fourth root
    static constexpr bool cheap = true;
    MEMBER Vec<T> operator()(Vec<T> p) const {
        Vec<T> half = square_root<T>(p);
        if constexpr (N == 2) return half;
        Vec<T> quarter = square_root<T>(half);
        if constexpr (N == 1) return quarter;
        return quarter * half;
    }
};

template <class T>
struct GeneralPower {  // one exponent for each lane
    static constexpr bool cheap = false;
    Vec<T> exponent;
    MEMBER Vec<T> operator()(Vec<T> p) const {
        // p is raised away from zero only to keep the logarithm out of trouble; those lanes are dropped.
        Vec<T> safe = maximum<T>(p, splat<T>(std::numeric_limits<T>::min()));
        return keep<T>(p > 0, exponential<T>(logarithm<T>(safe) * exponent));
    }
};

// J g = s (g - <s, g> / sum s)
template <class T, class S, bool ACROSS, class Weight>
INLINE void entmax_vjp(const Span<T, S, ACROSS>& span, const Weight& weight, const S* p, const S* g, S* out) {
    Sum<T> sums, dots;
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i);
        Vec<T> s{};
        if (Weight::cheap || any<T>(pi != 0)) {
            s = weight(pi);
            sums += s;
            dots += keep<T>(s != 0, s * span.get(g, i));
        } else {
            sums.skip(), dots.skip();
        }
        span.put(out, i, s);
    }
    const Vec<T> sum = span.total(sums);
    Vec<T> mean = select<T>(sum == 0, Vec<T>{}, span.total(dots) / sum);
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> s = span.keeps ? span.get(out, i) : span.get(p, i);
        if (!Weight::cheap && !any<T>(s != 0)) continue;
        if (!span.keeps) s = weight(s);
        span.put(out, i, keep<T>(s != 0, s * (span.get(g, i) - mean)));
    }
}

// The row entry at which `rank` is least among those with `among`: that rank, and p and g there.
template <class T>
struct Anchor {
    Vec<T> rank = splat<T>(T(INF)), p = splat<T>(1), g{};
    MEMBER void consider(Int<T> among, Vec<T> next, Vec<T> pi, Vec<T> gi) {
        const Int<T> less = among & (next < rank);
        rank = select<T>(less, next, rank), p = select<T>(less, pi, p), g = select<T>(less, gi, g);
    }
    MEMBER void across() {
        const Vec<T> least = -across_max<T>(-rank);
        g = across_max<T>(select<T>(rank == least, g, splat<T>(T(-INF))));
        p = across_max<T>(select<T>(rank == least, p, splat<T>(T(-INF))));
        rank = least;
    }
};

// The same where s spans too many orders of magnitude: it grows without bound as p falls for alpha > 2, and a tensor of
// alphas may hold any. J 1 = 0, so g may be taken relative to its value where s is largest, h = g - g_anchor, and that
// entry's own product is what the others leave: J g = s (h - <w, h>), w = s / sum s. The sum of s h, too, is taken
// relative to the largest s in it. One alpha for each lane; nothing moves at inf.
template <class T, class S, bool ACROSS>
INLINE void anchored_vjp(const Span<T, S, ACROSS>& span, Vec<T> alpha, const S* p, const S* g, S* out) {
    const Int<T> finite = alpha < T(INF);
    const GeneralPower<T> weight{select<T>(finite, T(2) - alpha, Vec<T>{})};
    // s is largest at the least p for alpha > 2, at the largest p below.
    const Vec<T> sign = select<T>(alpha > T(2), splat<T>(1), splat<T>(-1));
    Anchor<T> first, second;
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        first.consider(pi > 0, sign * pi, pi, span.get(g, i));
    }
    if (ACROSS) first.across();
    auto move = [&](int64_t i, Vec<T> pi) __attribute__((always_inline)) {
        return keep<T>(pi != 0, span.get(g, i) - first.g);
    };
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        second.consider((pi > 0) & (move(i, pi) != 0), sign * pi, pi, Vec<T>{});
    }
    if (ACROSS) second.across();
    Sum<T> sums, dots;
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        if (!any<T>(pi != 0)) {
            sums.skip(), dots.skip();
            continue;
        }
        const Vec<T> h = move(i, pi);
        sums += weight(pi / first.p);
        dots += keep<T>(h != 0, weight(pi / second.p) * h);
    }
    const Vec<T> share = span.total(dots) / span.total(sums), ratio = second.p / first.p;
    const Vec<T> mean = weight(ratio) * share;
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        Vec<T> moved{};
        if (any<T>(pi != 0)) {
            const Vec<T> h = move(i, pi), rest = h - mean;
            moved = select<T>(h != 0, keep<T>(rest != 0, weight(pi) * rest), -keep<T>(share != 0, weight(pi * ratio) * share));
        }
        span.put(out, i, keep<T>((pi != 0) & finite, moved));
    }
}

template <class T, class S, bool ACROSS>
INLINE void entmax_vjp_by_alpha(const Span<T, S, ACROSS>& span, Vec<T> alpha, bool shared, const S* p, const S* g, S* out) {
    const T a = alpha[0];
    if (shared && a == T(2)) return entmax_vjp(span, ConstantWeight<T>{}, p, g, out);
    if (shared && a == T(1)) return entmax_vjp(span, IdentityWeight<T>{}, p, g, out);
    if (shared && a == T(1.75)) return entmax_vjp(span, QuarterPower<T, 1>{}, p, g, out);
    if (shared && a == T(1.5)) return entmax_vjp(span, QuarterPower<T, 2>{}, p, g, out);
    if (shared && a == T(1.25)) return entmax_vjp(span, QuarterPower<T, 3>{}, p, g, out);
    if (shared && a < T(2)) return entmax_vjp(span, GeneralPower<T>{T(2) - alpha}, p, g, out);
    anchored_vjp(span, alpha, p, g, out);
}

}  // namespace omegamax
