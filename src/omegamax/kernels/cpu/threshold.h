// The threshold l at which probabilities sum to one, for every member of the family with e = alpha - 1 <= 1:
// Newton on phi(l) = (s(l)^e - 1) / e, s = sum exp_e(u - l), which is convex and decreasing in l. From l = 0 (the
// maximum of the scores is 0) it never overshoots, so there is no bracket, and for e = 1 it ends exactly (Michelot).
#pragma once

#include <algorithm>

#include "powers.h"

namespace omegamax {

// Sums are taken over blocks of so many vectors first, which keeps their rounding from growing with the row.
constexpr int64_t BLOCK = 64;

// x holds n vectors: the entries of one row spread over the lanes (ACROSS), or one row in each lane.
// `l` is where to start: the first step from beyond the root leads back before it. `tolerance` is how close to one the
// sum must be for the last step. Only lanes in `active` move, each until it is done: a row's result does not depend on
// its neighbours.
template <bool ACROSS, class T, class Power>
INLINE Vec<T> newton(const Power& power, const Vec<T>* x, int64_t n, Vec<T> l, Vec<T> tolerance, Int<T> active) {
    for (bool first = true;; first = false) {
        Vec<T> s{}, r{};
        for (int64_t start = 0; start < n; start += BLOCK) {
            const int64_t end = std::min(n, start + BLOCK);
            Vec<T> s0{}, s1{}, r0{}, r1{}, p, weight;
            int64_t i = start;
            for (; i + 1 < end; i += 2) {  // two chains of additions, to hide their latency
                power.terms(x[i] - l, p, weight);
                s0 += p, r0 += weight;
                power.terms(x[i + 1] - l, p, weight);
                s1 += p, r1 += weight;
            }
            if (i < end) {
                power.terms(x[i] - l, p, weight);
                s0 += p, r0 += weight;
            }
            s += s0 + s1, r += r0 + r1;
        }
        if (ACROSS) s = across_sum<T>(s), r = across_sum<T>(r);
        Vec<T> step = power.step(s, r), floor = first ? -l : Vec<T>{};
        // Where rounding keeps the sum above one, steps that no longer change 1 + e (u - l) would go on for ever.
        Vec<T> moved = l + maximum<T>(step, floor);
        Int<T> moving = (moved != l) & (maximum<T>(step, -step) > (l + T(1)) * (std::numeric_limits<T>::epsilon() / 4));
        l = pick<T>(active, moved, l);
        active &= moving & (maximum<T>(s - T(1), first ? T(1) - s : s - T(1)) > tolerance);
        if (!any<T>(active)) return l;
    }
}

// At fixed t <= 0, exp_e(t) falls as e grows, and so does the root. Those of the cheap members, e = 1 and 1/2, roughly
// found, are a start for the dear ones: below 1/2 the second itself, between them a point between.
constexpr double ROUGHLY = 0.01;

template <bool ACROSS, class T, class Power>
INLINE Vec<T> threshold(const Power& power, const Vec<T>* x, int64_t n) {
    const Int<T> all = Vec<T>{} == Vec<T>{};
    Vec<T> l{};
    if constexpr (!Power::cheap) {
        const Vec<T> one = newton<ACROSS, T>(Linear<T>(), x, n, l, splat<T>(ROUGHLY), all);
        const Vec<T> half = newton<ACROSS, T>(Square<T>(), x, n, one, splat<T>(ROUGHLY), all);
        const Vec<T> between = minimum<T>((T(1) - power.e) * T(2), splat<T>(1));
        l = one + (half - one) * between;
    }
    return newton<ACROSS, T>(power, x, n, l, power.tolerance, all);
}

}  // namespace omegamax
