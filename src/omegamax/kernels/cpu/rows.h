// From scores to probabilities, row by row. Scores are [outer, K, inner], contiguous, normalised over K.
//
// A long row with inner = 1 is spread across the lanes: find its maximum, gather the few scores that can be in the
// support, solve on those, sweep once more to write. Short rows and rows with a stride go one to a lane, W at a time,
// with no reduction across lanes at all.
#pragma once

#include <cstdlib>
#include <memory>

#include "budget.h"
#include "steep.h"
#include "threshold.h"

namespace omegamax {

struct Shape {
    int64_t outer, K, inner;
    int64_t rows() const { return outer * inner; }
};

// Rows of at most this many entries go one to a lane.
constexpr int64_t short_row = 64;

template <class T>
struct Scratch {
    std::unique_ptr<void, decltype(&std::free)> memory;
    Vec<T>* v;
    explicit Scratch(int64_t vectors)
        : memory(std::aligned_alloc(BYTES, sizeof(Vec<T>) * size_t(vectors)), &std::free), v((Vec<T>*)memory.get()) {}
};

// ---- one row across the lanes ----

template <class T, class S>
struct Row {
    const S* z;
    int64_t K, full;  // full: entries in whole vectors
    explicit Row(const S* z, int64_t K) : z(z), K(K), full(K / Simd<T>::W * Simd<T>::W) {}

    template <class Visit>
    MEMBER void each(Visit visit) const {  // visit(vector, offset)
        for (int64_t i = 0; i < full; i += Simd<T>::W) visit(load<T>(z + i), i);
        if (full < K) visit(load_some<T>(z + full, int(K - full), T(-INF)), full);
    }

    MEMBER void put(S* p, Vec<T> v, int64_t i) const {
        if (i < full) store<T>(p + i, v);
        else store_some<T>(p + i, v, int(K - full));
    }

    MEMBER void fill(S* p, S value) const {
        for (int64_t i = 0; i < K; i++) p[i] = value;
    }
};

// The maximum of a row; NaN if it holds one.
template <class T, class S>
INLINE T row_maximum(const Row<T, S>& row) {
    Vec<T> top = splat<T>(T(-INF));
    Int<T> bad{};
    row.each([&](Vec<T> v, int64_t) {
        bad |= v != v;
        top = maximum<T>(top, v);
    });
    return any<T>(bad) ? T(NAN) : across_max<T>(top)[0];
}

// Rows with no finite maximum: nothing left gives zeros, NaN and +inf give NaN.
template <class T, class S>
INLINE bool settled(const Row<T, S>& row, T top, S* p) {
    if (std::isfinite(top)) return false;
    row.fill(p, top == T(-INF) ? S(0) : S(NAN));
    return true;
}

// Shifted, scaled scores above `bound`, packed and padded with -inf; returns the number of vectors.
template <class T, class S>
INLINE int64_t survivors(const Row<T, S>& row, T top, T scale, T bound, Vec<T>* x) {
    T* out = (T*)x;
    int64_t n = 0;
    row.each([&](Vec<T> v, int64_t) {
        Vec<T> u = (v - top) * scale;
        n += compact<T>(out + n, u, u > bound);
    });
    store<T>(out + n, splat<T>(T(-INF)));
    return (n + Simd<T>::W - 1) / Simd<T>::W;
}

// Probabilities, divided by their sum. x holds the survivors, where the sum is found first if that is the cheaper way.
template <class T, class S, class Power>
INLINE void write_row(const Row<T, S>& row, const Power& power, T top, T scale, Vec<T> l, const Vec<T>* x, int64_t n,
                      S* p) {
    Vec<T> sum{};
    if (Power::cheap) {
        for (int64_t i = 0; i < n; i++) sum += power.output(x[i] - l);
        Vec<T> factor = T(1) / across_sum<T>(sum);
        row.each([&](Vec<T> v, int64_t i) { row.put(p, power.output((v - top) * scale - l) * factor, i); });
        return;
    }
    row.each([&](Vec<T> v, int64_t i) {
        Vec<T> out = power.output((v - top) * scale - l);
        sum += out;
        row.put(p, out, i);
    });
    T factor = 1 / across_sum<T>(sum)[0];
    for (int64_t i = 0; i < row.full; i += Simd<T>::W) store<T>(p + i, load<T>(p + i) * factor);
    for (int64_t i = row.full; i < row.K; i++) p[i] = S(p[i] * factor);
}

// ---- one row in each lane ----

// W neighbouring rows as K vectors. With inner = 1 neighbours are whole rows apart, and blocks are turned over.
template <class T, class S>
struct Tile {
    static constexpr int W = Simd<T>::W;
    Shape shape;
    int64_t first;  // row
    int lanes;      // rows in use
    Tile(Shape shape, int64_t first)
        : shape(shape), first(first), lanes(int(std::min<int64_t>(W, last(shape, first) - first))) {}

