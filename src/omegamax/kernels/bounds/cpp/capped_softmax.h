// Softmax with a ceiling on each probability, p = min(u, c exp(z)), and its vector-Jacobian product, in double. The sum is
// concave in c: whoever is above its ceiling while fewer are capped stays there, so that c only grows, and few rounds are
// enough.
#pragma once

#include "../../rows/cpp/layout.h"
#include "bound.h"

namespace omegamax {

// Solves the rows of one thread.
template <class S>
class CappedSoftmax {
    static constexpr int W = Simd<double>::W;
    static constexpr double CAPPED = -1;  // in place of a weight
    // The largest free score may be so far below the one that weights are measured from before these become denormal.
    static constexpr double FAR = 600;
    typedef Vec<double> V;
    Scratch<double> x, caps, weights;

   public:
    explicit CappedSoftmax(int64_t K) : x(K / W + 1), caps(K / W + 1), weights(K / W + 1) {}

    void solve(const DoubleRow<S>& row, const RowBound<S>& upper, S* p) {
        const int64_t n = row.vectors();
        V most = splat<double>(-INF);
        Int<double> bad{};
        for (int64_t i = 0; i < n; i++) {
            const V v = row.at(i, -INF);
            bad |= v != v;
            most = maximum<double>(most, v);
            x.v[i] = v, caps.v[i] = keep<double>(v > -INF, upper.at(i * W, row.K)), weights.v[i] = V{};
        }
        double anchor = any<double>(bad) ? NAN : across_max<double>(most)[0];
        if (row.fill_edge_case(anchor, p)) return;
        weigh(n, anchor);
        double factor;
        for (;;) {
            factor = share_rest(n);
            const auto [more, top] = cap(n, factor);
            // Measured from the largest of them, free scores lose no digits.
            const bool move = top > -INF && top < (more ? anchor - FAR : anchor);
            if (!more && !move) break;
            if (move) weigh(n, anchor = top);
        }
        for (int64_t i = 0; i < n; i++) {
            const V w = weights.v[i];
            row.put(p, i, select<double>(w < 0, caps.v[i], w * factor));
        }
    }

   private:
    // Weights of what is not capped: exp of the scores, less that of the anchor.
    MEMBER void weigh(int64_t n, double anchor) {
        for (int64_t i = 0; i < n; i++) {
            const V w = keep<double>(x.v[i] > -INF, exponential<double>(x.v[i] - anchor));
            weights.v[i] = select<double>(weights.v[i] < 0, weights.v[i], w);
        }
    }

    // What is left by the capped entries, over the weights of the others.
    MEMBER double share_rest(int64_t n) const {
        V taken{}, sum{};
        for (int64_t i = 0; i < n; i++) {
            const Int<double> capped = weights.v[i] < 0;
            taken += keep<double>(capped, caps.v[i]), sum += keep<double>(~capped, weights.v[i]);
        }
        const double left = std::max(1 - across_sum<double>(taken)[0], 0.0), all = across_sum<double>(sum)[0];
        return all > 0 ? left / all : 0;
    }

    // Caps what is above its ceiling; returns whether there was any, and the largest score of what is still free.
    MEMBER std::pair<bool, double> cap(int64_t n, double factor) {
        Int<double> some{};
        V top = splat<double>(-INF);
        for (int64_t i = 0; i < n; i++) {
            const V w = weights.v[i];
            const Int<double> over = (w * factor > caps.v[i]) & (w >= 0);
            some |= over;
            weights.v[i] = select<double>(over, splat<double>(CAPPED), w);
            top = maximum<double>(top, select<double>(over | (w < 0), splat<double>(-INF), x.v[i]));
        }
        return {any<double>(some), across_max<double>(top)[0]};
    }
};

// J g = f (g - <f, g> / sum f), f the probabilities below their ceilings
template <class S>
INLINE void capped_softmax_vjp(const DoubleRow<S>& row, const RowBound<S>& upper, const S* g, S* out) {
    constexpr int W = Simd<double>::W;
    const DoubleRow<S> slopes{g, row.K};
    const auto free_at = [&](int64_t i) __attribute__((always_inline)) {
        const Vec<double> p = row.at(i, 0.0);
        return keep<double>((p > 0) & (p != upper.at(i * W, row.K)), p);
    };
    Vec<double> mass{}, sum{};
    for (int64_t i = 0; i < row.vectors(); i++) {
        const Vec<double> f = free_at(i);
        mass += f, sum += keep<double>(f > 0, f * slopes.at(i, 0.0));
    }
    mass = across_sum<double>(mass), sum = across_sum<double>(sum);
    const Vec<double> mean = select<double>(mass > 0, sum / mass, Vec<double>{});
    for (int64_t i = 0; i < row.vectors(); i++) {
        const Vec<double> f = free_at(i);
        row.put(out, i, keep<double>(f > 0, f * (slopes.at(i, 0.0) - mean)));
    }
}

}  // namespace omegamax
