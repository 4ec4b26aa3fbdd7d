// Normmax: vector-Jacobian products from the output p and the incoming gradient g.
#pragma once

#include "entmax_vjp.h"

namespace omegamax {

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
    const Vec<T> a = select<T>(flat, splat<T>(2), alpha);
    const Vec<T> sign = select<T>(a > T(2), splat<T>(1), splat<T>(-1));
    const GeneralPower<T> weight{T(2) - a};
    Vec<T> top{};
    Sum<T> powers, dots, boths;
    Anchor<T> first, second;
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        top = maximum<T>(top, pi);
        first.consider(pi > 0, sign * pi, pi, span.get(g, i));
    }
    if (ACROSS) top = across_max<T>(top), first.across();
    const Vec<T> down = select<T>(top > 0, T(1) / top, splat<T>(1));
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        if (!any<T>(pi != 0)) {
            powers.skip(), dots.skip();
            continue;
        }
        powers += GeneralPower<T>{a}(pi * down);
        dots += keep<T>(pi != 0, pi * (span.get(g, i) - first.g));
    }
    const Vec<T> power = span.total(powers), dot = span.total(dots);
    auto move = [&](int64_t i, Vec<T> pi) __attribute__((always_inline)) {
        return keep<T>(pi != 0, span.get(g, i) - first.g - dot);
    };
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        second.consider((pi > 0) & (move(i, pi) != 0), sign * pi, pi, Vec<T>{});
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
    const Vec<T> norm = top * GeneralPower<T>{T(1) / a}(power);
    const Vec<T> factor = second.p * GeneralPower<T>{a - T(1)}(norm / second.p) / (a - T(1));
    for (int64_t i = 0; i < span.n; i++) {
        const Vec<T> pi = span.get(p, i);
        if (!any<T>(pi != 0)) continue;
        const Vec<T> h = move(i, pi);
        const Vec<T> s = span.keeps ? span.get(out, i) : keep<T>(h != 0, weight(pi / second.p));
        const Vec<T> moved = s * h - pi * both;
        span.put(out, i, keep<T>((moved != 0) & ~flat, moved * factor));
    }
}

}  // namespace omegamax