    // With a stride, a tile stays within one outer index: its lanes are then neighbours in memory.
    static int64_t last(Shape s, int64_t row) { return s.inner == 1 ? s.rows() : (row / s.inner + 1) * s.inner; }
    int64_t next() const { return first + lanes; }

    template <class Pointer>
    Pointer start(Pointer base) const {
        return shape.inner == 1 ? base + first * shape.K
                                : base + first / shape.inner * shape.K * shape.inner + first % shape.inner;
    }

    MEMBER void read(const S* base, Vec<T>* x, T fill) const {
        const S* from = start(base);
        const int64_t K = shape.K, inner = shape.inner;
        if (inner > 1) {
            for (int64_t k = 0; k < K; k++)
                x[k] = lanes == W ? load<T>(from + k * inner) : load_some<T>(from + k * inner, lanes, fill);
            return;
        }
        for (int64_t k = 0; k < K; k += W) {
            const int width = int(std::min<int64_t>(W, K - k));
            Vec<T> block[W];
            for (int j = 0; j < W; j++)
                block[j] = j >= lanes ? splat<T>(fill)
                         : width == W ? load<T>(from + j * K + k) : load_some<T>(from + j * K + k, width, fill);
            transpose<T>(block);
            for (int j = 0; j < width; j++) x[k + j] = block[j];
        }
    }

    MEMBER void write(const Vec<T>* x, S* base) const {
        S* to = start(base);
        const int64_t K = shape.K, inner = shape.inner;
        if (inner > 1) {
            for (int64_t k = 0; k < K; k++)
                lanes == W ? store<T>(to + k * inner, x[k]) : store_some<T>(to + k * inner, x[k], lanes);
            return;
        }
        for (int64_t k = 0; k < K; k += W) {
            const int width = int(std::min<int64_t>(W, K - k));
            Vec<T> block[W];
            for (int j = 0; j < W; j++) block[j] = j < width ? x[k + j] : Vec<T>{};
            transpose<T>(block);
            for (int j = 0; j < lanes; j++)
                width == W ? store<T>(to + j * K + k, block[j]) : store_some<T>(to + j * K + k, block[j], width);
        }
    }
};

// Shifts each lane to a maximum of 0. `top` keeps the maxima, NaN where a lane holds one; a lane without a finite
// maximum gets scores of 0, to be overwritten by settle().
template <class T>
INLINE void shift(Vec<T>* x, int64_t K, Vec<T> scale, Vec<T>& top) {
    top = splat<T>(T(-INF));
    Int<T> bad{};
    for (int64_t k = 0; k < K; k++) {
        bad |= x[k] != x[k];
        top = maximum<T>(top, x[k]);
    }
    top = pick<T>(bad, splat<T>(T(NAN)), top);
    Int<T> sound = (top > T(-INF)) & (top < T(INF));
    for (int64_t k = 0; k < K; k++) x[k] = keep<T>(sound, (x[k] - top) * scale);
}

template <class T>
INLINE void settle(Vec<T>* x, int64_t K, Vec<T> top) {
    Int<T> sound = (top > T(-INF)) & (top < T(INF));
    if (!any<T>(~sound)) return;
    Vec<T> verdict = pick<T>(top == T(-INF), Vec<T>{}, splat<T>(T(NAN)));
    for (int64_t k = 0; k < K; k++) x[k] = pick<T>(sound, x[k], verdict);
}

template <class T, class Power>
INLINE void write_lanes(const Power& power, Vec<T>* x, int64_t K, Vec<T> l) {
    Vec<T> sum{};
    for (int64_t start = 0; start < K; start += BLOCK) {
        Vec<T> part{};
        for (int64_t k = start; k < std::min(K, start + BLOCK); k++) part += x[k] = power.output(x[k] - l);
        sum += part;
    }
    Vec<T> factor = T(1) / sum;
    for (int64_t k = 0; k < K; k++) x[k] *= factor;
}

}  // namespace omegamax
