// Projective dependency trees: Eisner's algorithm, O(n^3).
#pragma once

#include "arborescence.h"

namespace omegamax {

// No two edges cross, those from the root (left of the sentence) included. Best values of a span i..j of words:
//   right_[i, j]  head i, its dependents to the right and theirs      right_arc_[i, j]  the same with j below i, open at j
//   left_[i, j]   head j, its dependents to the left and theirs       left_arc_[i, j]   the same with i below j, open at i
class ProjectiveTrees : public Trees {
   public:
    ProjectiveTrees(int64_t n, bool single_root)
        : Trees(n, single_root), right_(n * n), left_(n * n), right_arc_(n * n), left_arc_(n * n), between_(n),
          upto_(n + 1), below_root_(n) {
        todo_.reserve(2 * n + 2);
    }

    int64_t maximize(const double* unary, const double*, Index* ones) override {
        if (n_ == 0) return 0;
        fill(unary);
        return (single_ ? one_root(unary, ones) : roots(unary, ones)) ? n_ : -1;
    }

    bool valid(const Index* ones, int64_t count) override {
        if (!Trees::valid(ones, count)) return false;
        for (int64_t a = 0; a < n_; a++)
            for (int64_t b = 0; b < n_; b++)
                if (low(ones, a) < low(ones, b) && low(ones, b) < high(ones, a) && high(ones, a) < high(ones, b)) return false;
        return true;
    }

   private:
    enum Kind : uint8_t { RIGHT, LEFT, RIGHT_ARC, LEFT_ARC };
    struct Span {
        Kind kind;
        int64_t i, j;
    };
    std::vector<double> right_, left_, right_arc_, left_arc_, between_, upto_, below_root_;
    std::vector<Span> todo_;

    int64_t head(const Index* ones, int64_t m) const { return ones[m] % n_ == m ? -1 : ones[m] % n_; }
    int64_t low(const Index* ones, int64_t m) const { return std::min(head(ones, m), m); }
    int64_t high(const Index* ones, int64_t m) const { return std::max(head(ones, m), m); }

    // Row by row from the last word: what becomes known of row i at j is pushed to all later columns at once, in loops
    // over consecutive memory.
    void fill(const double* unary) {
        double* between = between_.data();  // right_[i, q] + left_[q + 1, j], over q
        for (int64_t i = n_ - 1; i >= 0; i--) {
            double *right = right_.data() + i * n_, *left = left_.data() + i * n_;
            right[i] = left[i] = 0;
            for (int64_t j = i + 1; j < n_; j++) {
                right[j] = left[j] = FORBIDDEN;
                between[j] = left_[(i + 1) * n_ + j];
            }
            for (int64_t j = i + 1; j < n_; j++) {
                const double down = between[j] + unary[j * n_ + i], up = between[j] + unary[i * n_ + j];
                right_arc_[i * n_ + j] = down;
                left_arc_[i * n_ + j] = up;
                right[j] = down > right[j] ? down : right[j];
                left[j] = up > left[j] ? up : left[j];
                if (j + 1 == n_) break;
                const double half = right[j], whole = left[j];
                const double* below = right_.data() + j * n_;
                const double* arcs = left_arc_.data() + j * n_;
                const double* next = left_.data() + (j + 1) * n_;
#pragma omp simd  // rows do not overlap
                for (int64_t k = j + 1; k < n_; k++) {
                    right[k] = down + below[k] > right[k] ? down + below[k] : right[k];
                    left[k] = whole + arcs[k] > left[k] ? whole + arcs[k] : left[k];
                    between[k] = half + next[k] > between[k] ? half + next[k] : between[k];
                }
            }
        }
    }

    // The sentence is cut into spans, one a word below the root.
    bool roots(const double* unary, Index* ones) {
        upto_[0] = 0;
        for (int64_t m = 0; m < n_; m++) {
            double best = FORBIDDEN;
            for (int64_t i = 0; i <= m; i++) best = std::max(best, upto_[i] + left_[i * n_ + m]);
            below_root_[m] = best + unary[m * n_ + m];
            best = FORBIDDEN;
            for (int64_t a = 0; a <= m; a++) best = std::max(best, below_root_[a] + right_[a * n_ + m]);
            upto_[m + 1] = best;
        }
        if (!(upto_[n_] > FORBIDDEN)) return false;
        for (int64_t end = n_; end > 0;) {
            const int64_t m = argmax(0, end, [&](int64_t a) { return below_root_[a] + right_[a * n_ + end - 1]; });
            const int64_t start = argmax(0, m + 1, [&](int64_t i) { return upto_[i] + left_[i * n_ + m]; });
            attach(m, start, end - 1, ones);
            end = start;
        }
        return true;
    }

    bool one_root(const double* unary, Index* ones) {
        auto value = [&](int64_t m) { return left_[m] + unary[m * n_ + m] + right_[m * n_ + n_ - 1]; };
        const int64_t m = argmax(0, n_, value);
        if (!(value(m) > FORBIDDEN)) return false;
        attach(m, 0, n_ - 1, ones);
        return true;
    }

    template <class Value>
    static int64_t argmax(int64_t begin, int64_t end, Value value) {
        int64_t best = begin;
        double top = value(begin);
        for (int64_t q = begin + 1; q < end; q++) {
            const double v = value(q);
            if (v > top) top = v, best = q;
        }
        return best;
    }

    // Word m below the root, over the span from start to end; then down from there.
    void attach(int64_t m, int64_t start, int64_t end, Index* ones) {
        ones[m] = Index(m * n_ + m);
        todo_.push_back({LEFT, start, m});
        todo_.push_back({RIGHT, m, end});
        while (!todo_.empty()) {
            const auto [kind, i, j] = todo_.back();
            todo_.pop_back();
            if (i == j) continue;
            const double *from_i = right_.data() + i * n_, *arcs = right_arc_.data() + i * n_, *to = left_.data() + i * n_;
            const int64_t last = j;
            if (kind == RIGHT) {
                const int64_t q = argmax(i + 1, j + 1, [&](int64_t k) { return arcs[k] + right_[k * n_ + last]; });
                todo_.push_back({RIGHT_ARC, i, q});
                todo_.push_back({RIGHT, q, j});
            } else if (kind == LEFT) {
                const int64_t q = argmax(i, j, [&](int64_t k) { return to[k] + left_arc_[k * n_ + last]; });
                todo_.push_back({LEFT, i, q});
                todo_.push_back({LEFT_ARC, q, j});
            } else {
                if (kind == RIGHT_ARC) ones[j] = Index(j * n_ + i);
                else ones[i] = Index(i * n_ + j);
                const int64_t q = argmax(i, j, [&](int64_t k) { return from_i[k] + left_[(k + 1) * n_ + last]; });
                todo_.push_back({RIGHT, i, q});
                todo_.push_back({LEFT, q + 1, j});
            }
        }
    }
};

}  // namespace omegamax
