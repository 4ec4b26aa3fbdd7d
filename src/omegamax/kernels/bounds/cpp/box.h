// The threshold tau at which p = clip(z - tau, l, u) has a given sum. The sum is piecewise linear and non-increasing in tau,
// neither convex nor concave: Newton inside a bracket, which is exact once the pieces stop changing.
#pragma once

#include "../../cpp/sums.h"

namespace omegamax {

// A score that is further than this below the largest may be a mask: it tells nothing of where the threshold is.
constexpr double WIDE = 64;

// The bounds of the i-th vector of scores: 0 and 1 for all,
template <class T>
struct UnitBox {
    static constexpr bool floors = false;  // whether lower bounds may be other than 0
    MEMBER Vec<T> low(int64_t) const { return Vec<T>{}; }
    MEMBER Vec<T> high(int64_t) const { return splat<T>(1); }
};

// or one for each.
template <class T>
struct Box {
    static constexpr bool floors = true;
    const Vec<T>*lower, *upper;
    MEMBER Vec<T> low(int64_t i) const { return lower[i]; }
    MEMBER Vec<T> high(int64_t i) const { return upper[i]; }
};

template <class T> INLINE Vec<T> clip(Vec<T> v, Vec<T> low, Vec<T> high) { return minimum<T>(maximum<T>(v, low), high); }

// Layout as in newton(); tau is between `low` and `high`. Lanes that are not `active` get no answer.
template <bool ACROSS, class T, class Bounds>
INLINE DoubleWord<T> box_threshold(const Vec<T>* x, int64_t n, const Bounds& box, const Total<T>& total, DoubleWord<T> tau,
                                   DoubleWord<T> low, DoubleWord<T> high, Int<T> active) {
    constexpr T close = 4 * std::numeric_limits<T>::epsilon(), near = 16 * close;
    Vec<T> before = splat<T>(T(INF));
    for (;;) {
        // Of those strictly inside their bounds, counted in `free`, and of those at a bound: apart, since next to ones the
        // rounding of a sum would hide that an entry is not quite 0.
        Total<T> sum, held_sum;
        Vec<T> free{}, held{}, inside{};
        for (int64_t start = 0; start < n; start += block_of<ACROSS>) {
            const int64_t end = std::min(n, start + block_of<ACROSS>);
            Vec<T> chain[2]{};
            for (int64_t i = start; i < end; i++) {
                const Vec<T> t = tau.distance(x[i]);
                const Int<T> full = t >= box.high(i), some = (t > box.low(i)) & ~full;
                chain[i % 2] += keep<T>(some, t);
                free += keep<T>(some, splat<T>(1));
                held += keep<T>(full, box.high(i));
                if constexpr (Bounds::floors) held += keep<T>(~(full | some), box.low(i));
            }
            sum.add(chain[0] + chain[1]), inside += chain[0] + chain[1];
        }
        held_sum.add(held);
        if (ACROSS) sum.across(), held_sum.across(), free = across_sum<T>(free), inside = across_sum<T>(inside);
        const Vec<T> excess = sum.plus(held_sum, total), size = maximum<T>(excess, -excess), unit = inside + T(1);
        low = select_word<T>(excess >= 0, tau, low);
        high = select_word<T>(excess <= 0, tau, high);
        // Done at the root, where rounding stops Newton, or where the bracket holds no other value.
        const Int<T> root = (size <= close * unit) | ((size <= near * unit) & (size > before * T(0.5)));
        const DoubleWord<T> newton = tau.plus_fast(excess / free);
        const Int<T> fits = (newton.minus(low) > 0) & (high.minus(newton) > 0);
        DoubleWord<T> next = newton;
        Int<T> done = root;
        if (any<T>(active & ~fits)) {
            const DoubleWord<T> middle = low.plus_fast(high.minus(low) * T(0.5));
            done |= ~fits & ((middle.minus(low) <= 0) | (high.minus(middle) <= 0));
            const DoubleWord<T> last = select_word<T>(root & (free > 0), newton, tau);
            next = select_word<T>(fits, newton, select_word<T>(done, last, middle));
        }
        tau = select_word<T>(active, next, tau);
        before = size;
        active &= ~done;
        if (!any<T>(active)) return tau;
    }
}

}  // namespace omegamax
