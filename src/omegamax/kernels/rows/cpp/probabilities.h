// From scores to probabilities: which formula an alpha takes, in which precision, and how rows are laid out for it.
#pragma once

#include <algorithm>

#include "above_two.h"
#include "entmax.h"
#include "entmax_refined.h"
#include "layout.h"
#include "normmax.h"

namespace omegamax {

// What a formula needs of alpha: e, which is alpha - 1 or, for normmax, 1 - 1 / alpha; and the exponent of its output.
struct Member {
    double e, exponent;
    Member() = default;
    Member(double alpha, bool norm)
        : e(norm ? 1 - 1 / alpha : alpha - 1), exponent(norm ? 1 / (alpha - 1) : 1 / e) {}
};

// Whether p is a polynomial, whose threshold keeps its digits in rows of any length.
inline bool is_polynomial(const Member& m, bool norm) {
    const double power = std::round(1 / m.e);
    if (norm) return m.e == 1 || m.e == 0.5;
    return m.e > 0 && power <= 32 && std::abs(m.e * power - 1) < 1e-15;
}

// Whether float arithmetic is enough for float scores. Where probabilities or their Jacobian rise from zero like a root
// of the score, or fall off slowly (alpha < 1), they need the threshold to more digits than a float has.
inline bool float_suffices(double alpha, bool norm) {
    return norm ? alpha <= 1.5 || alpha == 2 || std::isinf(alpha) : (alpha >= 1 && alpha <= 1.5) || alpha == 2;
}

// Without a polynomial, digits are lost at the edge of the support, the more the larger that is.
constexpr int64_t LONG_ROW = 4096;  // entries

inline bool forward_in_float(double alpha, bool norm, Shape s) {
    if (!float_suffices(alpha, norm)) return false;
    return alpha == 1 || s.K <= LONG_ROW || is_polynomial(Member(alpha, norm), norm);
}

// Whether entmax of floats is solved in float, and corrected where that does not suffice.
inline bool is_refined(double alpha) { return alpha >= 1 && alpha <= 2; }

inline bool all_refined(const double* alpha, bool shared, int64_t begin, int64_t end) {
    if (shared) return is_refined(*alpha) && *alpha != 1 && !is_polynomial(Member(*alpha, false), false);
    return std::all_of(alpha + begin, alpha + end, is_refined);
}

// Calls `body` with the power of a member whose e <= 1.
template <class T, class S, class Body>
INLINE void with_power(const Member& m, bool norm, Body body) {
    if (norm && m.e == 1) return body(NormUniform<T>());
    if (norm && m.e == 0.5) return body(NormSquare<T>());
    if (norm) return body(NormGeneral<T, S>(splat<T>(T(m.exponent))));
    if (m.e == 1) return body(Linear<T>());
    if (m.e == 0.5) return body(Square<T>());
    if (is_polynomial(m, norm)) return body(IntegerPower<T>(m.e));
    return body(General<T, S>(splat<T>(T(m.e))));
}

// Distance from the threshold within which a float cannot tell whether an entry is in the support.
constexpr double EDGE = 4 * std::numeric_limits<float>::epsilon();

// Sparsemax in double, in place (Michelot), for rows with an entry that close: probabilities that are given as scores come
// back as they are, zeros included.

inline void sparsemax_row(double* u, int64_t n) {
    const double top = *std::max_element(u, u + n);
    double tau = top - 1;
    for (double next = tau;;) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            if (u[i] > tau) sum += u[i] - top, count++;
        next = top + (sum - 1) / double(count);
        if (!(next > tau)) break;
        tau = next;
    }
    for (int64_t i = 0; i < n; i++) u[i] = std::max(u[i] - tau, 0.0);
}

// Solves the lanes of a tile again, in double, whose probabilities `x` have one that close to zero.
template <class T, class S>
INLINE void solve_edges_again(const Tile<T, S>& tile, const S* z, Vec<T>* x) {
    const int64_t K = tile.shape.K, inner = tile.shape.inner;
    Int<T> near{};
    for (int64_t k = 0; k < K; k++) near |= (x[k] > 0) & (x[k] < T(EDGE));
    if (!any<T>(near)) return;
    std::unique_ptr<double[]> row(new double[size_t(K)]);
    for (int j = 0; j < tile.lanes; j++) {
        if (!near[j]) continue;
        const S* from = tile.start(z) + (inner == 1 ? j * K : j);
        for (int64_t k = 0; k < K; k++) row[k] = double(from[k * inner]);
        sparsemax_row(row.get(), K);
        for (int64_t k = 0; k < K; k++) x[k][j] = T(row[k]);
    }
}

