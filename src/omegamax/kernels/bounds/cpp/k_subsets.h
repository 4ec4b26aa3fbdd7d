// k-subsets: p = clip(z - tau, 0, 1) with sum k, and its vector-Jacobian product.
#pragma once

#include "../../rows/cpp/entmax_vjp.h"
#include "../../rows/cpp/layout.h"
#include "box.h"

namespace omegamax {

template <class T> INLINE Vec<T> clip_to_unit(Vec<T> v) { return clip<T>(v, Vec<T>{}, splat<T>(1)); }

// The threshold between `low`, where the search begins, and `high`.
template <bool ACROSS, class T>
INLINE DoubleWord<T> k_subsets_threshold(const Vec<T>* x, int64_t n, const Total<T>& k, DoubleWord<T> low,
                                         DoubleWord<T> high, Int<T> active) {
    return box_threshold<ACROSS, T>(x, n, UnitBox<T>(), k, low, low, high, active);
}

// The m-th largest of n values, for small m by insertion; reorders them.
template <class S>
INLINE S largest(S* v, int64_t n, int64_t m) {
    if (m > 16) {
        std::nth_element(v, v + m - 1, v + n, [](S a, S b) { return a > b; });
        return v[m - 1];
    }
    S best[16];
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) {
        if (held == m && !(v[i] > best[m - 1])) continue;
        int64_t j = held < m ? held++ : m - 1;
        for (; j > 0 && best[j - 1] < v[i]; j--) best[j] = best[j - 1];
        best[j] = v[i];
    }
    return best[m - 1];
}

// The threshold lies in [x_m - 1, x_m], x_m the m-th largest score and m = ceil(k).
template <class T>
INLINE void k_subsets_row(const Row<T>& row, double k, T* p, Vec<T>* x) {
    constexpr int W = Row<T>::W, GROUPS = 4 * W;
    // Maxima of interleaved groups: the m-th largest of them is a score, and at most x_m.
    Vec<T> group[4];
    for (auto& g : group) g = splat<T>(T(-INF));
    Int<T> bad{};
    row.each([&](Vec<T> v, int64_t i) {
        bad |= v != v;
        Vec<T>& g = group[i / W % 4];
        g = maximum<T>(g, v);
    });
    const Vec<T> most = maximum<T>(maximum<T>(group[0], group[1]), maximum<T>(group[2], group[3]));
    const T top = any<T>(bad) ? T(NAN) : across_max<T>(most)[0];
    if (fill_edge_case(row, top, p)) return;
    if (!(k > 0)) return row.fill(p, T(0));

    const int64_t m = int64_t(std::ceil(k));
    T maxima[GROUPS];
    std::memcpy(maxima, group, sizeof maxima);
    T least = m <= GROUPS ? largest(maxima, GROUPS, m) : T(-INF), highest = top;
    const auto survivors = [&](T* raw) __attribute__((always_inline)) {
        return pack(row, least > T(-INF) ? support_bound<T, T>(least, T(-1)) : T(-INF), raw);
    };
    T* raw = (T*)x;
    int64_t n = survivors(raw);
    if (double(n) > k && !(top - least < T(WIDE))) {
        least = highest = largest(raw, n, m);
        n = survivors(raw);
    }
    if (double(n) <= k) {  // no more than k are left, or lead by 1: all of those
        const T above = least > T(-INF) ? support_bound<T, T>(least, T(-1)) : T(-INF);
        row.each([&](Vec<T> v, int64_t i) { row.put(p, keep<T>(v > above, splat<T>(1)), i); });
        return;
    }
    Total<T> budget;
    for (int j = 0; j < W; j++) budget.set(j, k);
    const DoubleWord<T> low = DoubleWord<T>{splat<T>(least), Vec<T>{}}.plus(splat<T>(-1));
    const DoubleWord<T> high{splat<T>(highest), Vec<T>{}};
    const DoubleWord<T> tau = k_subsets_threshold<true, T>(x, pad<T>(raw, n), budget, low, high, Vec<T>{} == Vec<T>{});
    row.each([&](Vec<T> v, int64_t i) { row.put(p, clip_to_unit<T>(tau.distance(v)), i); });
}

