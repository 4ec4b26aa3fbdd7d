// k-subsets for a range of rows. The threshold may lie far below the maximum, where a float has few digits left after
// the point: the arithmetic is in double.
#pragma once

#include "rows.h"

namespace omegamax {

template <class T>
INLINE Vec<T> finite_minimum(const Vec<T>* x, int64_t n) {
    Vec<T> least{};
    for (int64_t i = 0; i < n; i++) least = minimum<T>(least, pick<T>(x[i] > T(-INF), x[i], Vec<T>{}));
    return least;
}

template <class T, class S>
INLINE void subsets_row(const Row<T, S>& row, T k, S* p, Vec<T>* x) {
    constexpr int W = Simd<T>::W, GROUPS = 4 * W;
    // Maxima of interleaved groups. The m-th largest of them is at most the m-th largest score, m = ceil(k), and
    // tau >= that score - 1: everything further down is out before any solving.
    Vec<T> group[4];
    for (auto& g : group) g = splat<T>(T(-INF));
    Int<T> bad{};
    row.each([&](Vec<T> v, int64_t i) {
        bad |= v != v;
        Vec<T>& g = group[i / W % 4];
        g = maximum<T>(g, v);
    });
    T maxima[GROUPS];
    std::memcpy(maxima, group, sizeof maxima);
    T top = any<T>(bad) ? T(NAN) : *std::max_element(maxima, maxima + GROUPS);
    if (settled(row, top, p)) return;

    const int64_t m = int64_t(std::ceil(k));
    T low = std::numeric_limits<T>::lowest();
    if (m >= 1 && m <= GROUPS) {
        std::nth_element(maxima, maxima + m - 1, maxima + GROUPS, [](T a, T b) { return a > b; });
        if (maxima[m - 1] > T(-INF)) low = maxima[m - 1] - top - 1;
    }
    int64_t n = survivors(row, top, T(1), low, x);
    if (low == std::numeric_limits<T>::lowest()) {
        T count = 0;
        for (int64_t i = 0; i < n; i++) count += across_sum<T>(keep<T>(x[i] > T(-INF), splat<T>(1)))[0];
        k = std::min(k, count);
        low = -across_max<T>(-finite_minimum<T>(x, n))[0] - 1;
    }
    Vec<T> tau = budget<true, T>(x, n, splat<T>(k), splat<T>(low), Vec<T>{});
    row.each([&](Vec<T> v, int64_t i) { row.put(p, clip<T>(v - top - tau), i); });
}

template <class T>
INLINE void subsets_lanes(Vec<T>* x, int64_t K, Vec<T> k) {
    Vec<T> top, count{};
    shift<T>(x, K, splat<T>(1), top);
    for (int64_t i = 0; i < K; i++) count += keep<T>(x[i] > T(-INF), splat<T>(1));
    Vec<T> low = finite_minimum<T>(x, K) - T(1);
    Vec<T> tau = budget<false, T>(x, K, minimum<T>(k, count), low, Vec<T>{});
    for (int64_t i = 0; i < K; i++) x[i] = clip<T>(x[i] - tau);
    settle<T>(x, K, top);
}

// Rows [begin, end). `k` holds one for each row, or, where `shared`, a single one.
template <class T, class S>
void subsets_range(const S* z, S* p, const double* k, bool shared, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    if (shape.inner == 1 && K > short_row) {
        Scratch<T> x(K / Simd<T>::W + 2);
        for (int64_t i = begin; i < end; i++)
            subsets_row(Row<T, S>(z + i * K, K), T(k[shared ? 0 : i]), p + i * K, x.v);
        return;
    }
    Scratch<T> x(K + Simd<T>::W);
    for (int64_t i = begin; i < end;) {
        Tile<T, S> tile(shape, i);
        Vec<T> budgets{};
        for (int j = 0; j < tile.lanes; j++) budgets[j] = T(k[shared ? 0 : i + j]);
        tile.read(z, x.v, T(-INF));
        subsets_lanes<T>(x.v, K, budgets);
        tile.write(x.v, p);
        i = tile.next();
    }
}

}  // namespace omegamax
