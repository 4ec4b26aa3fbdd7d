// Entmax of rows of floats, for any alpha from 1 to 2 whose probabilities are no polynomial. Powers are costly, and few
// entries are in the support: the threshold is roughly found without powers, what is surely below it is left out, and the
// rest is solved in float. Where the threshold has to be known to more digits, one sum over the rest, in double, corrects it,
// and the probabilities with it.
#pragma once

#include "entmax.h"
#include "layout.h"

namespace omegamax {

// For alpha > 1.5 a rounding of the threshold changes small probabilities and their gradient too much; below, only where the
// sum of the weights p^(1 - e) is beyond this, as in rows with a large support.
constexpr double MAX_FLOAT_WEIGHT = 8;
// How close to one the sum must be for the last step in float if a correction follows: Newton squares the distance.
constexpr float FLOAT_TOLERANCE = 3e-4f;
// Steps are measured by the distance of an entry to the edge of the support. The last one is at most LAST_STEP of the
// smallest distance, or lost in rounding; probabilities follow up to SERIES_STEP by a series, else by their power.
constexpr double LAST_STEP = 1e-2, SERIES_STEP = 1e-4, LOST_STEP = 1e-14;
constexpr int MAX_CORRECTIONS = 10;

// The first or the second half of the lanes of floats, as doubles, and back.
typedef Total<float>::Half Half;
INLINE Vec<double> widen(Vec<float> v, int half) {
    Half halves[2];
    std::memcpy(halves, &v, sizeof halves);
    return __builtin_convertvector(halves[half], Vec<double>);
}

INLINE void narrow(Vec<double> v, int half, Vec<float>& out) {
    const Half narrowed = __builtin_convertvector(v, Half);
    std::memcpy((char*)&out + half * sizeof narrowed, &narrowed, sizeof narrowed);
}

// Reads n vectors of scores by `read(k)`, and writes their probabilities by `write(k, v)`. `top` are the largest scores, `at`
// the threshold of scores measured from them, to a float's digits. `p` has room for n vectors. Lanes do not see each other
// unless the row is spread ACROSS them.
template <bool ACROSS, class Read, class Write>
INLINE void correct(const Read& read, const Write& write, int64_t n, Vec<double> top, Vec<double> e, Vec<double> at,
                    Vec<double>* p) {
    const General<double, float> power(e);
    const Vec<double> one = splat<double>(1);
    const auto size = [](Vec<double> v) __attribute__((always_inline)) { return maximum<double>(v, -v); };
    Vec<double> step{};
    for (int corrections = 0; corrections < MAX_CORRECTIONS; corrections++) {
        Vec<double> s0{}, s1{}, r0{}, r1{}, near = splat<double>(INF), weight;
        const auto take = [&](int64_t k, Vec<double>& s, Vec<double>& r) __attribute__((always_inline)) {
            const Vec<double> t = read(k) - top - at, b = e * t + one;
            power.terms(t, p[k], weight);
            s += p[k], r += weight;
            near = minimum<double>(size(b), near);
        };
        int64_t k = 0;
        for (; k + 1 < n; k += 2) take(k, s0, r0), take(k + 1, s1, r1);
        if (k < n) take(k, s0, r0);
        Vec<double> s = s0 + s1, r = r0 + r1;
        if (ACROSS) s = across_sum<double>(s), r = across_sum<double>(r);
        step = maximum<double>(power.step(s - one, r), -at);  // the threshold is where the largest has all mass, or beyond
        const Int<double> moving = size(step) > maximum<double>(LAST_STEP * near, splat<double>(LOST_STEP));
        if (!any<double>(moving)) break;
        at += ACROSS ? step : keep<double>(moving, step);
    }
    for (int64_t k = 0; k < n; k++) {
        const Vec<double> t = read(k) - top - at, a = keep<double>(p[k] > 0, -step / (e * t + one));
        // (1 + e a)^(1/e) to second order
        Vec<double> moved = p[k] * (one + a * (one + 0.5 * (one - e) * a));
        const Int<double> far = size(a) > SERIES_STEP;
        if (any<double>(far)) moved = select<double>(far, power.output(t - step), moved);
        write(k, moved);
    }
}

// ---- short rows: a tile ----

// Rows that lie behind one another. What is above a bound of its row is packed into `raw`.
struct PackedTile {
    static constexpr int W = Simd<float>::W;
    const float* z;
    int64_t K;
    int lanes;
    float* raw;
    float above[W];

