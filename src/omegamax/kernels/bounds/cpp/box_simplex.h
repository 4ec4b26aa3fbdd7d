// The Euclidean projection onto {l <= p <= u, sum p = total}, p = clip(z - tau, l, u), for bounds of each entry, l >= 0; and
// its vector-Jacobian product. Everything is computed in double.
#pragma once

#include <memory>
#include <vector>

#include "../../rows/cpp/layout.h"
#include "bound.h"
#include "box.h"

namespace omegamax {

// Projects the rows of one thread.
template <class S>
class BoxSimplex {
    static constexpr int W = Simd<double>::W;
    typedef Vec<double> V;
    Scratch<double> x, low, high;  // an entry that is masked has the bounds 0 and 0
    std::vector<std::pair<double, double>> order;  // scores, and how far apart their bounds are

   public:
    explicit BoxSimplex(int64_t K) : x(K / W + 1), low(K / W + 1), high(K / W + 1) {}

    void project(const DoubleRow<S>& row, const RowBound<S>& lower, const RowBound<S>& upper, double total, S* p) {
        const int64_t n = row.vectors();
        V most = splat<double>(-INF), least = splat<double>(INF), floors{}, ceilings{};
        Int<double> bad{};
        for (int64_t i = 0; i < n; i++) {
            const V v = row.at(i, -INF);
            const Int<double> there = v > -INF;
            bad |= v != v;
            most = maximum<double>(most, v), least = minimum<double>(least, select<double>(there, v, splat<double>(INF)));
            x.v[i] = keep<double>(there, v);
            floors += low.v[i] = keep<double>(there, lower.at(i * W, row.K));
            ceilings += high.v[i] = keep<double>(there, upper.at(i * W, row.K));
        }
        const double top = any<double>(bad) ? NAN : across_max<double>(most)[0], bottom = -across_max<double>(-least)[0];
        if (row.fill_edge_case(top, p)) return;
        const double floor = across_sum<double>(floors)[0], ceiling = across_sum<double>(ceilings)[0];
        const double goal = std::min(std::max(total, floor), ceiling);
        // No probability is above the goal: a ceiling there says no more than one further up, which may be infinite.
        V reach{};
        for (int64_t i = 0; i < n; i++) {
            high.v[i] = maximum<double>(minimum<double>(high.v[i], splat<double>(goal)), low.v[i]);
            reach = maximum<double>(reach, high.v[i]);
        }
        // The last score that is needed if those above it are at their ceilings: tau is at most that, and at least as far
        // below it as a probability can be. Where scores are close together, any of them tells about as much.
        const bool close = top - bottom < WIDE;
        const double last = close ? bottom : last_needed(n, floor, goal), most_p = across_max<double>(reach)[0];
        const DoubleWord<double> from = word(last).plus(splat<double>(-most_p)), to = word(close ? top : last);
        Total<double> sum;
        for (int j = 0; j < W; j++) sum.set(j, goal);
        const Box<double> box{low.v, high.v};
        // Unless many share the mass, tau is less than a probability below the largest score.
        const DoubleWord<double> near_top = word(top).plus(splat<double>(-most_p));
        const DoubleWord<double> begin = close && near_top.minus(from)[0] > 0 ? near_top : from;
        const DoubleWord<double> tau =
            box_threshold<true, double>(x.v, n, box, sum, begin, from, to, Int<double>{} == Int<double>{});
        for (int64_t i = 0; i < n; i++) row.put(p, i, clip<double>(tau.distance(x.v[i]), low.v[i], high.v[i]));
    }

   private:
    static DoubleWord<double> word(double value) { return {splat<double>(value), V{}}; }

    double last_needed(int64_t n, double sum, double goal) {
        order.clear();
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j < W; j++)
                if (high.v[i][j] > low.v[i][j]) order.emplace_back(x.v[i][j], high.v[i][j] - low.v[i][j]);
        if (order.empty()) return 0;
        std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
        for (const auto& [score, room] : order)
            if ((sum += room) >= goal) return score;
        return order.back().first;
    }
};

// J g = g - mean of g over the entries that are at no bound, on those entries
template <class S>
INLINE void box_simplex_vjp(const DoubleRow<S>& row, const RowBound<S>& lower, const RowBound<S>& upper, const S* g, S* out) {
    constexpr int W = Simd<double>::W;
    const DoubleRow<S> slopes{g, row.K};
    const auto is_free = [&](int64_t i, Vec<double> p) __attribute__((always_inline)) {
        return (p > 0) & (p != lower.at(i * W, row.K)) & (p != upper.at(i * W, row.K));
    };
    Vec<double> count{}, sum{};
    for (int64_t i = 0; i < row.vectors(); i++) {
        const Int<double> free = is_free(i, row.at(i, 0.0));
        count += keep<double>(free, splat<double>(1));
        sum += keep<double>(free, slopes.at(i, 0.0));
    }
    count = across_sum<double>(count), sum = across_sum<double>(sum);
    const Vec<double> mean = select<double>(count == 0, Vec<double>{}, sum / count);
    for (int64_t i = 0; i < row.vectors(); i++) {
        const Int<double> free = is_free(i, row.at(i, 0.0));
        row.put(out, i, keep<double>(free, slopes.at(i, 0.0) - mean));
    }
}

}  // namespace omegamax
