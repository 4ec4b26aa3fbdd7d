// The directions in which the marginals of an active set can move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "factor.h"
#include "oracle.h"

namespace omegamax {

// Structures as lists of their ones, one after another, among the unary and among the additional scores.
struct Listed {
    const Index *ones, *ones_count, *extras, *extras_count;
    int64_t count;
};

// Rows H M^T and H N^T with H^T H the inverse of the overlaps, the structures measured from the first: the unary parts
// are orthonormal. Overlaps are integers, so that the factor is that of an exact matrix.
class FaceBasis {
   public:
    // rows: [count - 1, n + m], zero.
    void write(const Listed& structures, int64_t n, int64_t m, double* rows) {
        if (structures.count < 2) return;
        const int64_t others = structures.count - 1, width = n + m;
        list(structures, n);
        factor_.clear();
        row_.resize(others);
        for (int64_t a = 0; a < others; a++) {
            double* __restrict out = rows + a * width;
            for (int64_t b = 0; b < factor_.size(); b++) row_[b] = overlap(kept_[b], a);
            const double end = overlap(a, a), distance = factor_.border(row_.data(), end);
            // In the span of those before, as far as rounding can tell: no direction of its own.
            if (!(distance > NO_DISTANCE * end)) continue;
            scatter(structures.ones_count, unary_, a, 0, out);
            scatter(structures.extras_count, extras_, a, n, out);
            for (int64_t b = 0; b < factor_.size(); b++) subtract(row_[b], rows + kept_[b] * width, width, out);
            scale(1 / std::sqrt(distance), width, out);
            factor_.push(row_.data(), distance);
            kept_.push_back(a);
        }
    }

   private:
    static constexpr double NO_DISTANCE = 1e-10;  // as in weights.h

    Factor factor_;
    std::vector<double> row_;
    std::vector<int64_t> kept_;
    std::vector<const Index*> unary_, extras_;
    std::vector<int8_t> difference_;  // [structure but the first, n]
    int64_t n_ = 0;

    void list(const Listed& structures, int64_t n) {
        const Index *one = structures.ones, *extra = structures.extras;
        unary_.clear(), extras_.clear(), kept_.clear();
        for (int64_t a = 0; a < structures.count; a++) {
            unary_.push_back(one), extras_.push_back(extra);
            one += structures.ones_count[a], extra += structures.extras_count[a];
        }
        n_ = n;
        difference_.assign((structures.count - 1) * n, 0);
        for (int64_t a = 0; a + 1 < structures.count; a++) {
            int8_t* difference = difference_.data() + a * n;
            for (const Index* i = unary_[a + 1]; i != unary_[a + 1] + structures.ones_count[a + 1]; i++) difference[*i]++;
            for (const Index* i = unary_[0]; i != unary_[0] + structures.ones_count[0]; i++) difference[*i]--;
        }
    }

    OMEGAMAX_WIDE double overlap(int64_t a, int64_t b) const {
        const int8_t *x = difference_.data() + a * n_, *y = difference_.data() + b * n_;
        int32_t sum = 0;
        for (int64_t i = 0; i < n_; i++) sum += int32_t(x[i]) * y[i];
        return sum;
    }

    // Adds structure a + 1 less the first.
    static void scatter(const Index* count, const std::vector<const Index*>& list, int64_t a, int64_t offset, double* out) {
        for (const Index* i = list[a + 1]; i != list[a + 1] + count[a + 1]; i++) out[offset + *i] += 1;
        for (const Index* i = list[0]; i != list[0] + count[0]; i++) out[offset + *i] -= 1;
    }

    OMEGAMAX_WIDE void subtract(double by, const double* __restrict x, int64_t width, double* __restrict out) const {
        for (int64_t i = 0; i < width; i++) out[i] -= by * x[i];
    }

    OMEGAMAX_WIDE void scale(double by, int64_t width, double* out) const {
        for (int64_t i = 0; i < width; i++) out[i] *= by;
    }
};

}  // namespace omegamax
