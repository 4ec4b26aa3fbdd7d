// Maps whose entries have bounds, and their vector-Jacobian products: the C interface. Rows lie one behind the other.
#pragma once

#include "../../rows/cpp/share.h"
#include "box_simplex.h"
#include "capped_softmax.h"

namespace {

using namespace omegamax;

template <class S>
void run_box_simplex(const S* z, S* p, Bound<S> lower, Bound<S> upper, double total, const double* totals, int64_t rows,
                 int64_t K, int threads) {
    share({rows, K, 1}, threads, [&](int64_t begin, int64_t end) {
        BoxSimplex<S> box(K);
        for (int64_t i = begin; i < end; i++)
            box.project({z + i * K, K}, lower.row(i), upper.row(i), totals ? totals[i] : total, p + i * K);
    });
}

template <class S>
void run_box_simplex_vjp(const S* p, const S* g, S* out, Bound<S> lower, Bound<S> upper, int64_t rows, int64_t K, int threads) {
    share({rows, K, 1}, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            box_simplex_vjp<S>({p + i * K, K}, lower.row(i), upper.row(i), g + i * K, out + i * K);
    });
}

template <class S>
void run_capped_softmax(const S* z, S* p, Bound<S> upper, int64_t rows, int64_t K, int threads) {
    share({rows, K, 1}, threads, [&](int64_t begin, int64_t end) {
        CappedSoftmax<S> map(K);
        for (int64_t i = begin; i < end; i++) map.solve({z + i * K, K}, upper.row(i), p + i * K);
    });
}

template <class S>
void run_capped_softmax_vjp(const S* p, const S* g, S* out, Bound<S> upper, int64_t rows, int64_t K, int threads) {
    share({rows, K, 1}, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            capped_softmax_vjp<S>({p + i * K, K}, upper.row(i), g + i * K, out + i * K);
    });
}

}  // namespace

// Of each bound: a pointer or null, the number where it is null, and the stride from row to row.
extern "C" {

void omegamax_bounds_box_simplex_f32(const float* z, float* p, const float* lower, double low, int64_t lower_stride,
                                     const float* upper, double high, int64_t upper_stride, double total,
                                     const double* totals, int64_t rows, int64_t K, int threads) {
    run_box_simplex<float>(z, p, {lower, low, lower_stride}, {upper, high, upper_stride}, total, totals, rows, K, threads);
}

void omegamax_bounds_box_simplex_f64(const double* z, double* p, const double* lower, double low, int64_t lower_stride,
                                     const double* upper, double high, int64_t upper_stride, double total,
                                     const double* totals, int64_t rows, int64_t K, int threads) {
    run_box_simplex<double>(z, p, {lower, low, lower_stride}, {upper, high, upper_stride}, total, totals, rows, K, threads);
}

void omegamax_bounds_box_simplex_vjp_f32(const float* p, const float* g, float* out, const float* lower, double low,
                                         int64_t lower_stride, const float* upper, double high, int64_t upper_stride,
                                         int64_t rows, int64_t K, int threads) {
    run_box_simplex_vjp<float>(p, g, out, {lower, low, lower_stride}, {upper, high, upper_stride}, rows, K, threads);
}

void omegamax_bounds_box_simplex_vjp_f64(const double* p, const double* g, double* out, const double* lower, double low,
                                         int64_t lower_stride, const double* upper, double high, int64_t upper_stride,
                                         int64_t rows, int64_t K, int threads) {
    run_box_simplex_vjp<double>(p, g, out, {lower, low, lower_stride}, {upper, high, upper_stride}, rows, K, threads);
}

void omegamax_bounds_capped_softmax_f32(const float* z, float* p, const float* upper, double high, int64_t upper_stride,
                                        int64_t rows, int64_t K, int threads) {
    run_capped_softmax<float>(z, p, {upper, high, upper_stride}, rows, K, threads);
}

void omegamax_bounds_capped_softmax_f64(const double* z, double* p, const double* upper, double high,
                                        int64_t upper_stride, int64_t rows, int64_t K, int threads) {
    run_capped_softmax<double>(z, p, {upper, high, upper_stride}, rows, K, threads);
}

void omegamax_bounds_capped_softmax_vjp_f32(const float* p, const float* g, float* out, const float* upper, double high,
                                            int64_t upper_stride, int64_t rows, int64_t K, int threads) {
    run_capped_softmax_vjp<float>(p, g, out, {upper, high, upper_stride}, rows, K, threads);
}

void omegamax_bounds_capped_softmax_vjp_f64(const double* p, const double* g, double* out, const double* upper,
                                            double high, int64_t upper_stride, int64_t rows, int64_t K, int threads) {
    run_capped_softmax_vjp<double>(p, g, out, {upper, high, upper_stride}, rows, K, threads);
}
}