// One row of a member with e <= 1, e != 0; returns whether T has enough digits for it, and writes it only then. `x` has
// room for the row in T and, behind it, in S.
template <class T, class S, class Power>
INLINE bool threshold_row(const Row<S>& row, const Power& power, S* p, Vec<T>* x) {
    const S top = row_maximum(row);
    if (fill_edge_case(row, top, p)) return true;
    S* raw = (S*)(x + row.K / Simd<T>::W + 2);
    if constexpr (!Power::polynomial) {
        S above = support_bound<T, S>(top, power.edge());
        int64_t packed = pack(row, above, raw), n = unpack<T>(raw, packed, T(top), x);
        Root<T> root;
        if constexpr (std::is_same<Power, General<T, S>>::value) {
            const Start<T> start = rough_threshold<true, T>(power, x, n);
            if (power.e[0] > 0 && n > 1) {
                // What is out at a bound of the threshold is out for good: the steps that take powers see the rest.
                above = support_bound<T, S>(top, power.edge() + start.least[0]);
                n = unpack<T>(raw, pack(Row<S>(raw, packed), above, raw), T(top), x);
            }
            root = general_threshold<true, T>(power, x, n, start);
        } else {
            root = general_threshold<true, T>(power, x, n);
        }
        if (std::is_same<T, float>::value && root.weights[0] > T(MAX_FLOAT_WEIGHT)) return false;
        write_packed<T>(row, power, above, root.at, x, n, raw, p);
    } else if constexpr (std::is_same<T, S>::value) {
        const int64_t n = pad<T>(raw, pack(row, support_bound<T, S>(top, -power.reach), raw));
        x = (Vec<T>*)raw;
        const DoubleWord<T> at = polynomial_threshold<true, T>(power, x, n, splat<T>(top));
        if constexpr (std::is_same<T, float>::value && std::is_base_of<Linear<T>, Power>::value) {
            Int<T> near{};
            for (int64_t i = 0; i < n; i++) near |= (at.distance(x[i]) > T(-EDGE)) & (at.distance(x[i]) < T(EDGE));
            if (any<T>(near)) return false;
        }
        write_row(row, power, at, x, n, p);
    } else {
        const S above = support_bound<T, S>(top, -power.reach);
        const int64_t n = unpack<T>(raw, pack(row, above, raw), T(0), x);
        write_packed<T>(row, power, above, polynomial_threshold<true, T>(power, x, n, splat<T>(top)), x, n, raw, p);
    }
    return true;
}

// Softmax, and the members that are not solved by a threshold.
template <class T, class S>
INLINE void direct_row(const Row<S>& row, double e, S* p, Vec<T>* x) {
    const S top = row_maximum(row);
    if (fill_edge_case(row, top, p)) return;
    if (e == 0) return softmax_row(row, top, p);
    if (!(e > 1)) return row.fill(p, S(NAN));
    T* u = (T*)x;
    for (int64_t i = 0; i < row.K; i++) u[i] = T(row.z[i]) - T(top);
    above_two_row<T>(u, row.K, e);
    for (int64_t i = 0; i < row.K; i++) p[i] = S(u[i]);
}

// Long rows [begin, end) of one alpha, each spread across the lanes.
template <class T, class S>
void solve_rows(const S* z, S* p, int64_t K, const Member& m, bool norm, int64_t begin, int64_t end, Vec<T>* x) {
    if (m.e == 0 || !(m.e > -1 && m.e <= 1)) {
        for (int64_t i = begin; i < end; i++) direct_row<T>(Row<S>(z + i * K, K), m.e, p + i * K, x);
        return;
    }
    with_power<T, S>(m, norm, [&](auto power) __attribute__((always_inline)) {
        for (int64_t i = begin; i < end; i++) {
            if (threshold_row<T>(Row<S>(z + i * K, K), power, p + i * K, x)) continue;
            if constexpr (!std::is_same<T, double>::value) {
                Scratch<double> more(2 * (K / Simd<double>::W + 2));
                solve_rows<double>(z, p, K, m, norm, i, i + 1, more.v);
            }
        }
    });
}

