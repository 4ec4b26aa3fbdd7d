// k-subsets: p = clip(z - tau, 0, 1) with sum k. The sum is piecewise linear and non-increasing in tau, neither convex
// nor concave: Newton inside a bracket, which is exact once the pieces stop changing.
#pragma once

#include "../../rows/cpp/sums.h"

namespace omegamax {

template <class T> INLINE Vec<T> clip(Vec<T> v) { return minimum<T>(maximum<T>(v, Vec<T>{}), splat<T>(1)); }

// Layout as in newton(); tau is between `low` and `high`. Lanes that are not `active` get no answer.
template <bool ACROSS, class T>
INLINE Pair<T> budget_threshold(const Vec<T>* x, int64_t n, const Total<T>& k, Pair<T> low, Pair<T> high, Int<T> active) {
    constexpr T close = 4 * std::numeric_limits<T>::epsilon(), near = 16 * close;
    Pair<T> tau = low;
    Vec<T> before = splat<T>(T(INF));
    for (;;) {
        // Of those strictly inside (0, 1), counted in `free`, and of those at 1: apart, since next to ones the rounding of
        // a sum would hide that an entry is not quite 0.
        Total<T> sum, full_sum;
        Vec<T> free{}, ones{}, inside{};
        for (int64_t start = 0; start < n; start += block_of<ACROSS>) {
            const int64_t end = std::min(n, start + block_of<ACROSS>);
            Vec<T> chain[2]{};
            for (int64_t i = start; i < end; i++) {
                const Vec<T> t = tau.below(x[i]);
                const Int<T> full = t >= T(1), some = (t > 0) & ~full;
                chain[i % 2] += keep<T>(some, t);
                free += keep<T>(some, splat<T>(1));
                ones += keep<T>(full, splat<T>(1));
            }
            sum.add(chain[0] + chain[1]), inside += chain[0] + chain[1];
        }
        full_sum.add(ones);
        if (ACROSS) sum.across(), full_sum.across(), free = across_sum<T>(free), inside = across_sum<T>(inside);
        const Vec<T> excess = sum.plus(full_sum, k), size = maximum<T>(excess, -excess), unit = inside + T(1);
        low = pick_pair<T>(excess >= 0, tau, low);
        high = pick_pair<T>(excess <= 0, tau, high);
        // Done at the root, where rounding stops Newton, or where the bracket holds no other number.
        const Int<T> root = (size <= close * unit) | ((size <= near * unit) & (size > before * T(0.5)));
        const Pair<T> newton = tau.moved(excess / free);
        const Int<T> fits = (newton.minus(low) > 0) & (high.minus(newton) > 0);
        Pair<T> next = newton;
        Int<T> done = root;
        if (any<T>(active & ~fits)) {
            const Pair<T> middle = low.moved(high.minus(low) * T(0.5));
            done |= ~fits & ((middle.minus(low) <= 0) | (high.minus(middle) <= 0));
            next = pick_pair<T>(fits, newton, pick_pair<T>(done, pick_pair<T>(root & (free > 0), newton, tau), middle));
        }
        tau = pick_pair<T>(active, next, tau);
        before = size;
        active &= ~done;
        if (!any<T>(active)) return tau;
    }
}

}  // namespace omegamax
