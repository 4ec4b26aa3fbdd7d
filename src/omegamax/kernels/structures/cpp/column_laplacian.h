// The Laplacian of the columns of one matrix that share a row of its support: Hessian of the dual in the potentials of
// the columns, and what the Jacobian of the projection is made of; ../column_laplacian.py has the formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "wide.h"

namespace omegamax {

// Columns joined by rows make components, each a block of its own. In a block, columns with few entries come first, so that
// elimination fills in little of it.
class ColumnLaplacian {
   public:
    static constexpr int64_t NONE = -1;

    struct Component {
        int64_t begin, end;  // in order()
        bool adrift;         // joined to no fixed column: constants are in the null space
        int64_t block;       // where its matrix begins
        int64_t size() const { return end - begin - adrift; }  // of the matrix: one column of a component adrift is held
    };

    // Takes the support [n, m], and the columns that are free to move [m]; the others count for the rows only.
    void build(const uint8_t* support, const uint8_t* free, int64_t n, int64_t m) {
        n_ = n, m_ = m;
        list(support);
        join(free);
        arrange(free);
        fill();
        for (const Component& c : components_) factorise(blocks_.data() + c.block, c.size(), pivots_.data());
    }

    // Solves for the potentials [m] that the sums [m] of the columns ask for: 0 for fixed columns, and in components
    // adrift, where the sums must add up to 0, of mean 0. The residual is a sum of differences of potentials and so has
    // digits of its own: what it asks for corrects the rounding of the elimination.
    void solve(const double* sums, double* potentials) {
        std::fill_n(potentials, m_, 0.0);
        left_.assign(sums, sums + m_);
        for (int pass = 0; pass < 2; pass++) {
            for (const Component& c : components_) correct(c, potentials);
            if (pass == 0) subtract(potentials);
        }
    }

    const std::vector<Component>& components() const { return components_; }
    const std::vector<int64_t>& order() const { return order_; }  // the free columns, component by component
    int64_t of_column(int64_t j) const { return component_[j]; }  // or NONE
    int64_t of_row(int64_t i) const {
        for (int64_t a = begin_[i]; a < begin_[i + 1]; a++)
            if (component_[columns_[a]] != NONE) return component_[columns_[a]];
        return NONE;
    }

    // The columns of row i of the support.
    const int64_t* row_begin(int64_t i) const { return columns_.data() + begin_[i]; }
    const int64_t* row_end(int64_t i) const { return columns_.data() + begin_[i + 1]; }

   private:
    static constexpr double NO_PIVOT = 1e-12;  // of ones and their shares

    int64_t n_ = 0, m_ = 0;
    std::vector<int64_t> begin_, columns_;  // of the rows of the support
    std::vector<int64_t> degree_;           // rows of each column
    std::vector<int64_t> parent_;           // of columns that are joined, a forest
    std::vector<int64_t> component_;        // of each column
    std::vector<int64_t> order_, place_;    // the columns, and the place of each in its block
    std::vector<uint8_t> held_;             // components with a row that has a fixed column
    std::vector<Component> components_;
    std::vector<double> blocks_, pivots_, left_, x_;

    void list(const uint8_t* support) {
        begin_.assign(1, 0);
        columns_.clear();
        degree_.assign(m_, 0);
        for (int64_t i = 0; i < n_; i++) {
            for (int64_t j = 0; j < m_; j++)
                if (support[i * m_ + j]) columns_.push_back(j), degree_[j]++;
            begin_.push_back(int64_t(columns_.size()));
        }
    }

    int64_t root(int64_t j) {
        while (parent_[j] != j) j = parent_[j] = parent_[parent_[j]];
        return j;
    }

    void join(const uint8_t* free) {
        parent_.resize(m_);
        std::iota(parent_.begin(), parent_.end(), 0);
        for (int64_t i = 0; i < n_; i++) {
            int64_t first = NONE;
            for (const int64_t* j = row_begin(i); j != row_end(i); j++) {
                if (!free[*j]) continue;
                if (first == NONE) first = *j;
                else parent_[root(*j)] = root(first);
            }
        }
    }

