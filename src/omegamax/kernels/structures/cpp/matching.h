// The projection of a matrix onto the assignment polytope by Newton's method on its dual, one matrix at a time; the
// problem, and why this ends at the exact solution, are in ../matching.py, whose steps these are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "assignment.h"
#include "column_laplacian.h"
#include "dual_state.h"

namespace omegamax {

class Matching {
   public:
    struct Report {
        int64_t iterations = 0;
        double residual = std::numeric_limits<double>::infinity();  // what the worst column is away from its sum
    };

    // Projects scores [n, m], n <= m. rows [n] and columns [m] hold first potentials if `warm`, and get the last ones.
    Report project(const double* scores, int64_t n, int64_t m, bool warm, double tol, int64_t max_iter, double* rows,
                   double* columns, double* marginals) {
        n_ = n, m_ = m;
        Report report;
        const double scale = load(scores);
        const double noise = 8 * double(m) * EPS * size_;
        if (!begin(warm, scale, rows, columns)) {
            std::fill_n(marginals, n * m, std::numeric_limits<double>::quiet_NaN());
            return report;
        }
        // In the second round, from the rounding of the scores, where the first steps were long.
        for (const bool again : {false, true}) {
            state_.resize(n, m);
            floor_.assign(m, -INFINITE);
            if (n < m) std::transform(columns, columns + m, floor_.begin(), [](double b) { return -b; });
            subtract(rows, columns, noise > MAX_ROUNDING ? noise : 0);
            state_.minimise_rows();
            if (!warm && !again)
                for (int s = 0; s < SWEEPS; s++) sweep();
            newton(tol, max_iter, report);
            for (int64_t i = 0; i < n; i++) rows[i] += state_.rows[i];
            for (int64_t j = 0; j < m; j++) columns[j] += state_.columns[j];
        }
        // An entry that only rounding keeps above 0 would count as one of the support.
        for (int64_t at = 0; at < n * m; at++) marginals[at] = state_.rest[at] > 16 * EPS ? state_.rest[at] : 0;
        for (int64_t i = 0; i < n; i++) rows[i] /= scale;
        for (int64_t j = 0; j < m; j++) columns[j] /= scale;
        return report;
    }

   private:
    // As in ../matching.py.
    static constexpr double MAX_RANGE = 100, MAX_SCORE = 1e300, MAX_ROUNDING = 1e-3, ARMIJO = 0.1, REACH = 0.5;
    static constexpr double UNBALANCED = 1e-9;
    static constexpr int SWEEPS = 4, MAX_HALVINGS = 30, EXACT_STEPS = 2;
    static constexpr double EPS = std::numeric_limits<double>::epsilon();
    static constexpr double INFINITE = std::numeric_limits<double>::infinity();

    int64_t n_ = 0, m_ = 0;
    double size_ = 0;             // of the largest score
    std::vector<double> scores_;  // scaled
    std::vector<double> floor_;   // how far down the columns may go
    std::vector<double> excess_;  // of the sums of the columns, 0 where those at their bound hold less than one
    std::vector<double> direction_, column_, surplus_, below_, above_;
    std::vector<uint8_t> support_, free_;
    DualState state_, trial_;
    Assignment assignment_;
    ColumnLaplacian laplacian_;
    RowThreshold threshold_;

    // Of scores that large it only matters which matchings are best, and sums of the largest numbers there are overflow.
    double load(const double* scores) {
        size_ = 0;
        for (int64_t at = 0; at < n_ * m_; at++)
            if (scores[at] > -INFINITE) size_ = std::max(size_, std::abs(scores[at]));
        const double scale = size_ > MAX_SCORE ? std::ldexp(1.0, -64) : 1;
        size_ *= scale;
        scores_.resize(n_ * m_);
        for (int64_t at = 0; at < n_ * m_; at++) scores_[at] = scores[at] * scale;
        return scale;
    }

    // Newton's method finds its way among scores of order one. Where they are larger, or some are forbidden, it starts
    // from the potentials of the best matching. Returns whether there is one.
    bool begin(bool warm, double scale, double* rows, double* columns) {
        const auto [least, largest] = std::minmax_element(scores_.begin(), scores_.end());
        if (!(*largest - *least <= MAX_RANGE)) return assignment_.solve(scores_.data(), n_, m_, rows, columns);
        for (int64_t i = 0; i < n_; i++) rows[i] = warm ? rows[i] * scale : 0;
        for (int64_t j = 0; j < m_; j++)
            columns[j] = !warm ? 0 : n_ == m_ ? columns[j] * scale : std::max(columns[j] * scale, 0.0);
        return true;
    }

    // Rounded to more than a probability, a difference that ought to be 0 would decide all of them.
    void subtract(const double* rows, const double* columns, double noise) {
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) {
                const double rest = scores_[i * m_ + j] - rows[i] - columns[j];
                state_.rest[i * m_ + j] = std::abs(rest) <= noise ? 0 : rest;
            }
    }

