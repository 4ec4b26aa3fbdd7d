// Maps of rows, and their vector-Jacobian products: the C interface, and the loop over rows.
//
// No torch headers: tensors arrive as pointers and sizes, one library serves every torch.
#pragma once

#include <algorithm>

#include "../../bounds/cpp/k_subsets.h"
#include "entmax_alpha.h"
#include "entmax_vjp.h"
#include "layout.h"
#include "normmax_vjp.h"
#include "probabilities.h"
#include "share.h"

namespace omegamax {

// The kinds of kernels/kinds.py that are compiled here, with its values.
enum class Kind : int { ENTMAX = 2, NORMMAX = 3, K_SUBSETS = 7 };

// ---- vector-Jacobian products ----

template <class T, class S, bool ACROSS>
INLINE void vjp(Kind kind, const Span<T, S, ACROSS>& span, Vec<T> alpha, bool shared, const S* p, const S* g, S* out) {
    if (kind == Kind::ENTMAX) entmax_vjp_by_alpha(span, alpha, shared, p, g, out);
    else if (kind == Kind::NORMMAX && shared && alpha[0] == T(2)) norm_square_vjp(span, p, g, out);
    else if (kind == Kind::NORMMAX) normmax_vjp(span, alpha, p, g, out);
    else k_subsets_vjp(span, p, g, out);
}

// Rows [begin, end). `alpha` holds one for each row, or, where `shared`, a single one, as it has to be without a stride.
template <class T, class S>
void vjp_range(Kind kind, const S* p, const S* g, S* out, const double* alpha, bool shared, Shape shape, int64_t begin,
               int64_t end) {
    if (shape.inner == 1) {
        const Span<T, S, true> span(shape, 1);
        for (int64_t i = begin; i < end; i++) {
            const int64_t at = i * shape.K;
            vjp(kind, span, splat<T>(T(alpha[0])), true, p + at, g + at, out + at);
        }
        return;
    }
    for (int64_t i = begin; i < end;) {
        const Tile<T, S> tile(shape, i, end);
        const int64_t at = tile.start(int64_t(0));
        Vec<T> a = splat<T>(2);
        for (int j = 0; j < tile.lanes; j++) a[j] = T(alpha[shared ? 0 : i + j]);
        vjp(kind, Span<T, S, false>(shape, tile.lanes), a, shared, p + at, g + at, out + at);
        i = tile.next();
    }
}

}  // namespace omegamax

namespace {

using namespace omegamax;

// Calls work(parameter, shared, begin, end) on the rows [begin, end), which have a parameter each in `rows`, or, where it is
// null, share `value`. A run of rows goes at once: of `own` rows those with equal parameters, or with any that go `together`.
template <class Together, class Work>
void by_parameter(const double* rows, double value, bool own, int64_t begin, int64_t end, Together together, Work work) {
    if (rows == nullptr) return work(&value, true, begin, end);
    if (!own) return work(rows, false, begin, end);
    for (int64_t i = begin, next; i < end; i = next) {
        const bool mixed = together(rows[i]);
        for (next = i + 1; next < end && (mixed ? together(rows[next]) : rows[next] == rows[i]);) next++;
        work(mixed ? rows : rows + i, !mixed, i, next);
    }
}

template <class T>
void forward(int kind, const T* z, T* p, double value, const double* rows, Shape s, int threads) {
    const bool norm = Kind(kind) == Kind::NORMMAX, k_subsets = Kind(kind) == Kind::K_SUBSETS;
    const bool refines = std::is_same<T, float>::value && !norm && !k_subsets;
    const bool own = refines || (s.inner == 1 && s.K > SHORT_POWER_ROW && !k_subsets);
    const bool tiles = s.inner > 1 || s.K <= SHORT_ROW;
    const auto together = [&](double alpha) { return refines && tiles && is_refined(alpha); };
    share(s, threads, [&](int64_t from, int64_t to) {
        by_parameter(rows, value, own, from, to, together, [&](const double* parameter, bool shared, int64_t begin,
                                                               int64_t end) {
            if (k_subsets) return k_subsets_range<T>(z, p, parameter, shared, s, begin, end);
            if constexpr (std::is_same<T, float>::value)
                if (refines && all_refined(parameter, shared, begin, end))
                    return solve_refined(z, p, parameter, shared, s, begin, end);
            if (shared && forward_in_float(*parameter, norm, s)) solve_range<T>(z, p, parameter, true, norm, s, begin, end);
            else solve_range<double>(z, p, parameter, shared, norm, s, begin, end);
        });
    });
}

template <class T>
void backward(int kind, const T* p, const T* g, T* out, double value, const double* rows, Shape s, int threads) {
    const bool norm = Kind(kind) == Kind::NORMMAX;
    share(s, threads, [&](int64_t from, int64_t to) {
        const auto apart = [](double) { return false; };
        by_parameter(rows, value, s.inner == 1, from, to, apart, [&](const double* parameter, bool shared, int64_t begin,
                                                                     int64_t end) {
            // k-subsets and alpha = 1.75 are plain sums and square roots; see float_suffices() for the rest.
            const bool plain = Kind(kind) == Kind::K_SUBSETS ||
                               (shared && (*parameter == 1.75 || float_suffices(*parameter, norm)));
            if (plain) vjp_range<T>(Kind(kind), p, g, out, parameter, shared, s, begin, end);
            else vjp_range<double>(Kind(kind), p, g, out, parameter, shared, s, begin, end);
        });
    });
}

template <class T>
void sum(int kind, const T* p, const T* g, T* out, double value, const double* rows, int64_t count, int64_t K,
         int64_t stride, int threads) {
    const bool shared = rows == nullptr;
    share({count, K, 1}, threads, [&](int64_t begin, int64_t end) {
        sum_range(RowSum(kind), p, g, out, shared ? &value : rows, shared, K, stride, begin, end);
    });
}

}  // namespace

extern "C" {

void omegamax_rows_forward_f32(int kind, const float* z, float* p, double value, const double* rows, int64_t outer, int64_t K,
                          int64_t inner, int threads) {
    forward<float>(kind, z, p, value, rows, {outer, K, inner}, threads);
}

void omegamax_rows_forward_f64(int kind, const double* z, double* p, double value, const double* rows, int64_t outer,
                          int64_t K, int64_t inner, int threads) {
    forward<double>(kind, z, p, value, rows, {outer, K, inner}, threads);
}

void omegamax_rows_backward_f32(int kind, const float* p, const float* g, float* out, double value, const double* rows,
                           int64_t outer, int64_t K, int64_t inner, int threads) {
    backward<float>(kind, p, g, out, value, rows, {outer, K, inner}, threads);
}

void omegamax_rows_backward_f64(int kind, const double* p, const double* g, double* out, double value, const double* rows,
                           int64_t outer, int64_t K, int64_t inner, int threads) {
    backward<double>(kind, p, g, out, value, rows, {outer, K, inner}, threads);
}

void omegamax_rows_sum_f32(int kind, const float* p, const float* g, float* out, double value, const double* rows,
                           int64_t count, int64_t K, int64_t stride, int threads) {
    sum<float>(kind, p, g, out, value, rows, count, K, stride, threads);
}

void omegamax_rows_sum_f64(int kind, const double* p, const double* g, double* out, double value, const double* rows,
                           int64_t count, int64_t K, int64_t stride, int threads) {
    sum<double>(kind, p, g, out, value, rows, count, K, stride, threads);
}
}
