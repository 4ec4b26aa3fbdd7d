// Entmax and normmax for a range of rows: which member of the family each alpha is.
#pragma once

#include "norm.h"
#include "rows.h"

namespace omegamax {

// alpha of a row as the family's parameters: curvature e, exponent of the output.
struct Member {
    double e, exponent;
    Member() = default;
    Member(double alpha, bool norm)
        : e(norm ? 1 - 1 / alpha : alpha - 1), exponent(norm ? 1 / (alpha - 1) : 1 / e) {}
};

// Whether the cheap form of the member, which keeps its digits in rows of any length, is the one taken.
inline bool cheap(const Member& m, bool norm) {
    const double whole = std::round(1 / m.e);
    if (norm) return m.e == 1 || m.e == 0.5;
    return m.e > 0 && whole <= 32 && std::abs(m.e * whole - 1) < 1e-15;
}

// Whether float arithmetic is enough for float scores. Where probabilities or their Jacobian rise from zero like a root
// of the score, or fall off slowly (alpha < 1), they need the threshold to more digits than a float has.
inline bool tame(double alpha, bool norm) {
    return norm ? alpha <= 1.5 || alpha == 2 || std::isinf(alpha) : (alpha >= 1 && alpha <= 1.5) || alpha == 2;
}

// The dear form loses digits at the edge of the support, the more the larger that is. Entmax of a row across the lanes
// is judged by the sum of its weights, beyond which it is solved again in double; the others by their length.
constexpr double heavy = 8;
constexpr int64_t long_row = 4096;

inline bool forward_in_float(double alpha, bool norm, Shape s) {
    if (!tame(alpha, norm)) return false;
    return alpha == 1 || s.K <= long_row || (!norm && s.inner == 1) || cheap(Member(alpha, norm), norm);
}

// Calls `body` with the power of a member whose e <= 1.
template <class T, class S, class Body>
INLINE void with_power(const Member& m, bool norm, Body body) {
    if (norm && m.e == 1) return body(NormUniform<T>());
    if (norm && m.e == 0.5) return body(NormSquare<T>());
    if (norm) return body(NormGeneral<T, S>(splat<T>(T(m.exponent))));
    if (m.e == 1) return body(Linear<T>());
    if (m.e == 0.5) return body(Square<T>());
    if (cheap(m, norm)) return body(Whole<T>(m.e));
    return body(General<T, S>(splat<T>(T(m.e))));
}

// Sparsemax in double, in place (Michelot). For rows with an entry so close to the threshold that a float cannot tell
// whether it is in the support: probabilities that are given as scores come back as they are, zeros included.
constexpr double EDGE = 4 * std::numeric_limits<float>::epsilon();

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

// Solves the lanes of a tile again whose probabilities `x` have one that close to zero.
template <class T, class S>
INLINE void settle_edges(const Tile<T, S>& tile, const S* z, Vec<T>* x) {
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
INLINE bool power_row(const Row<S>& row, const Power& power, S* p, Vec<T>* x) {
    const S top = row_maximum(row);
    if (settled(row, top, p)) return true;
    S* raw = (S*)(x + row.K / Simd<T>::W + 2);
    if constexpr (!Power::cheap) {
        const S above = cut<T, S>(top, T(1), power.edge());
        const int64_t n = unpack<T>(raw, pack(row, above, raw), T(top), T(1), x);
        const Root<T> root = dear_threshold<true, T>(power, x, n);
        if (std::is_same<T, float>::value && root.weights[0] > T(heavy)) return false;
        write_packed<T>(row, power, above, root.at, x, n, raw, p);
    } else if constexpr (std::is_same<T, S>::value) {
        const int64_t n = pad<T>(raw, pack(row, cut<T, S>(top, T(1), -power.reach), raw));
        x = (Vec<T>*)raw;
        const Pair<T> at = cheap_threshold<true, T>(power, x, n, splat<T>(top));
        if constexpr (std::is_same<T, float>::value && std::is_base_of<Linear<T>, Power>::value) {
            Int<T> near{};
            for (int64_t i = 0; i < n; i++) near |= (at.below(x[i]) > T(-EDGE)) & (at.below(x[i]) < T(EDGE));
            if (any<T>(near)) return false;
        }
        write_row(row, power, at, x, n, p);
    } else {
        const S above = cut<T, S>(top, T(1), -power.reach);
        const int64_t n = unpack<T>(raw, pack(row, above, raw), T(0), T(1), x);
        write_packed<T>(row, power, above, cheap_threshold<true, T>(power, x, n, splat<T>(top)), x, n, raw, p);
    }
    return true;
}

// Softmax, and the members that are not solved by a threshold.
template <class T, class S>
INLINE void other_row(const Row<S>& row, double e, S* p, Vec<T>* x) {
    const S top = row_maximum(row);
    if (settled(row, top, p)) return;
    if (e == 0) return softmax_row(row, top, p);
    if (!(e > 1)) return row.fill(p, S(NAN));
    T* u = (T*)x;
    for (int64_t i = 0; i < row.K; i++) u[i] = T(row.z[i]) - T(top);
    steep_row<T>(u, row.K, e);
    for (int64_t i = 0; i < row.K; i++) p[i] = S(u[i]);
}

template <class T, class S>
void family_rows(const S* z, S* p, int64_t K, const Member& m, bool norm, int64_t begin, int64_t end, Vec<T>* x) {
    if (m.e == 0 || !(m.e > -1 && m.e <= 1)) {
        for (int64_t i = begin; i < end; i++) other_row<T>(Row<S>(z + i * K, K), m.e, p + i * K, x);
        return;
    }
    with_power<T, S>(m, norm, [&](auto power) __attribute__((always_inline)) {
        for (int64_t i = begin; i < end; i++) {
            if (power_row<T>(Row<S>(z + i * K, K), power, p + i * K, x)) continue;
            if constexpr (!std::is_same<T, double>::value) {
                Scratch<double> more(2 * (K / Simd<double>::W + 2));
                family_rows<double>(z, p, K, m, norm, i, i + 1, more.v);
            }
        }
    });
}

template <class T, class S>
INLINE void family_lanes(Vec<T>* x, int64_t K, const Member* m, int lanes, bool norm, bool shared) {
    constexpr int W = Simd<T>::W;
    Vec<T> e{}, exponent{}, top = lane_maxima<T>(x, K);
    if (shared && cheap(m[0], norm)) {
        with_power<T, S>(m[0], norm, [&](auto power) __attribute__((always_inline)) {
            if constexpr (power.cheap) write_lanes<T>(power, x, K, cheap_threshold<false, T>(power, x, K, top));
        });
        return settle<T>(x, K, top);
    }
    bool steep = false;
    for (int j = 0; j < lanes; j++) {
        steep |= !(m[j].e <= 1);
        e[j] = T(m[j].e <= 1 ? m[j].e : 0), exponent[j] = T(m[j].exponent);
    }
    if (shared && m[0].e == 0) {
        write_lanes<T>(Exponential<T>(), x, K, Pair<T>{top, Vec<T>{}});
        return settle<T>(x, K, top);
    }
    shift<T>(x, K, top);
    const auto solve = [&](auto power) __attribute__((always_inline)) {
        write_lanes<T>(power, x, K, dear_threshold<false, T>(power, x, K).at);
    };
    if (steep) {  // rare, and one row at a time; the other lanes go on as they are
        std::unique_ptr<T[]> row(new T[size_t(K * W)]);
        for (int j = 0; j < lanes; j++) {
            if (m[j].e <= 1) continue;
            for (int64_t k = 0; k < K; k++) row[j * K + k] = x[k][j];
            if (m[j].e > 1) steep_row<T>(&row[j * K], K, m[j].e);
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
    settle<T>(x, K, top);
}

// Rows [begin, end). `alpha` holds one for each row, or, where `shared`, a single one.
template <class T, class S>
void family_range(const S* z, S* p, const double* alpha, bool shared, bool norm, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    // Powers in double are so dear that leaving out what cannot be in the support pays in short rows too.
    const bool dear = !std::is_same<T, S>::value && shared && alpha[0] > 1;
    if (shape.inner == 1 && (K > short_row || (dear && K > 32))) {
        Scratch<T> x(2 * (K / Simd<T>::W + 2));
        if (shared) return family_rows<T>(z, p, K, Member(alpha[0], norm), norm, begin, end, x.v);
        for (int64_t i = begin; i < end; i++) family_rows<T>(z, p, K, Member(alpha[i], norm), norm, i, i + 1, x.v);
        return;
    }
    Scratch<T> x(K + Simd<T>::W);
    for (int64_t i = begin; i < end;) {
        Tile<T, S> tile(shape, i);
        Member members[Simd<T>::W];
        for (int j = 0; j < tile.lanes; j++) members[j] = Member(alpha[shared ? 0 : i + j], norm);
        tile.read(z, x.v, T(-INF));
        tile.prefetch_next(z, p);
        family_lanes<T, S>(x.v, K, members, tile.lanes, norm, shared);
        if (std::is_same<T, float>::value && shared && !norm && members[0].e == 1) settle_edges(tile, z, x.v);
        tile.write(x.v, p);
        i = tile.next();
    }
}

}  // namespace omegamax