    static int64_t stride(int64_t K) { return (K + W - 1) / W * W + W; }
    MEMBER float* packed(int j) const { return raw + j * stride(K); }
    MEMBER Row<float> row(int j) const { return Row<float>(z + j * K, K); }

    // Fills `x` with the scores above the bounds; returns how many vectors these are.
    MEMBER int64_t read(Vec<float>* x) {
        const Vec<float> none = splat<float>(float(-INF));
        int64_t n = 1;
        for (int j = 0; j < lanes; j++) {
            for (int64_t k = 0; k < stride(K); k += W) store<float>(packed(j) + k, none);
            const int64_t kept = pack(row(j), above[j], packed(j));
            store<float>(packed(j) + kept, none);
            n = std::max(n, kept);
        }
        for (int64_t k = 0; k < n; k += W) {
            Vec<float> block[W];
            for (int j = 0; j < W; j++) block[j] = j < lanes ? load<float>(packed(j) + k) : none;
            transpose<float>(block);
            for (int j = 0; j < W; j++) x[k + j] = block[j];
        }
        return n;
    }

    // Writes n vectors of probabilities to the positions that their scores came from.
    MEMBER void write(const Vec<float>* x, int64_t n, float* p) const {
        for (int64_t k = 0; k < n; k += W) {
            Vec<float> block[W];
            for (int j = 0; j < W; j++) block[j] = x[k + j];
            transpose<float>(block);
            for (int j = 0; j < lanes; j++) store<float>(packed(j) + k, block[j]);
        }
        for (int j = 0; j < lanes; j++) write_row(j, p + j * K);
    }