// A tile of short rows, one in each lane, with an alpha each unless it is `shared`.
template <class T, class S>
INLINE void solve_lanes(Vec<T>* x, int64_t K, const Member* m, int lanes, bool norm, bool shared) {
    constexpr int W = Simd<T>::W;
    Vec<T> e{}, exponent{}, top = lane_maxima<T>(x, K);
    if (shared && is_polynomial(m[0], norm)) {
        with_power<T, S>(m[0], norm, [&](auto power) __attribute__((always_inline)) {
            if constexpr (power.polynomial) write_lanes<T>(power, x, K, polynomial_threshold<false, T>(power, x, K, top));
        });
        return fill_edge_lanes<T>(x, K, top);
    }
    bool above_two = false;
    for (int j = 0; j < lanes; j++) {
        above_two |= !(m[j].e <= 1);
        e[j] = T(m[j].e <= 1 ? m[j].e : 0), exponent[j] = T(m[j].exponent);
    }
    if (shared && m[0].e == 0) {
        write_lanes<T>(Exponential<T>(), x, K, DoubleWord<T>{top, Vec<T>{}});
        return fill_edge_lanes<T>(x, K, top);
    }
    shift<T>(x, K, top);
    const auto solve = [&](auto power) __attribute__((always_inline)) {
        write_lanes<T>(power, x, K, general_threshold<false, T>(power, x, K).at);
    };
    if (above_two) {  // rare, and one row at a time; the other lanes go on as they are
        std::unique_ptr<T[]> row(new T[size_t(K * W)]);
        for (int j = 0; j < lanes; j++) {
            if (m[j].e <= 1) continue;
            for (int64_t k = 0; k < K; k++) row[j * K + k] = x[k][j];
            if (m[j].e > 1) above_two_row<T>(&row[j * K], K, m[j].e);
            else top[j] = T(NAN);
        }
        if (!shared) solve(General<T, S>(e));
        for (int j = 0; j < lanes; j++)
            if (!(m[j].e <= 1))
                for (int64_t k = 0; k < K; k++) x[k][j] = row[j * K + k];
    } else if (norm) {
        solve(NormGeneral<T, S>(exponent));
    } else {
        solve(General<T, S>(e));
    }
    fill_edge_lanes<T>(x, K, top);
}

// Rows [begin, end). `alpha` holds one for each row, or, where `shared`, a single one, as it has to be for long rows.
template <class T, class S>
void solve_range(const S* z, S* p, const double* alpha, bool shared, bool norm, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    // Powers, in double above all, are so costly that leaving out what cannot be in the support pays in short rows too.
    const bool powers = shared && alpha[0] != 1 && !is_polynomial(Member(alpha[0], norm), norm);
    const bool costly = !std::is_same<T, S>::value && alpha[0] > 1;
    const int64_t short_row = !powers ? SHORT_ROW : costly ? SHORT_POWER_ROW / 2 : SHORT_POWER_ROW;
    if (shape.inner == 1 && K > short_row) {
        Scratch<T> x(2 * (K / Simd<T>::W + 2));
        return solve_rows<T>(z, p, K, Member(alpha[0], norm), norm, begin, end, x.v);
    }
    Scratch<T> x(K + Simd<T>::W);
    for (int64_t i = begin; i < end;) {
        Tile<T, S> tile(shape, i, end);
        Member members[Simd<T>::W];
        for (int j = 0; j < tile.lanes; j++) members[j] = Member(alpha[shared ? 0 : i + j], norm);
        tile.read(z, x.v, T(-INF));
        tile.prefetch_next(z, p);
        solve_lanes<T, S>(x.v, K, members, tile.lanes, norm, shared);
        if (std::is_same<T, float>::value && shared && !norm && members[0].e == 1) solve_edges_again(tile, z, x.v);
        tile.write(x.v, p);
        i = tile.next();
    }
}

}  // namespace omegamax
