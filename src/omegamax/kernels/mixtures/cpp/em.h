// Expectation-maximisation, and its gradient: the entry points, and the loop over rows and threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../cpp/threads.h"
#include "mixture_row.h"

namespace omegamax {

// Calls work(fitted, row) for all rows, with a MixtureRow for each thread.
template <int N, class Work>
void for_rows(const MixtureData &data, int threads, Work work) {
    std::vector<MixtureRow<N>> fitted(std::min<int64_t>(threads, data.rows), MixtureRow<N>(data));
    for_each(data.rows, threads, [&](int64_t row, int thread) { work(fitted[thread], row); });
}

template <int N>
void fit_mixtures(const MixtureData &data, double *states, double *values, int threads) {
    for_rows<N>(data, threads, [&](MixtureRow<N> &fitted, int64_t row) { values[row] = fitted.fit(row, states); });
}

template <int N>
void differentiate_mixtures(const MixtureData &data, const double *states, double *gradient, double *out, int threads) {
    const int64_t size = data.components * Component<N>::F;
    for_rows<N>(data, threads, [&](MixtureRow<N> &fitted, int64_t row) {
        fitted.differentiate(row, states, gradient + row * size, out + row * data.length);
    });
}

}  // namespace omegamax

// dimension is 1 or 2
extern "C" void omegamax_em(
    const double *x, const double *weights, const int64_t *labels, const double *floor, const double *spread,
    double *states, double *values, int64_t x_stride, int64_t examples, int64_t rows, int64_t length,
    int64_t components, int64_t iterations, int64_t dimension, int threads
) {
    const omegamax::MixtureData data{x, weights, labels, floor, spread, x_stride, examples, rows, length, components,
                                     iterations};
    if (dimension == 1) omegamax::fit_mixtures<1>(data, states, values, threads);
    else omegamax::fit_mixtures<2>(data, states, values, threads);
}

extern "C" void omegamax_em_vjp(
    const double *x, const double *weights, const int64_t *labels, const double *floor, const double *spread,
    const double *states, double *gradient, double *out, int64_t x_stride, int64_t examples, int64_t rows,
    int64_t length, int64_t components, int64_t iterations, int64_t dimension, int threads
) {
    const omegamax::MixtureData data{x, weights, labels, floor, spread, x_stride, examples, rows, length, components,
                                     iterations};
    if (dimension == 1) omegamax::differentiate_mixtures<1>(data, states, gradient, out, threads);
    else omegamax::differentiate_mixtures<2>(data, states, gradient, out, threads);
}
