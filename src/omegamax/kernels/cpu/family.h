// Entmax and normmax for a range of rows: which member of the family each alpha is.
#pragma once

#include "rows.h"

namespace omegamax {

// alpha of a row as the family's parameters: curvature e, factor on the scores, exponent of the output.
struct Member {
    double e, scale, exponent;
    Member() = default;
    Member(double alpha, bool norm)
        : e(norm ? 1 - 1 / alpha : alpha - 1), scale(norm ? 1 / e : 1), exponent(norm ? 1 / (alpha - 1) : 1 / e) {}
};

// Whether float arithmetic is enough for float scores. Where probabilities or their Jacobian rise from zero like a root
// of the score, or fall off slowly (alpha < 1), they need the threshold to more digits than a float has.
inline bool tame(double alpha, bool norm) {
    return norm ? alpha <= 1.5 || alpha == 2 || std::isinf(alpha) : (alpha >= 1 && alpha <= 1.5) || alpha == 2;
}

// Calls `body` with the power of a member whose e <= 1.
template <class T, class Body>
INLINE void with_power(const Member& m, bool norm, Body body) {
    const double whole = std::round(1 / m.e);
    if (norm) {
        if (m.e == 1) return body(NormUniform<T>());
        if (m.e == 0.5) return body(NormSquare<T>());
        return body(NormGeneral<T>(splat<T>(T(m.e)), splat<T>(T(m.exponent))));
    }
    if (m.e == 1) return body(Linear<T>());
    if (m.e == 0.5) return body(Square<T>());
    if (m.e > 0 && whole <= 32 && std::abs(m.e * whole - 1) < 1e-15) return body(Whole<T>(m.e));
    return body(General<T>(splat<T>(T(m.e))));
}

template <class T, class S>
INLINE void family_row(const Row<T, S>& row, const Member& m, bool norm, S* p, Vec<T>* x) {
    T top = row_maximum(row);
    if (settled(row, top, p)) return;
    if (!(m.e > -1)) return row.fill(p, S(NAN));
    if (m.e == 0) return write_row(row, Exponential<T>(), top, T(1), Vec<T>{}, x, 0, p);
    if (m.e > 1) {
        T* u = (T*)x;
        for (int64_t i = 0; i < row.K; i++) u[i] = row.z[i] - top;
        steep_row<T>(u, row.K, m.e);
        for (int64_t i = 0; i < row.K; i++) p[i] = S(u[i]);
        return;
    }
    with_power<T>(m, norm, [&](auto power) __attribute__((always_inline)) {
        T bound = m.e > 0 ? T(-1 / m.e) : std::numeric_limits<T>::lowest();
        int64_t n = survivors(row, top, T(m.scale), bound, x);
        Vec<T> l = threshold<true, T>(power, x, n);
        write_row(row, power, top, T(m.scale), l, x, n, p);
    });
}

template <class T>
INLINE void family_lanes(Vec<T>* x, int64_t K, const Member* m, int lanes, bool norm, bool shared) {
    constexpr int W = Simd<T>::W;
    Vec<T> e{}, scale = splat<T>(1), exponent{}, top;
    bool steep = false;
    for (int j = 0; j < lanes; j++) {
        steep |= !(m[j].e <= 1);
        e[j] = T(m[j].e <= 1 ? m[j].e : 0), scale[j] = T(m[j].scale), exponent[j] = T(m[j].exponent);
    }
    shift<T>(x, K, scale, top);
    if (steep) {  // rare, and one row at a time; the other lanes go on as they are
        std::unique_ptr<T[]> row(new T[size_t(K * W)]);
        for (int j = 0; j < lanes; j++) {
            if (m[j].e <= 1) continue;
            for (int64_t k = 0; k < K; k++) row[j * K + k] = x[k][j];
            if (m[j].e > 1) steep_row<T>(&row[j * K], K, m[j].e);
            else top[j] = T(NAN);
        }
        if (!shared) write_lanes<T>(General<T>(e), x, K, threshold<false, T>(General<T>(e), x, K));
        for (int j = 0; j < lanes; j++)
            if (!(m[j].e <= 1))
                for (int64_t k = 0; k < K; k++) x[k][j] = row[j * K + k];
    } else if (shared && m[0].e == 0) {
        write_lanes<T>(Exponential<T>(), x, K, Vec<T>{});
    } else if (shared) {
        with_power<T>(m[0], norm, [&](auto power) __attribute__((always_inline)) {
            write_lanes<T>(power, x, K, threshold<false, T>(power, x, K));
        });
    } else if (norm) {
        NormGeneral<T> power(e, exponent);
        write_lanes<T>(power, x, K, threshold<false, T>(power, x, K));
    } else {
        General<T> power(e);
        write_lanes<T>(power, x, K, threshold<false, T>(power, x, K));
    }
    settle<T>(x, K, top);
}

// Rows [begin, end). `alpha` holds one for each row, or, where `shared`, a single one.
template <class T, class S>
void family_range(const S* z, S* p, const double* alpha, bool shared, bool norm, Shape shape, int64_t begin, int64_t end) {
    const int64_t K = shape.K;
    if (shape.inner == 1 && K > short_row) {
        Scratch<T> x(K / Simd<T>::W + 2);
        for (int64_t i = begin; i < end; i++)
            family_row(Row<T, S>(z + i * K, K), Member(alpha[shared ? 0 : i], norm), norm, p + i * K, x.v);
        return;
    }
    Scratch<T> x(K + Simd<T>::W);
    for (int64_t i = begin; i < end;) {
        Tile<T, S> tile(shape, i);
        Member members[Simd<T>::W];
        for (int j = 0; j < tile.lanes; j++) members[j] = Member(alpha[shared ? 0 : i + j], norm);
        tile.read(z, x.v, T(-INF));
        family_lanes<T>(x.v, K, members, tile.lanes, norm, shared);
        tile.write(x.v, p);
        i = tile.next();
    }
}

}  // namespace omegamax
