// The Jacobian of the projection onto the assignment polytope, one matrix at a time; ../matching_jacobian.py has the
// formulas.
#pragma once

#include "column_laplacian.h"

namespace omegamax {

class MatchingJacobian {
   public:
    // Takes changes of scores [n, m] to those of marginals, with this support and these full columns.
    void apply(const double* change, const uint8_t* support, const uint8_t* full, int64_t n, int64_t m, double* out) {
        laplacian_.build(support, full, n, m);
        std::fill_n(out, n * m, 0.0);
        sums_.assign(m, 0.0);
        potentials_.resize(m);
        for (int64_t i = 0; i < n; i++) {
            centre(i, [&](int64_t j) { return change[i * m + j]; }, out + i * m);
            for (const int64_t* j = laplacian_.row_begin(i); j != laplacian_.row_end(i); j++) sums_[*j] += out[i * m + *j];
        }
        laplacian_.solve(sums_.data(), potentials_.data());
        for (int64_t i = 0; i < n; i++) centre(i, [&](int64_t j) { return -potentials_[j]; }, out + i * m);
    }

   private:
    ColumnLaplacian laplacian_;
    std::vector<double> sums_, potentials_;

    // Adds values on the support of a row, less their mean.
    template <class Value>
    void centre(int64_t i, Value value, double* out) const {
        const int64_t *begin = laplacian_.row_begin(i), *end = laplacian_.row_end(i);
        double mean = 0;
        for (const int64_t* j = begin; j != end; j++) mean += value(*j);
        mean /= double(end - begin);
        for (const int64_t* j = begin; j != end; j++) out[*j] += value(*j) - mean;
    }
};

}  // namespace omegamax
