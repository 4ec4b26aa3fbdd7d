// k-subsets for a range of rows.
#pragma once

#include "budget.h"
#include "../../rows/cpp/rows.h"

namespace omegamax {

// The m-th largest of n numbers, for small m by insertion; reorders them.
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

// A score that is further than this below the largest may be a mask: it tells nothing of where the threshold is.
constexpr double WIDE = 64;

// The threshold lies in [x_m - 1, x_m], x_m the m-th largest score and m = ceil(k).
template <class T>
INLINE void subsets_row(const Row<T>& row, double k, T* p, Vec<T>* x) {
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
    if (settled(row, top, p)) return;
    if (!(k > 0)) return row.fill(p, T(0));

    const int64_t m = int64_t(std::ceil(k));
    T maxima[GROUPS];
    std::memcpy(maxima, group, sizeof maxima);
    T least = m <= GROUPS ? largest(maxima, GROUPS, m) : T(-INF), highest = top;
    const auto survivors = [&](T* raw) __attribute__((always_inline)) {
        return pack(row, least > T(-INF) ? cut<T, T>(least, T(1), T(-1)) : T(-INF), raw);
    };
    T* raw = (T*)x;
    int64_t n = survivors(raw);
    if (double(n) > k && !(top - least < T(WIDE))) {
        least = highest = largest(raw, n, m);
        n = survivors(raw);
    }
    if (double(n) <= k) {  // no more than k are left, or lead by 1: all of those
        const T above = least > T(-INF) ? cut<T, T>(least, T(1), T(-1)) : T(-INF);
        row.each([&](Vec<T> v, int64_t i) { row.put(p, keep<T>(v > above, splat<T>(1)), i); });
        return;
    }
    Total<T> budget;
    for (int j = 0; j < W; j++) budget.set(j, k);
    const Pair<T> low = Pair<T>{splat<T>(least), Vec<T>{}}.plus(splat<T>(-1)), high{splat<T>(highest), Vec<T>{}};
    const Pair<T> tau = budget_threshold<true, T>(x, pad<T>(raw, n), budget, low, high, Vec<T>{} == Vec<T>{});
    row.each([&](Vec<T> v, int64_t i) { row.put(p, clip<T>(tau.below(v)), i); });
}

// Solves what it can and leaves the other lanes, which it returns, as they are: each lane is judged by its own scores.
template <class T>
INLINE Int<T> subsets_lanes(Vec<T>* x, int64_t K, const Total<T>& k) {
    Vec<T> top = splat<T>(T(-INF)), least = splat<T>(T(INF)), left{};
    Int<T> bad{};
    for (int64_t i = 0; i < K; i++) {
        Int<T> there = x[i] > T(-INF);
        bad |= x[i] != x[i];
        top = maximum<T>(top, x[i]);
        least = minimum<T>(least, pick<T>(there, x[i], splat<T>(T(INF))));
        left += keep<T>(there, splat<T>(1));
    }
    Total<T> count;
    count.add(left);
    const Int<T> solved = (top - least < T(WIDE)) & (count.minus(k) > 0) & (k.minus(0.0) > 0) & ~bad;
    if (!any<T>(solved)) return ~solved;
    const Pair<T> low = Pair<T>{least, Vec<T>{}}.plus(splat<T>(-1)), high{top, Vec<T>{}};
    const Pair<T> tau = budget_threshold<false, T>(x, K, k, low, high, solved);
    for (int64_t i = 0; i < K; i++) x[i] = pick<T>(solved, clip<T>(tau.below(x[i])), x[i]);
    return ~solved;
}

// Rows [begin, end). `k` holds one for each row, or, where `shared`, a single one.
template <class T>
void subsets_range(const T* z, T* p, const double* k, bool shared, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    if (shape.inner == 1 && K > short_row) {
        Scratch<T> x(K / Simd<T>::W + 2);
        for (int64_t i = begin; i < end; i++)
            subsets_row<T>(Row<T>(z + i * K, K), k[shared ? 0 : i], p + i * K, x.v);
        return;
    }
    Scratch<T> x(K + Simd<T>::W), spare(K / Simd<T>::W + 2);
    std::unique_ptr<T[]> row(new T[size_t(K)]);
    for (int64_t i = begin; i < end;) {
        Tile<T, T> tile(shape, i);
        Total<T> budgets;
        for (int j = 0; j < tile.lanes; j++) budgets.set(j, k[shared ? 0 : i + j]);
        tile.read(z, x.v, T(0));
        tile.prefetch_next(z, p);
        const Int<T> left = subsets_lanes<T>(x.v, K, budgets);
        if (any<T>(left)) {
            for (int j = 0; j < tile.lanes; j++) {
                if (!left[j]) continue;
                for (int64_t r = 0; r < K; r++) row.get()[r] = x.v[r][j];
                subsets_row<T>(Row<T>(row.get(), K), k[shared ? 0 : i + j], row.get(), spare.v);
                for (int64_t r = 0; r < K; r++) x.v[r][j] = row.get()[r];
            }
        }
        tile.write(x.v, p);
        i = tile.next();
    }
}

}  // namespace omegamax