    void arrange(const uint8_t* free) {
        component_.assign(m_, NONE);
        order_.clear();
        int64_t count = 0;
        for (int64_t j = 0; j < m_; j++) {
            if (!free[j]) continue;
            order_.push_back(j);
            int64_t& its = component_[root(j)];
            if (its == NONE) its = count++;
            component_[j] = its;
        }
        std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
            if (component_[a] != component_[b]) return component_[a] < component_[b];
            return degree_[a] != degree_[b] ? degree_[a] < degree_[b] : a < b;
        });
        held_.assign(count, false);
        for (int64_t i = 0; i < n_; i++)
            if (of_row(i) != NONE)
                held_[of_row(i)] |= std::any_of(row_begin(i), row_end(i), [&](int64_t j) { return !free[j]; });
        components_.clear();
        place_.resize(m_);
        int64_t block = 0;
        for (int64_t c = 0, begin = 0, end; c < count; c++, begin = end) {
            for (end = begin; end < int64_t(order_.size()) && component_[order_[end]] == c; end++)
                place_[order_[end]] = end - begin;
            components_.push_back({begin, end, !held_[c], block});
            block += components_.back().size() * components_.back().size();
        }
        blocks_.assign(block, 0.0);
        pivots_.resize(m_);
    }

    // Each row joins its columns: 1 for a column itself, less the share of each of them.
    void fill() {
        for (int64_t i = 0; i < n_; i++) {
            const int64_t c = of_row(i);
            if (c == NONE) continue;
            const int64_t size = components_[c].size();
            double* block = blocks_.data() + components_[c].block;
            const double share = 1 / double(begin_[i + 1] - begin_[i]);
            for (const int64_t* j = row_begin(i); j != row_end(i); j++) {
                if (component_[*j] == NONE || place_[*j] >= size) continue;
                double* line = block + place_[*j] * size;
                line[place_[*j]] += 1;
                for (const int64_t* k = row_begin(i); k != row_end(i); k++)
                    if (component_[*k] != NONE && place_[*k] <= place_[*j]) line[place_[*k]] -= share;
            }
        }
    }

    // L D L^T in place, with the inverse of D on the diagonal. Without roots, so that simple shares stay exact.
    OMEGAMAX_WIDE static void factorise(double* __restrict block, int64_t size, double* __restrict column) {
        for (int64_t k = 0; k < size; k++) {
            const double pivot = block[k * size + k];
            const double inverse = pivot > NO_PIVOT ? 1 / pivot : 0;  // by rounding alone; does not move
            block[k * size + k] = inverse;
            for (int64_t i = k + 1; i < size; i++) column[i] = block[i * size + k];
            for (int64_t i = k + 1; i < size; i++) {
                if (column[i] == 0) continue;
                double* line = block + i * size;
                const double factor = line[k] = column[i] * inverse;
                for (int64_t j = k + 1; j <= i; j++) line[j] -= factor * column[j];
            }
        }
    }

    // Moves the potentials of a component by what is left of the sums.
    void correct(const Component& c, double* potentials) {
        x_.resize(c.end - c.begin);
        for (int64_t a = c.begin; a < c.end; a++) x_[a - c.begin] = left_[order_[a]];
        substitute(blocks_.data() + c.block, c.size(), x_.data());
        if (c.adrift) {
            x_.back() = 0;
            const double mean = std::accumulate(x_.begin(), x_.end(), 0.0) / double(x_.size());
            for (double& x : x_) x -= mean;
        }
        for (int64_t a = c.begin; a < c.end; a++) potentials[order_[a]] += x_[a - c.begin];
    }

    // Takes what potentials move off the sums.
    void subtract(const double* potentials) {
        for (int64_t i = 0; i < n_; i++) {
            double mean = 0;
            for (const int64_t* j = row_begin(i); j != row_end(i); j++) mean += potentials[*j];
            mean /= double(begin_[i + 1] - begin_[i]);
            for (const int64_t* j = row_begin(i); j != row_end(i); j++) left_[*j] -= potentials[*j] - mean;
        }
    }

    static void substitute(const double* block, int64_t size, double* x) {
        for (int64_t i = 0; i < size; i++)
            for (int64_t k = 0; k < i; k++) x[i] -= block[i * size + k] * x[k];
        for (int64_t i = 0; i < size; i++) x[i] *= block[i * size + i];
        for (int64_t i = size - 1; i >= 0; i--)
            for (int64_t k = 0; k < i; k++) x[k] -= block[i * size + k] * x[i];
    }
};

}  // namespace omegamax
