// How rows lie in memory and in vectors. Scores are [outer, K, inner], contiguous, normalised over K.
//
// A long row with inner = 1 is spread across the lanes (Row): find its maximum, gather the few scores that can be in the
// support, solve on those, sweep once more to write. Short rows and rows with a stride go one to a lane, W at a time
// (Tile), with no reduction across lanes at all.
#pragma once

#include <cstdlib>
#include <memory>
#include <type_traits>

#include "../../cpp/sums.h"

namespace omegamax {

struct Shape {
    int64_t outer, K, inner;
    int64_t rows() const { return outer * inner; }
};

// Rows of at most so many entries go one to a lane; of maps that take powers of all entries, rows of at most so many.
constexpr int64_t SHORT_ROW = 384, SHORT_POWER_ROW = 64;

template <class T>
struct Scratch {
    std::unique_ptr<void, decltype(&std::free)> memory;
    Vec<T>* v;
    explicit Scratch(int64_t vectors)
        : memory(std::aligned_alloc(BYTES, sizeof(Vec<T>) * size_t(vectors)), &std::free), v((Vec<T>*)memory.get()) {}
};

// ---- one row across the lanes ----

template <class S>
struct Row {
    static constexpr int W = Simd<S>::W;
    const S* z;
    int64_t K, full;  // full: entries in whole vectors
    explicit Row(const S* z, int64_t K) : z(z), K(K), full(K / W * W) {}

    template <class Visit>
    MEMBER void each(Visit visit) const {  // visit(vector, offset)
        for (int64_t i = 0; i < full; i += W) visit(load<S>(z + i), i);
        if (full < K) visit(load_some<S>(z + full, int(K - full), S(-INF)), full);
    }

    MEMBER Vec<S> at(int64_t i) const { return i < full ? load<S>(z + i) : load_some<S>(z + i, int(K - i), S(0)); }

    MEMBER void put(S* p, Vec<S> v, int64_t i) const {
        if (i < full) store<S>(p + i, v);
        else store_some<S>(p + i, v, int(K - full));
    }

    MEMBER void fill(S* p, S value) const {
        for (int64_t i = 0; i < K; i++) p[i] = value;
    }
};

// The maximum of a row; NaN if it holds one.
template <class S>
INLINE S row_maximum(const Row<S>& row) {
    constexpr int W = Row<S>::W;
    Vec<S> top[4];
    for (auto& t : top) t = splat<S>(S(-INF));
    Int<S> bad{};
    row.each([&](Vec<S> v, int64_t i) {
        bad |= v != v;
        Vec<S>& t = top[i / W % 4];  // four chains of maxima, to hide their latency
        t = maximum<S>(t, v);
    });
    if (any<S>(bad)) return S(NAN);
    return across_max<S>(maximum<S>(maximum<S>(top[0], top[1]), maximum<S>(top[2], top[3])))[0];
}

// Fills a row with no finite maximum, and tells whether it is one: nothing left gives zeros, NaN and +inf give NaN.
template <class S>
INLINE bool fill_edge_case(const Row<S>& row, S top, S* p) {
    if (std::isfinite(top)) return false;
    row.fill(p, top == S(-INF) ? S(0) : S(NAN));
    return true;
}

// A score that is surely at or below the edge of the support, which is at most `edge` < 0 from the largest score.
template <class T, class S>
INLINE S support_bound(S top, T edge) {
    const double at = double(top) + double(edge);
    const double slack = 4 * std::numeric_limits<S>::epsilon();
    return S(at - slack - slack * std::abs(double(top)) - slack * std::abs(at));
}

// Packs the scores above a bound; returns how many there are.
template <class S>
INLINE int64_t pack(const Row<S>& row, S above, S* raw) {
    int64_t n = 0;
    row.each([&](Vec<S> v, int64_t) { n += compact<S>(raw + n, v, v > above); });
    return n;
}

// Pads n packed scores with -inf; returns how many vectors they fill. unpack() also subtracts an origin.
template <class T, class S>
INLINE int64_t pad(S* raw, int64_t n) {
    constexpr int W = Simd<T>::W;
    store<S>(raw + n, splat<S>(S(-INF)));
    return (n + W - 1) / W;
}

template <class T, class S>
INLINE int64_t unpack(S* raw, int64_t n, T origin, Vec<T>* x) {
    const int64_t vectors = pad<T>(raw, n);
    for (int64_t i = 0; i < vectors; i++) x[i] = load<T>(raw + i * Simd<T>::W) - origin;
    return vectors;
}

// Probabilities, divided by their sum. x holds n vectors of survivors, where the sum is found first.
template <class S, class Power>
INLINE void write_row(const Row<S>& row, const Power& power, DoubleWord<S> at, const Vec<S>* x, int64_t n, S* p) {
    Sum<S> sum;
    for (int64_t i = 0; i < n; i++) sum += power.output(at.distance(x[i]));
    const Vec<S> factor = S(1) / sum.template value<true>();
    row.each([&](Vec<S> v, int64_t i) { row.put(p, power.output(at.distance(v)) * factor, i); });
}

// The same where a power is costly: it is taken once for each survivor, and the results are put back in their positions.
template <class T, class S, class Power>
INLINE void write_packed(const Row<S>& row, const Power& power, S above, DoubleWord<T> at, Vec<T>* x, int64_t n, S* raw,
                         S* p) {
    Sum<T> sum;
    for (int64_t i = 0; i < n; i++) sum += x[i] = power.output(at.distance(x[i]));
    const Vec<T> factor = T(1) / sum.template value<true>();
    for (int64_t i = 0; i < n; i++) store<T>(raw + i * Simd<T>::W, x[i] * factor);
    int64_t taken = 0;
    row.each([&](Vec<S> v, int64_t i) { row.put(p, expand<S>(raw, v > above, taken), i); });
}

// Softmax: every entry survives.
template <class S>
INLINE void softmax_row(const Row<S>& row, S top, S* p) {
    Sum<S> sum;
    row.each([&](Vec<S> v, int64_t i) {
        Vec<S> q = exponential<S>(v - top);
        sum += q;
        row.put(p, q, i);
    });
    const S factor = 1 / sum.template value<true>()[0];
    for (int64_t i = 0; i < row.full; i += Row<S>::W) store<S>(p + i, load<S>(p + i) * factor);
    for (int64_t i = row.full; i < row.K; i++) p[i] *= factor;
}

// ---- one row in each lane ----

// W neighbouring rows as K vectors. With inner = 1 neighbours are whole rows apart, and blocks are turned over.
template <class T, class S>
struct Tile {
    static constexpr int W = Simd<T>::W;
    Shape shape;
    int64_t first;  // row
    int lanes;      // rows in use, of those before `end`
    Tile(Shape shape, int64_t first, int64_t end)
        : shape(shape), first(first), lanes(int(std::min<int64_t>(W, std::min(last(shape, first), end) - first))) {}

