// Sequences of n labels out of s: Viterbi's algorithm, O(n s^2).
#pragma once

#include "oracle.h"

namespace omegamax {

// Additional scores: start [s], transition [n - 1, s (from), s (to)], end [s].
class Sequences : public Oracle {
   public:
    Sequences(int64_t n, int64_t s) : n_(n), s_(s), value_(n * s) {}

    int64_t most_ones() const override { return n_; }
    int64_t most_extras() const override { return n_ ? n_ + 1 : 0; }
    int64_t additional() const override { return n_ ? 2 * s_ + (n_ - 1) * s_ * s_ : 0; }

    int64_t maximize(const double* unary, const double* extra, Index* ones) override {
        if (n_ == 0) return 0;
        const double *transition = extra + s_, *end = transition + (n_ - 1) * s_ * s_;
        for (int64_t b = 0; b < s_; b++) value_[b] = extra[b] + unary[b];
        for (int64_t t = 1; t < n_; t++) {
            const double* before = value_.data() + (t - 1) * s_;
            double* __restrict now = value_.data() + t * s_;
            const double* from = transition + (t - 1) * s_ * s_;
            for (int64_t b = 0; b < s_; b++) now[b] = before[0] + from[b];
            for (int64_t a = 1; a < s_; a++) {
                from += s_;
                const double sofar = before[a];
                for (int64_t b = 0; b < s_; b++) now[b] = sofar + from[b] > now[b] ? sofar + from[b] : now[b];
            }
            for (int64_t b = 0; b < s_; b++) now[b] += unary[t * s_ + b];
        }
        // Back along the best sequence alone: which label the maximum came from is cheaper to find again than to keep.
        int64_t label = best(value_.data() + (n_ - 1) * s_, end, 1);
        if (label < 0) return -1;
        ones[n_ - 1] = Index((n_ - 1) * s_ + label);
        for (int64_t t = n_ - 2; t >= 0; t--) {
            label = best(value_.data() + t * s_, transition + t * s_ * s_ + label, s_);
            ones[t] = Index(t * s_ + label);
        }
        return n_;
    }

    int64_t extras(const Index* ones, int64_t, Index* out) const override {
        if (n_ == 0) return 0;
        out[0] = ones[0];
        for (int64_t t = 1; t < n_; t++) {
            const int64_t a = ones[t - 1] - (t - 1) * s_, b = ones[t] - t * s_;
            out[t] = Index(s_ + ((t - 1) * s_ + a) * s_ + b);
        }
        out[n_] = Index(s_ + (n_ - 1) * s_ * s_ + ones[n_ - 1] - (n_ - 1) * s_);
        return n_ + 1;
    }

    bool valid(const Index* ones, int64_t count) override {
        if (count != n_) return false;
        for (int64_t t = 0; t < n_; t++)
            if (ones[t] / s_ != t) return false;
        return true;
    }

    void centre(double* unary, double* extra, Index*) override {
        if (n_ == 0) return;
        centre_groups(unary, n_, s_);
        centre_groups(extra, 1, s_);
        centre_groups(extra + s_, n_ - 1, s_ * s_);
        centre_groups(extra + s_ + (n_ - 1) * s_ * s_, 1, s_);
    }

   private:
    const int64_t n_, s_;
    std::vector<double> value_;  // of the best sequence up to here that ends in each label

    int64_t best(const double* value, const double* next, int64_t stride) const {
        double top = FORBIDDEN;
        int64_t where = -1;
        for (int64_t a = 0; a < s_; a++) {
            const double v = value[a] + next[a * stride];
            if (v > top) top = v, where = a;
        }
        return where;
    }
};

}  // namespace omegamax
