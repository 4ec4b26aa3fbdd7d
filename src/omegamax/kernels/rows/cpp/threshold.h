// The threshold at which probabilities sum to one, for every member of the family with e = alpha - 1 <= 1: Newton on
// (s^e - 1) / e, s the sum, which is convex and decreasing in the threshold. From where the largest score alone makes
// one it never overshoots, so there is no bracket, and for e = 1 it ends exactly (Michelot).
#pragma once

#include "powers.h"
#include "sums.h"

namespace omegamax {

// A threshold, and the sum of the weights there: by how much a rounding of the scores moves the probabilities together.
template <class T>
struct Root {
    Pair<T> at;
    Vec<T> weights;
};

// x holds n vectors: the entries of one row spread over the lanes (ACROSS), or one row in each lane.
// `at` is where to start: the first step from beyond the root leads back before it, to `least` at the furthest.
// `tolerance` is how close to one the sum must be for the last step. Each lane moves until it is done: a row's result
// does not depend on its neighbours.
template <bool ACROSS, class T, class Power>
INLINE Root<T> newton(const Power& power, const Vec<T>* x, int64_t n, Pair<T> at, Vec<T> least, Vec<T> tolerance) {
    constexpr T slack = 1e-3;
    Int<T> active = tolerance == tolerance, rising{};
    Vec<T> least_excess = splat<T>(T(INF)), floor = least - at.high;
    for (bool first = true;; first = false) {
        Total<T> s;
        Vec<T> r{};
        for (int64_t start = 0; start < n; start += block_of<ACROSS>) {
            const int64_t end = std::min(n, start + block_of<ACROSS>);
            Vec<T> s0{}, s1{}, r0{}, r1{}, p, weight;
            int64_t i = start;
            for (; i + 1 < end; i += 2) {  // two chains of additions, to hide their latency
                power.terms(at.below(x[i]), p, weight);
                s0 += p, r0 += weight;
                power.terms(at.below(x[i + 1]), p, weight);
                s1 += p, r1 += weight;
            }
            if (i < end) {
                power.terms(at.below(x[i]), p, weight);
                s0 += p, r0 += weight;
            }
            s.add(s0 + s1), r += r0 + r1;
        }
        if (ACROSS) s.across(), r = across_sum<T>(r);
        const Vec<T> excess = s.minus(1.0), step = maximum<T>(power.step(excess, r), floor);
        at = pick_pair<T>(active, at.moved(step), at);
        // Where rounding keeps the sum above one it stops falling, and steps would go on for ever. Rounding may also lead
        // beyond the root, by a small part of a step; from there one step leads back.
        const Int<T> above = (excess > tolerance) & (excess < least_excess);
        const Int<T> beyond = (-excess > tolerance) & ~rising;
        active &= above | beyond;
        least_excess = minimum<T>(least_excess, pick<T>(excess > 0, excess, least_excess));
        rising = first ? Int<T>{} : excess < 0;
        floor = -slack * maximum<T>(step, -step);
        if (!any<T>(active)) return {at, r};
    }
}

// Of a cheap member, for scores of which `top` is the largest.
template <bool ACROSS, class T, class Power>
INLINE Pair<T> cheap_threshold(const Power& power, const Vec<T>* x, int64_t n, Vec<T> top) {
    const Pair<T> start = Pair<T>{top, Vec<T>{}}.plus(splat<T>(-power.reach));
    return newton<ACROSS, T>(power, x, n, start, start.high, power.tolerance).at;
}

// At fixed t <= 0, exp_e(t) falls as e grows, and so does the root. Those of the cheap members, e = 1 and 1/2, roughly
// found, are a start for the dear ones: below 1/2 the second itself, between them a point between.
constexpr double ROUGHLY = 0.01;

template <bool ACROSS, class T, class Power>
INLINE Root<T> dear_threshold(const Power& power, const Vec<T>* x, int64_t n) {
    const Vec<T> zero{}, rough = splat<T>(ROUGHLY);
    // A threshold l is the edge of the support plus 1/e.
    const Pair<T> edge{splat<T>(-1), zero};
    const Vec<T> one = newton<ACROSS, T>(Linear<T>(), x, n, edge, edge.high, rough).at.high + T(1);
    const Pair<T> next{one - T(2), zero};
    const Vec<T> half = newton<ACROSS, T>(Square<T>(), x, n, next, splat<T>(-2), rough).at.high + T(2);
    const Vec<T> between = minimum<T>((T(1) - power.e) * T(2), splat<T>(1));
    const Pair<T> start{one + (half - one) * between, zero};
    return newton<ACROSS, T>(power, x, n, start, zero, power.tolerance);
}

}  // namespace omegamax