    void newton(double tol, int64_t max_iter, Report& report) {
        for (int64_t step = 0;; step++) {
            report.residual = measure();
            if (!(report.residual > tol && step < max_iter)) return;
            report.iterations++;
            advance(step < EXACT_STEPS ? 0 : REACH * report.residual);
        }
    }

    // What the columns hold beyond one, and which of them are free to move.
    double measure() {
        excess_.resize(m_);
        free_.resize(m_);
        double most = 0;
        for (int64_t j = 0; j < m_; j++) {
            const double excess = state_.sums[j] - 1;
            free_[j] = !(state_.columns[j] <= floor_[j] && excess < 0);
            excess_[j] = free_[j] ? excess : 0;
            most = std::max(most, std::abs(excess_[j]));
        }
        return most;
    }

    // Minimises over the columns, then over the rows.
    void sweep() {
        direction_.resize(m_);
        column_.resize(n_);
        for (int64_t j = 0; j < m_; j++) {
            for (int64_t i = 0; i < n_; i++) column_[i] = state_.rest[i * m_ + j];
            direction_[j] = threshold_.find(column_.data(), n_);
        }
        state_.move_columns(state_, direction_.data(), 1, floor_.data());
    }

    // Steps in Newton's direction, halved until it lowers the dual; sweeps where no length does.
    void advance(double reach) {
        direct(reach);
        const double value = state_.square();
        trial_.resize(n_, m_);
        double length = 1;
        for (int halving = 0; halving < MAX_HALVINGS; halving++, length /= 2) {
            trial_.move_columns(state_, direction_.data(), length, floor_.data());
            // Differences of potentials and squares of probabilities: nothing large in them.
            double change = trial_.square() - value, promised = 0, slope = 0;
            for (int64_t i = 0; i < n_; i++) change += trial_.rows[i] - state_.rows[i];
            for (int64_t j = 0; j < m_; j++) {
                const double taken = trial_.columns[j] - state_.columns[j];
                change += taken;
                promised -= taken * excess_[j];
                slope -= taken * (trial_.sums[j] - 1);
            }
            // A slope that points down says that a convex function has fallen, with fewer roundings than its values.
            if (promised < 0 && (change <= ARMIJO * promised || slope <= 0)) return std::swap(state_, trial_);
        }
        sweep();
    }

    // Newton's direction for the columns; entries within reach of the support count as its own. Components adrift can move
    // at no cost: they go up or down together until they meet an entry outside.
    void direct(double reach) {
        support_.resize(n_ * m_);
        for (int64_t at = 0; at < n_ * m_; at++) support_[at] = state_.rest[at] > -reach;
        laplacian_.build(support_.data(), free_.data(), n_, m_);
        const auto& components = laplacian_.components();
        surplus_.assign(components.size(), 0.0);
        bool unbalanced = false;
        for (size_t c = 0; c < components.size(); c++) {
            if (!components[c].adrift) continue;
            for_columns(components[c], [&](int64_t j) { surplus_[c] += excess_[j]; });
            surplus_[c] /= double(components[c].end - components[c].begin);
            for_columns(components[c], [&](int64_t j) { excess_[j] -= surplus_[c]; });
            unbalanced |= std::abs(surplus_[c]) > UNBALANCED;
        }
        direction_.resize(m_);
        laplacian_.solve(excess_.data(), direction_.data());
        if (unbalanced) find_outside();
        for (size_t c = 0; c < components.size(); c++) {
            double move = surplus_[c];
            if (std::abs(surplus_[c]) > UNBALANCED) {
                const double gap = std::max(surplus_[c] < 0 ? -below_[c] : -above_[c], 0.0);
                if (gap < INFINITE) move += std::copysign(gap, surplus_[c]);
            }
            for_columns(components[c], [&](int64_t j) { direction_[j] += move, excess_[j] += surplus_[c]; });
        }
    }

    // The largest entries that components meet when they go down, of their columns and the rows of others, and up.
    void find_outside() {
        below_.assign(laplacian_.components().size(), -INFINITE);
        above_ = below_;
        for (int64_t i = 0; i < n_; i++) {
            const int64_t mine = laplacian_.of_row(i);
            for (int64_t j = 0; j < m_; j++) {
                const int64_t its = laplacian_.of_column(j);
                if (its == mine) continue;
                const double rest = state_.rest[i * m_ + j];
                if (its != ColumnLaplacian::NONE) below_[its] = std::max(below_[its], rest);
                if (mine != ColumnLaplacian::NONE) above_[mine] = std::max(above_[mine], rest);
            }
        }
    }

    template <class Work>
    void for_columns(const ColumnLaplacian::Component& component, Work work) const {
        for (int64_t a = component.begin; a < component.end; a++) work(laplacian_.order()[a]);
    }
};

}  // namespace omegamax