// Solves what it can and leaves the other lanes, which it returns, as they are: each lane is judged by its own scores.
template <class T>
INLINE Int<T> k_subsets_lanes(Vec<T>* x, int64_t K, const Total<T>& k) {
    Vec<T> top = splat<T>(T(-INF)), least = splat<T>(T(INF)), left{};
    Int<T> bad{};
    for (int64_t i = 0; i < K; i++) {
        Int<T> there = x[i] > T(-INF);
        bad |= x[i] != x[i];
        top = maximum<T>(top, x[i]);
        least = minimum<T>(least, select<T>(there, x[i], splat<T>(T(INF))));
        left += keep<T>(there, splat<T>(1));
    }
    Total<T> count;
    count.add(left);
    const Int<T> solved = (top - least < T(WIDE)) & (count.minus(k) > 0) & (k.minus(0.0) > 0) & ~bad;
    if (!any<T>(solved)) return ~solved;
    const DoubleWord<T> low = DoubleWord<T>{least, Vec<T>{}}.plus(splat<T>(-1)), high{top, Vec<T>{}};
    const DoubleWord<T> tau = k_subsets_threshold<false, T>(x, K, k, low, high, solved);
    for (int64_t i = 0; i < K; i++) x[i] = select<T>(solved, clip_to_unit<T>(tau.distance(x[i])), x[i]);
    return ~solved;
}

// Rows [begin, end). `k` holds one for each row, or, where `shared`, a single one.
template <class T>
void k_subsets_range(const T* z, T* p, const double* k, bool shared, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    if (shape.inner == 1 && K > SHORT_ROW) {
        Scratch<T> x(K / Simd<T>::W + 2);
        for (int64_t i = begin; i < end; i++)
            k_subsets_row<T>(Row<T>(z + i * K, K), k[shared ? 0 : i], p + i * K, x.v);
        return;
    }
    Scratch<T> x(K + Simd<T>::W), spare(K / Simd<T>::W + 2);
    std::unique_ptr<T[]> row(new T[size_t(K)]);
    for (int64_t i = begin; i < end;) {
        Tile<T, T> tile(shape, i, end);
        Total<T> budgets;
        for (int j = 0; j < tile.lanes; j++) budgets.set(j, k[shared ? 0 : i + j]);
        tile.read(z, x.v, T(0));
        tile.prefetch_next(z, p);
        const Int<T> left = k_subsets_lanes<T>(x.v, K, budgets);
        if (any<T>(left)) {
            for (int j = 0; j < tile.lanes; j++) {
                if (!left[j]) continue;
                for (int64_t r = 0; r < K; r++) row.get()[r] = x.v[r][j];
                k_subsets_row<T>(Row<T>(row.get(), K), k[shared ? 0 : i + j], row.get(), spare.v);
                for (int64_t r = 0; r < K; r++) x.v[r][j] = row.get()[r];
            }
        }
        tile.write(x.v, p);
        i = tile.next();
    }
}

// J g = g - mean of g over the entries strictly between 0 and 1, on those entries
template <class T, class S, bool ACROSS>
INLINE void k_subsets_vjp(const Span<T, S, ACROSS>& span, const S* p, const S* g, S* out) {
    Sum<T> counts, sums;
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i);
        Int<T> free = (pi > 0) & (pi < T(1));
        if (!any<T>(free)) {
            counts.skip(), sums.skip();
            continue;
        }
        counts += keep<T>(free, splat<T>(1));
        sums += keep<T>(free, span.get(g, i));
    }
    const Vec<T> count = span.total(counts);
    Vec<T> mean = select<T>(count == 0, Vec<T>{}, span.total(sums) / count);
    for (int64_t i = 0; i < span.n; i++) {
        Vec<T> pi = span.get(p, i), moved{};
        Int<T> free = (pi > 0) & (pi < T(1));
        if (any<T>(free)) moved = keep<T>(free, span.get(g, i) - mean);
        // NaN stays NaN
        span.put(out, i, select<T>(pi != pi, pi, moved));
    }
}

}  // namespace omegamax
