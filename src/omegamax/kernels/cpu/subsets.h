// k-subsets for a range of rows.
#pragma once

#include "rows.h"

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

// The threshold lies in [x_m - 1, x_m], x_m the m-th largest score and m = ceil(k). Scores are measured from one that is
// close to it from below, so that what matters is small whatever the range of the row.
template <class T>
INLINE void subsets_row(const Row<T>& row, T k, T* p, Vec<T>* x) {
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
    T origin = m <= GROUPS ? largest(maxima, GROUPS, m) : T(-INF);
    T above = origin > T(-INF) ? cut<T, T>(origin, T(1), T(-1)) : T(-INF);
    T* raw = (T*)(x + row.K / W + 2);
    int64_t n = pack(row, above, raw);
    if (n <= k) {  // no more than k are left, or lead by 1: all of those
        row.each([&](Vec<T> v, int64_t i) { row.put(p, keep<T>(v > above, splat<T>(1)), i); });
        return;
    }
    if (!(origin > T(-INF))) {
        origin = largest(raw, n, m);
        above = cut<T, T>(origin, T(1), T(-1));
    }
    n = unpack<T>(raw, n, origin, T(1), x);
    const Budget<T> solved = budget<true, T>(x, n, Vec<T>{}, splat<T>(k), splat<T>(-1), splat<T>(top - origin));
    row.each([&](Vec<T> v, int64_t i) { row.put(p, solved.output(v - origin), i); });
}

// A lane whose scores span more than this goes through subsets_row().
constexpr double WIDE = 1e4;

// Returns whether it could solve every lane; x is changed only then.
template <class T>
INLINE bool subsets_lanes(Vec<T>* x, int64_t K, Vec<T> k) {
    Vec<T> top = splat<T>(T(-INF)), least = splat<T>(T(INF)), count{};
    Int<T> bad{};
    for (int64_t i = 0; i < K; i++) {
        Int<T> there = x[i] > T(-INF);
        bad |= x[i] != x[i];
        top = maximum<T>(top, x[i]);
        least = minimum<T>(least, pick<T>(there, x[i], splat<T>(T(INF))));
        count += keep<T>(there, splat<T>(1));
    }
    if (any<T>(bad | ~((top - least < T(WIDE)) & (count > k)))) return false;
    const Budget<T> solved = budget<false, T>(x, K, top, k, least - top - T(1), Vec<T>{});
    for (int64_t i = 0; i < K; i++) x[i] = solved.output(x[i]);
    return true;
}

// Rows [begin, end). `k` holds one for each row, or, where `shared`, a single one.
template <class T>
void subsets_range(const T* z, T* p, const double* k, bool shared, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    if (shape.inner == 1 && K > short_row) {
        Scratch<T> x(2 * (K / Simd<T>::W + 2));
        for (int64_t i = begin; i < end; i++)
            subsets_row<T>(Row<T>(z + i * K, K), T(k[shared ? 0 : i]), p + i * K, x.v);
        return;
    }
    Scratch<T> x(K + Simd<T>::W), spare(2 * (K / Simd<T>::W + 2));
    std::unique_ptr<T[]> row(new T[size_t(K)]);
    for (int64_t i = begin; i < end;) {
        Tile<T, T> tile(shape, i);
        Vec<T> budgets{};
        for (int j = 0; j < tile.lanes; j++) budgets[j] = T(k[shared ? 0 : i + j]);
        // Lanes without a row get one that is easily solved.
        tile.read(z, x.v, T(0));
        tile.prefetch_next(z, p);
        if (!subsets_lanes<T>(x.v, K, budgets)) {
            for (int j = 0; j < tile.lanes; j++) {
                for (int64_t i = 0; i < K; i++) row.get()[i] = x.v[i][j];
                subsets_row<T>(Row<T>(row.get(), K), budgets[j], row.get(), spare.v);
                for (int64_t i = 0; i < K; i++) x.v[i][j] = row.get()[i];
            }
        }
        tile.write(x.v, p);
        i = tile.next();
    }
}

}  // namespace omegamax