    MEMBER void write_row(int j, float* p) const {
        int64_t taken = 0;
        row(j).each([&](Vec<float> v, int64_t i) { row(j).put(p, expand<float>(packed(j), v > above[j], taken), i); });
    }
};

// Room for the scores of a tile or of a row, as they are and measured from the largest, packed, and for probabilities.
struct RefinedScratch {
    Scratch<float> x, y, raw;
    Scratch<double> p;
    explicit RefinedScratch(int64_t vectors) : x(vectors), y(vectors), raw(vectors), p(2 * vectors) {}
};

// A tile of rows, with an e from 0 to 1 each.
INLINE void solve_refined_tile(const Tile<float, float>& tile, const double* e, const float* z, float* out,
                               const RefinedScratch& scratch) {
    constexpr int W = Simd<float>::W;
    const int64_t K = tile.shape.K;
    Vec<float>*x = scratch.x.v, *y = scratch.y.v;
    Vec<float> e_float;
    for (int j = 0; j < W; j++) e_float[j] = float(e[j]);
    tile.read(z, x, float(-INF));
    tile.prefetch_next(z, out);
    const Vec<float> top = lane_maxima<float>(x, K);
    const Int<float> sound = (top > float(-INF)) & (top < float(INF));
    const Vec<float> origin = keep<float>(sound, top);
    for (int64_t k = 0; k < K; k++) {
        x[k] = keep<float>(sound, x[k]);
        y[k] = x[k] - origin;
    }
    const General<float, float> power(e_float);
    const Start<float> start = rough_threshold<false, float>(power, y, K);
    PackedTile packed{tile.start(z), K, tile.lanes, (float*)scratch.raw.v, {}};
    const bool contiguous = tile.shape.inner == 1;
    int64_t n = K;
    if (contiguous) {
        for (int j = 0; j < tile.lanes; j++) {
            const float edge = e[j] > 0 ? start.least[j] - power.inverse[j] : float(-INF);
            packed.above[j] = sound[j] ? support_bound<float, float>(top[j], edge) : float(INF);
        }
        n = packed.read(x);
        for (int64_t k = 0; k < n; k++) y[k] = x[k] - origin;
    }
    const Int<float> steep = e_float > 0.5f;
    const Vec<float> tolerance = select<float>(steep, splat<float>(FLOAT_TOLERANCE), power.tolerance);
    const Root<float> root = newton<false, float>(power, y, n, start.at, start.least, tolerance);
    const Int<float> corrected = steep | (root.weights > float(MAX_FLOAT_WEIGHT));
    if (any<float>(~corrected)) write_lanes<float>(power, y, n, root.at);
    if (any<float>(corrected)) {
        for (int half = 0; half < 2; half++) {
            const Vec<double> at = widen(root.at.high, half) + widen(root.at.low, half);
            const auto read = [&](int64_t k) __attribute__((always_inline)) { return widen(x[k], half); };
            const auto write = [&](int64_t k, Vec<double> v) __attribute__((always_inline)) { narrow(v, half, x[k]); };
            correct<false>(read, write, n, widen(origin, half), load<double>(e + half * W / 2), at, scratch.p.v);
        }
        for (int64_t k = 0; k < n; k++) y[k] = select<float>(corrected, x[k], y[k]);
    }
    if (contiguous) {
        packed.write(y, n, tile.start(out));
        for (int j = 0; j < tile.lanes; j++) fill_edge_case(packed.row(j), top[j], tile.start(out) + j * K);
    } else {
        fill_edge_lanes<float>(y, K, top);
        tile.write(y, out);
    }
}

// ---- longer rows: one at a time, across the lanes ----

INLINE void solve_refined_row(const Row<float>& row, double e, float* out, const RefinedScratch& scratch) {
    const float top = row_maximum(row);
    if (fill_edge_case(row, top, out)) return;
    Vec<float>* x = scratch.x.v;
    float* raw = (float*)scratch.raw.v;
    const General<float, float> power(splat<float>(float(e)));
    float above = support_bound<float, float>(top, power.edge());
    const int64_t near = pack(row, above, raw);
    const Start<float> start = rough_threshold<true, float>(power, x, unpack<float>(raw, near, top, x));
    // What is out at a bound of the threshold is out for good.
    above = support_bound<float, float>(top, power.edge() + start.least[0]);
    const int64_t kept = pack(Row<float>(raw, near), above, raw), n = unpack<float>(raw, kept, top, x);
    const bool precise = e > 0.5;
    const Vec<float> tolerance = precise ? splat<float>(FLOAT_TOLERANCE) : power.tolerance;
    const Root<float> root = newton<true, float>(power, x, n, start.at, start.least, tolerance);
    if (!precise && !(root.weights[0] > MAX_FLOAT_WEIGHT))
        return write_packed<float>(row, power, above, root.at, x, n, raw, out);
    constexpr int W = Simd<double>::W;
    const auto read = [&](int64_t k) __attribute__((always_inline)) { return load<double>(raw + k * W); };
    const auto write = [&](int64_t k, Vec<double> v) __attribute__((always_inline)) { store<double>(raw + k * W, v); };
    const Vec<double> at = splat<double>(double(root.at.high[0]) + double(root.at.low[0]));
    correct<true>(read, write, (kept + W - 1) / W, splat<double>(top), splat<double>(e), at, scratch.p.v);
    int64_t taken = 0;
    row.each([&](Vec<float> v, int64_t i) { row.put(out, expand<float>(raw, v > above, taken), i); });
}

// Rows [begin, end). `alpha` holds one for each row, or, where `shared`, a single one, as it has to be for long rows.
inline void solve_refined(const float* z, float* p, const double* alpha, bool shared, Shape shape, int64_t begin,
                          int64_t end) {
    constexpr int64_t W = Simd<float>::W;
    const int64_t K = shape.K;
    const bool tiles = shape.inner > 1 || K <= SHORT_ROW;
    const RefinedScratch scratch(tiles ? PackedTile::stride(K) : K / W + 2);
    if (!tiles) {
        for (int64_t i = begin; i < end; i++)
            solve_refined_row(Row<float>(z + i * K, K), alpha[0] - 1, p + i * K, scratch);
        return;
    }
    for (int64_t i = begin; i < end;) {
        const Tile<float, float> tile(shape, i, end);
        double e[W] = {};
        for (int j = 0; j < tile.lanes; j++) e[j] = alpha[shared ? 0 : i + j] - 1;
        solve_refined_tile(tile, e, z, p, scratch);
        i = tile.next();
    }
}

}  // namespace omegamax
