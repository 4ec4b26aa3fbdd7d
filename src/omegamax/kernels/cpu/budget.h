// k-subsets: p = clip(u - tau, 0, 1) with sum k. The sum is piecewise linear and non-increasing in tau, neither convex
// nor concave: Newton inside a bracket, which is exact once the pieces stop changing.
#pragma once

#include "simd.h"

namespace omegamax {

template <class T> INLINE Vec<T> clip(Vec<T> v) { return minimum<T>(maximum<T>(v, Vec<T>{}), splat<T>(1)); }

// Layout as in threshold(). `low` and `high` bracket tau.
template <bool ACROSS, class T>
INLINE Vec<T> budget(const Vec<T>* x, int64_t n, Vec<T> k, Vec<T> low, Vec<T> high) {
    const Vec<T> close = (k + T(1)) * (4 * std::numeric_limits<T>::epsilon());
    Vec<T> tau = pick<T>(k > 0, low, high);  // nothing to hand out: the root is the upper end itself
    for (;;) {
        Vec<T> sum{}, free{};
        for (int64_t i = 0; i < n; i++) {
            Vec<T> t = x[i] - tau;
            sum += clip<T>(t);
            free += keep<T>((t > 0) & (t < T(1)), splat<T>(1));
        }
        if (ACROSS) sum = across_sum<T>(sum), free = across_sum<T>(free);
        Vec<T> excess = sum - k;
        low = pick<T>(excess >= 0, tau, low);
        high = pick<T>(excess <= 0, tau, high);
        Vec<T> newton = tau + excess / free;
        Vec<T> middle = low + (high - low) * T(0.5);
        // Done at the root, where rounding stops Newton, or where the bracket holds no other number.
        Int<T> root = maximum<T>(excess, -excess) <= close;
        Int<T> done = root | (newton == tau) | (middle <= low) | (middle >= high);
        Vec<T> next = pick<T>((newton > low) & (newton < high), newton, middle);
        tau = pick<T>(done, pick<T>(root & (free > 0), newton, tau), next);
        if (!any<T>(~done)) return tau;
    }
}

}  // namespace omegamax