    // With a stride, a tile stays within one outer index: its lanes are then neighbours in memory.
    static int64_t last(Shape s, int64_t row) { return s.inner == 1 ? s.rows() : (row / s.inner + 1) * s.inner; }
    int64_t next() const { return first + lanes; }

    template <class Pointer>
    Pointer start(Pointer base) const {
        return shape.inner == 1 ? base + first * shape.K
                                : base + first / shape.inner * shape.K * shape.inner + first % shape.inner;
    }

    // A tile is read at once, computed on for long and written at once: the next one comes into the cache meanwhile.
    MEMBER void prefetch_next(const S* from, S* to) const {
        const int64_t entries = std::min<int64_t>(W, shape.rows() - next()) * shape.K;
        if (shape.inner > 1 || entries <= 0) return;
        from += next() * shape.K, to += next() * shape.K;
        for (int64_t i = 0; i < entries; i += 64 / int64_t(sizeof(S))) {
            __builtin_prefetch(from + i, 0);
            __builtin_prefetch(to + i, 1);
        }
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

// The maximum of each lane; NaN where it holds one.
template <class T>
INLINE Vec<T> lane_maxima(const Vec<T>* x, int64_t K) {
    Vec<T> top = splat<T>(T(-INF));
    Int<T> bad{};
    for (int64_t k = 0; k < K; k++) {
        bad |= x[k] != x[k];
        top = maximum<T>(top, x[k]);
    }
    return select<T>(bad, splat<T>(T(NAN)), top);
}

// Shifts each lane to a maximum of 0; a lane without a finite maximum gets scores of 0, which
// fill_edge_lanes() overwrites.
template <class T>
INLINE void shift(Vec<T>* x, int64_t K, Vec<T> top) {
    Int<T> sound = (top > T(-INF)) & (top < T(INF));
    for (int64_t k = 0; k < K; k++) x[k] = keep<T>(sound, x[k] - top);
}

template <class T>
INLINE void fill_edge_lanes(Vec<T>* x, int64_t K, Vec<T> top) {
    Int<T> sound = (top > T(-INF)) & (top < T(INF));
    if (!any<T>(~sound)) return;
    Vec<T> verdict = select<T>(top == T(-INF), Vec<T>{}, splat<T>(T(NAN)));
    for (int64_t k = 0; k < K; k++) x[k] = select<T>(sound, x[k], verdict);
}

template <class T, class Power>
INLINE void write_lanes(const Power& power, Vec<T>* x, int64_t K, DoubleWord<T> at) {
    Total<T> sum;
    for (int64_t start = 0; start < K; start += LANE_BLOCK) {
        const int64_t end = std::min(K, start + LANE_BLOCK);
        Vec<T> s0{}, s1{};
        int64_t k = start;
        for (; k + 1 < end; k += 2) {
            s0 += x[k] = power.output(at.distance(x[k]));
            s1 += x[k + 1] = power.output(at.distance(x[k + 1]));
        }
        if (k < end) s0 += x[k] = power.output(at.distance(x[k]));
        sum.add(s0 + s1);
    }
    const Vec<T> factor = T(1) / sum.minus(0.0);
    for (int64_t k = 0; k < K; k++) x[k] *= factor;
}

}  // namespace omegamax
