// The proximal operator of OSCAR's penalty: scores in falling order, each raised by strength times its rank, and the nearest
// non-increasing sequence, whose pools are means (pool adjacent violators). In double; ../reference.py has the formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "../../cpp/threads.h"

namespace omegamax {

class Oscar {
    // Entries that have met. Their mean is measured from one of them: next to a large one, sums would have no digits.
    struct Pool {
        double origin, sum;
        int64_t size;
        double mean() const { return origin + sum / double(size); }
    };
    std::vector<std::pair<double, int64_t>> order;
    std::vector<Pool> pools;

   public:
    // Entry i of the row is z[i * step], and goes to u[i * step].
    template <class S>
    void solve(const S* z, int64_t n, int64_t step, double strength, S* u) {
        constexpr double INFINITE = std::numeric_limits<double>::infinity(), NONE = std::nan("");
        double top = -INFINITE, nearest = INFINITE;
        bool bad = !(strength >= 0);
        for (int64_t i = 0; i < n; i++) {
            const double v = double(z[i * step]);
            bad |= !(v < INFINITE);
            top = std::max(top, v);
            if (std::fabs(v) < std::fabs(nearest)) nearest = v;
        }
        if (bad || top == -INFINITE) {
            for (int64_t i = 0; i < n; i++) u[i * step] = S(bad ? NONE : -INFINITE);
            return;
        }
        // So that neither differences nor sums of the largest numbers there are overflow.
        strength = std::min(strength, std::numeric_limits<double>::max() / (4 * double(n)));
        const double scale = std::ldexp(1.0, -2 - std::ilogb(double(n)));
        order.clear();
        for (int64_t i = 0; i < n; i++) {
            const double v = double(z[i * step]);
            if (v > -INFINITE) order.emplace_back(v * scale - nearest * scale, i);
            else u[i * step] = S(-INFINITE);
        }
        std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
        pools.clear();
        for (size_t r = 0; r < order.size(); r++) {
            Pool pool{order[r].first + strength * scale * double(r), 0, 1};
            while (!pools.empty() && pools.back().mean() < pool.mean()) {
                const Pool& before = pools.back();
                const double gap = pool.origin - before.origin;
                pool = {before.origin, before.sum + pool.sum + double(pool.size) * gap, before.size + pool.size};
                pools.pop_back();
            }
            pools.push_back(pool);
        }
        double least = INFINITE;  // a mean may be rounded past the pool before it, which it then joins
        size_t r = 0;
        for (const Pool& pool : pools) {
            least = std::min(least, pool.mean());
            const S value = S(least / scale + nearest);
            for (const size_t end = r + size_t(pool.size); r < end; r++) u[order[r].second * step] = value;
        }
    }
};

}  // namespace omegamax

namespace {

template <class S>
void oscar(const S* z, S* u, double strength, const double* strengths, int64_t outer, int64_t n, int64_t inner, int threads) {
    constexpr int64_t ROWS = 16;  // that a thread takes at a time
    const int64_t rows = outer * inner;
    std::vector<omegamax::Oscar> solvers(size_t(std::max(threads, 1)));
    omegamax::for_each((rows + ROWS - 1) / ROWS, threads, [&](int64_t piece, int thread) {
        for (int64_t row = piece * ROWS; row < std::min(rows, (piece + 1) * ROWS); row++) {
            const int64_t at = row / inner * n * inner + row % inner;
            solvers[size_t(thread)].solve(z + at, n, inner, strengths ? strengths[row] : strength, u + at);
        }
    });
}

}  // namespace

extern "C" {

void omegamax_isotonic_oscar_f32(const float* z, float* u, double strength, const double* strengths, int64_t outer, int64_t n,
                                 int64_t inner, int threads) {
    oscar(z, u, strength, strengths, outer, n, inner, threads);
}

void omegamax_isotonic_oscar_f64(const double* z, double* u, double strength, const double* strengths, int64_t outer,
                                 int64_t n, int64_t inner, int threads) {
    oscar(z, u, strength, strengths, outer, n, inner, threads);
}
}
