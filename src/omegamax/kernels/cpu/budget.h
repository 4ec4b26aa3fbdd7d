// k-subsets: p = clip(u - tau, 0, 1) with sum k. The sum is piecewise linear and non-increasing in tau, neither convex
// nor concave: Newton inside a bracket, which is exact once the pieces stop changing.
#pragma once

#include "simd.h"

namespace omegamax {

template <class T> INLINE Vec<T> clip(Vec<T> v) { return minimum<T>(maximum<T>(v, Vec<T>{}), splat<T>(1)); }

// Layout as in newton(). `low` and `high` bracket tau, for scores x - origin; stops where the sum is within `close`.
template <bool ACROSS, class T>
INLINE Vec<T> budget_threshold(const Vec<T>* x, int64_t n, Vec<T> origin, Vec<T> k, Vec<T> low, Vec<T> high, Vec<T> start,
                               T close) {
    Int<T> active = k == k;
    Vec<T> tau = pick<T>(k > 0, start, high);  // nothing to hand out: the root is the upper end itself
    for (;;) {
        Vec<T> sum{}, free{};
        for (int64_t i = 0; i < n; i++) {
            Vec<T> t = x[i] - origin - tau;
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
        Int<T> root = maximum<T>(excess, -excess) <= (k + T(1)) * close;
        Int<T> done = root | (newton == tau) | (middle <= low) | (middle >= high);
        Vec<T> next = pick<T>((newton > low) & (newton < high), newton, middle);
        next = pick<T>(done, pick<T>(root & (free > 0), newton, tau), next);
        tau = pick<T>(active, next, tau);
        active &= ~done;
        if (!any<T>(active)) return tau;
    }
}

// The solution, kept as the distance to one of its free entries: next to scores of 1e15, tau itself has no digits left.
template <class T>
struct Budget {
    Vec<T> tau, anchor, level;  // tau is relative to the anchor; level is the p of the anchor
    MEMBER Vec<T> output(Vec<T> u) const {
        Vec<T> distance = u - anchor;
        Vec<T> t = distance - tau;
        return pick<T>(t >= T(1), splat<T>(1), keep<T>(t > 0, clip<T>(distance + level)));
    }
};

// `low` and `high` bracket the threshold of x - origin.
template <bool ACROSS, class T>
INLINE Budget<T> budget(const Vec<T>* x, int64_t n, Vec<T> origin, Vec<T> k, Vec<T> low, Vec<T> high) {
    // Roughly first; then again, measured from the score nearest to the root, and exactly.
    Vec<T> tau = budget_threshold<ACROSS, T>(x, n, origin, k, low, high, low, T(0.02));
    Vec<T> below = splat<T>(T(-INF)), full = splat<T>(T(INF));
    for (int64_t i = 0; i < n; i++) {
        Int<T> free = x[i] - origin - tau < T(1);
        below = maximum<T>(below, pick<T>(free, x[i], below));
        full = minimum<T>(full, pick<T>(free, full, x[i]));
    }
    if (ACROSS) below = across_max<T>(below), full = -across_max<T>(-full);
    const Vec<T> anchor = pick<T>((below - origin - tau > T(-1)) | (full == T(INF)), below, full);
    const Vec<T> shift = anchor - origin;
    low -= shift, high -= shift;
    const T close = 2 * std::numeric_limits<T>::epsilon();
    tau = budget_threshold<ACROSS, T>(x, n, anchor, k, low, high, tau - shift, close);
    Vec<T> ones{}, count{}, sum{};
    for (int64_t i = 0; i < n; i++) {
        Vec<T> distance = x[i] - anchor;
        Vec<T> t = distance - tau;
        Int<T> free = (t > 0) & (t < T(1));
        ones += keep<T>(t >= T(1), splat<T>(1));
        count += keep<T>(free, splat<T>(1));
        sum += keep<T>(free, distance);
    }
    if (ACROSS) ones = across_sum<T>(ones), count = across_sum<T>(count), sum = across_sum<T>(sum);
    return {tau, anchor, (k - ones - sum) / count};
}

}  // namespace omegamax
