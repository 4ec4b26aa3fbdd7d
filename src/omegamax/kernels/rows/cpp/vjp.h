// Vector-Jacobian products from the output p and the incoming gradient g. Two or three sweeps over a row; vectors of p
// that are all zero cost a test and a store.
#pragma once

#include "rows.h"

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
struct Flat {  // alpha = 2
    static constexpr bool cheap = true;
    MEMBER Vec<T> operator()(Vec<T> p) const { return keep<T>(p > 0, splat<T>(1)); }
};

template <class T>
struct Same {  // alpha = 1
    static constexpr bool cheap = true;
    MEMBER Vec<T> operator()(Vec<T> p) const { return p; }
};

template <class T, int N>
struct Quarters {  // alpha = 2 - N/4: a power of the fourth root
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
struct AnyPower {  // one exponent for each lane
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
    Vec<T> mean = pick<T>(sum == 0, Vec<T>{}, span.total(dots) / sum);
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
    MEMBER void see(Int<T> among, Vec<T> next, Vec<T> pi, Vec<T> gi) {
        const Int<T> less = among & (next < rank);
        rank = pick<T>(less, next, rank), p = pick<T>(less, pi, p), g = pick<T>(less, gi, g);
    }
    MEMBER void across() {
        const Vec<T> least = -across_max<T>(-rank);
        g = across_max<T>(pick<T>(rank == least, g, splat<T>(T(-INF))));
        p = across_max<T>(pick<T>(rank == least, p, splat<T>(T(-INF))));
        rank = least;
    }
};

// The same where s spans too many orders of magnitude: it grows without bound as p falls for alpha > 2, and a tensor of
// alphas may hold any. J 1 = 0, so g may be taken relative to its value where s is largest, h = g - g_anchor, and that
// entry's own product is what the others leave: J g = s (h - <w, h>), w = s / sum s. The sum of s h, too, is taken
// relative to the largest s in it. One alpha for each lane; nothing moves at inf.
template <class T, class S, bool ACROSS>
INLINE void steep_vjp(const Span<T, S, ACROSS>& span, Vec<T> alpha, const S* p, const S* g, S* out) {
    const Int<T> finite = alpha < T(INF);
    const AnyPower<T> weight{pick<T>(finite, T(2) - alpha, Vec<T>{})};
    // s is largest at the least p for alpha > 2, at the largest p below.
    const Vec<T> sign = pick<T>(alpha > T(2), splat<T>(1), splat<T>(-1));
    Anchor<T> first, second;
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        first.see(pi > 0, sign * pi, pi, span.get(g, i));
    }
    if (ACROSS) first.across();
    auto move = [&](int64_t i, Vec<T> pi) __attribute__((always_inline)) {
        return keep<T>(pi != 0, span.get(g, i) - first.g);
    };
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        second.see((pi > 0) & (move(i, pi) != 0), sign * pi, pi, Vec<T>{});
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
            moved = pick<T>(h != 0, keep<T>(rest != 0, weight(pi) * rest), -keep<T>(share != 0, weight(pi * ratio) * share));
        }
        span.put(out, i, keep<T>((pi != 0) & finite, moved));
    }
}

// The Jacobian of normmax at alpha = 2, where s = ||p|| on the support: two sweeps, no powers.
template <class T, class S, bool ACROSS>
INLINE void norm_square_vjp(const Span<T, S, ACROSS>& span, const S* p, const S* g, S* out) {
    Sum<T> powers, dots, sums, counts;
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i);
        Vec<T> gi = keep<T>(pi != 0, span.get(g, i));
        powers += pi * pi, dots += pi * gi, sums += gi;
        counts += keep<T>(pi != 0, splat<T>(1));
    }
    const Vec<T> dot = span.total(dots);
    const Vec<T> norm = square_root<T>(span.total(powers));
    const Vec<T> both = span.total(sums) - span.total(counts) * dot;
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i);
        span.put(out, i, keep<T>(pi != 0, norm * (span.get(g, i) - dot - pi * both)));
    }
}

