// Where Newton's method on the dual of the assignment polytope stands: the potentials of one matrix, and what they leave.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "row_threshold.h"
#include "wide.h"

namespace omegamax {

// What potentials leave of the scores, rows of its positive part summing to one; and how far they have moved.
class DualState {
   public:
    std::vector<double> rest;           // [n, m]
    std::vector<double> rows, columns;  // [n], [m]
    std::vector<double> sums;           // [m], of the positive part of the rest

    void resize(int64_t n, int64_t m) {
        n_ = n, m_ = m;
        rest.resize(n * m);
        rows.assign(n, 0.0);
        columns.assign(m, 0.0);
        sums.resize(m);
        shift_.resize(m);
    }

    // Goes on from another state, or this one, with the potentials of the columns raised along a direction, but not below
    // their floor; the rows follow.
    void move_columns(const DualState& from, const double* direction, double length, const double* floor) {
        for (int64_t j = 0; j < m_; j++) {
            shift_[j] = std::max(length * direction[j], floor[j] - from.columns[j]);
            columns[j] = from.columns[j] + shift_[j];
        }
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) rest[i * m_ + j] = from.rest[i * m_ + j] - shift_[j];
        rows = from.rows;
        minimise_rows();
    }

    void minimise_rows() {
        for (int64_t i = 0; i < n_; i++) {
            double* row = &rest[i * m_];
            const double shift = threshold_.find(row, m_);
            for (int64_t j = 0; j < m_; j++) row[j] -= shift;
            rows[i] += shift;
        }
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t i = 0; i < n_; i += BLOCK)
            add_positive(&rest[i * m_], std::min(BLOCK, n_ - i), m_, shift_.data(), sums.data());
    }

    // Half the squared norm of the positive part.
    double square() const {
        double sum = 0;
        for (double v : rest) sum += v > 0 ? v * v : 0;
        return sum / 2;
    }

   private:
    static constexpr int64_t BLOCK = 32;  // rows that are added up by themselves: the rounding of equal values adds up

    int64_t n_ = 0, m_ = 0;
    std::vector<double> shift_;
    RowThreshold threshold_;

    OMEGAMAX_WIDE static void add_positive(const double* rest, int64_t count, int64_t m, double* __restrict block,
                                           double* __restrict sums) {
        std::fill_n(block, m, 0.0);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < m; j++) block[j] += std::max(rest[i * m + j], 0.0);
        for (int64_t j = 0; j < m; j++) sums[j] += block[j];
    }
};

}  // namespace omegamax
