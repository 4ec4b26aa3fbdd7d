// Linear assignment of one matrix by shortest augmenting paths, with potentials that prove it; ../assignment.py solves a
// batch in step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace omegamax {

class Assignment {
   public:
    // Finds potentials of the matching of largest score, a column for each row of scores [n, m], n <= m: scores <= rows +
    // columns, equal where matched, and columns >= 0. -inf forbids an entry. Returns whether there is a matching.
    bool solve(const double* scores, int64_t n, int64_t m, double* rows, double* columns) {
        std::fill_n(rows, n, 0.0);
        std::fill_n(columns, m, 0.0);
        row_of_.assign(m, NONE);
        column_of_.assign(n, NONE);
        for (int64_t row = 0; row < n; row++)
            if (!place(row, scores, m, rows, columns)) return false;
        return true;
    }

   private:
    static constexpr int64_t NONE = -1;
    static constexpr double UNREACHED = std::numeric_limits<double>::infinity();

    std::vector<int64_t> row_of_, column_of_;
    std::vector<int64_t> before_;  // the row before a column on the shortest path to it
    std::vector<double> length_;   // of that path
    std::vector<uint8_t> closed_;

    // Goes along the shortest path of reduced costs from a new row to a column without one; rows on the path move on.
    bool place(int64_t start, const double* scores, int64_t m, double* rows, double* columns) {
        before_.assign(m, NONE);
        length_.assign(m, UNREACHED);
        closed_.assign(m, false);
        double base = 0;
        int64_t column = NONE;
        for (int64_t row = start; row != NONE; row = row_of_[column]) {
            column = extend(row, base, scores + row * m, m, rows[row], columns);
            if (column == NONE) return false;
            base = length_[column];
            closed_[column] = true;
        }
        // The tree of the search moves so that the path costs nothing.
        rows[start] -= base;
        for (int64_t j = 0; j < m; j++) {
            if (!closed_[j]) continue;
            const double slack = base - length_[j];
            columns[j] += slack;
            if (row_of_[j] != NONE) rows[row_of_[j]] -= slack;
        }
        for (int64_t row = NONE; row != start;) {
            row = before_[column];
            row_of_[column] = row;
            std::swap(column_of_[row], column);
        }
        return true;
    }

    // Offers the columns what is reached from a row; returns the nearest that is open, if one can be reached.
    int64_t extend(int64_t row, double base, const double* scores, int64_t m, double potential, const double* columns) {
        int64_t nearest = NONE;
        double least = UNREACHED;
        for (int64_t j = 0; j < m; j++) {
            if (closed_[j]) continue;
            const double reach = base + (potential + columns[j] - scores[j]);
            if (reach < length_[j]) length_[j] = reach, before_[j] = row;
            if (length_[j] < least) least = length_[j], nearest = j;
        }
        return nearest;
    }
};

}  // namespace omegamax