// J g = (s h - p <s, h>) / (alpha - 1), h = g - <p, g>, s = p (||p|| / p)^(alpha - 1). Again g is measured from its value
// at the largest s, and s from the largest one that moves: a constant in g would meet s as a rounding error.
template <class T, class S, bool ACROSS>
INLINE void normmax_vjp(const Span<T, S, ACROSS>& span, Vec<T> alpha, const S* p, const S* g, S* out) {
    const Int<T> flat = alpha == T(INF);
    const Vec<T> a = pick<T>(flat, splat<T>(2), alpha);
    const Vec<T> sign = pick<T>(a > T(2), splat<T>(1), splat<T>(-1));
    const AnyPower<T> weight{T(2) - a};
    Vec<T> top{};
    Sum<T> powers, dots, boths;
    Anchor<T> first, second;
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        top = maximum<T>(top, pi);
        first.see(pi > 0, sign * pi, pi, span.get(g, i));
    }
    if (ACROSS) top = across_max<T>(top), first.across();
    const Vec<T> down = pick<T>(top > 0, T(1) / top, splat<T>(1));
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        if (!any<T>(pi != 0)) {
            powers.skip(), dots.skip();
            continue;
        }
        powers += AnyPower<T>{a}(pi * down);
        dots += keep<T>(pi != 0, pi * (span.get(g, i) - first.g));
    }
    const Vec<T> power = span.total(powers), dot = span.total(dots);
    auto move = [&](int64_t i, Vec<T> pi) __attribute__((always_inline)) {
        return keep<T>(pi != 0, span.get(g, i) - first.g - dot);
    };
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        second.see((pi > 0) & (move(i, pi) != 0), sign * pi, pi, Vec<T>{});
    }
    if (ACROSS) second.across();
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        Vec<T> s{};
        if (any<T>(pi != 0)) {
            const Vec<T> h = move(i, pi);
            s = keep<T>(h != 0, weight(pi / second.p));
            boths += s * h;
        } else {
            boths.skip();
        }
        span.put(out, i, s);
    }
    const Vec<T> both = span.total(boths);
    const Vec<T> norm = top * AnyPower<T>{T(1) / a}(power);
    const Vec<T> factor = second.p * AnyPower<T>{a - T(1)}(norm / second.p) / (a - T(1));
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        if (!any<T>(pi != 0)) continue;
        const Vec<T> h = move(i, pi);
        const Vec<T> s = span.keeps ? span.get(out, i) : keep<T>(h != 0, weight(pi / second.p));
        const Vec<T> moved = s * h - pi * both;
        span.put(out, i, keep<T>((moved != 0) & ~flat, moved * factor));
    }
}

// J g = g - mean of g over the entries strictly between 0 and 1, on those entries
template <class T, class S, bool ACROSS>
INLINE void subsets_vjp(const Span<T, S, ACROSS>& span, const S* p, const S* g, S* out) {
    Sum<T> counts, sums;
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i);
        Int<T> free = (pi > 0) & (pi < T(1));
        if (!any<T>(free)) {
            counts.skip(), sums.skip();
            continue;
        }
        counts += keep<T>(free, splat<T>(1));
        sums += keep<T>(free, span.get(g, i));
    }
    const Vec<T> count = span.total(counts);
    Vec<T> mean = pick<T>(count == 0, Vec<T>{}, span.total(sums) / count);
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i), moved{};
        Int<T> free = (pi > 0) & (pi < T(1));
        if (any<T>(free)) moved = keep<T>(free, span.get(g, i) - mean);
        // NaN stays NaN
        span.put(out, i, pick<T>(pi != pi, pi, moved));
    }
}

template <class T, class S, bool ACROSS>
INLINE void entmax_vjp_for(const Span<T, S, ACROSS>& span, Vec<T> alpha, bool shared, const S* p, const S* g, S* out) {
    const T a = alpha[0];
    if (shared && a == T(2)) return entmax_vjp(span, Flat<T>{}, p, g, out);
    if (shared && a == T(1)) return entmax_vjp(span, Same<T>{}, p, g, out);
    if (shared && a == T(1.75)) return entmax_vjp(span, Quarters<T, 1>{}, p, g, out);
    if (shared && a == T(1.5)) return entmax_vjp(span, Quarters<T, 2>{}, p, g, out);
    if (shared && a == T(1.25)) return entmax_vjp(span, Quarters<T, 3>{}, p, g, out);
    if (shared && a < T(2)) return entmax_vjp(span, AnyPower<T>{T(2) - alpha}, p, g, out);
    steep_vjp(span, alpha, p, g, out);
}

enum class Kind : int { entmax = 0, normmax = 1, subsets = 2 };

template <class T, class S, bool ACROSS>
INLINE void vjp(Kind kind, const Span<T, S, ACROSS>& span, Vec<T> alpha, bool shared, const S* p, const S* g, S* out) {
    if (kind == Kind::entmax) entmax_vjp_for(span, alpha, shared, p, g, out);
    else if (kind == Kind::normmax && shared && alpha[0] == T(2)) norm_square_vjp(span, p, g, out);
    else if (kind == Kind::normmax) normmax_vjp(span, alpha, p, g, out);
    else subsets_vjp(span, p, g, out);
}

// Rows [begin, end). `alpha` holds one for each row, or, where `shared`, a single one.
template <class T, class S>
void vjp_range(Kind kind, const S* p, const S* g, S* out, const double* alpha, bool shared, Shape shape, int64_t begin,
               int64_t end) {
    if (shape.inner == 1) {
        const Span<T, S, true> span(shape, 1);
        for (int64_t i = begin; i < end; i++) {
            const int64_t at = i * shape.K;
            vjp(kind, span, splat<T>(T(alpha[shared ? 0 : i])), shared, p + at, g + at, out + at);
        }
        return;
    }
    for (int64_t i = begin; i < end;) {
        const Tile<T, S> tile(shape, i);
        const int64_t at = tile.start(int64_t(0));
        Vec<T> a = splat<T>(2);
        for (int j = 0; j < tile.lanes; j++) a[j] = T(alpha[shared ? 0 : i + j]);
        vjp(kind, Span<T, S, false>(shape, tile.lanes), a, shared, p + at, g + at, out + at);
        i = tile.next();
    }
}

}  // namespace omegamax
