// Subsets of k, or at most k, of n items: plain, and in a row where neighbours that are both chosen have a score.
#pragma once

#include <algorithm>
#include <utility>

#include "oracle.h"
#include "wide.h"

namespace omegamax {

class Subsets : public Oracle {
   public:
    Subsets(int64_t n, int64_t k, bool at_most) : n_(n), k_(k), at_most_(at_most), order_(n) {}

    int64_t most_ones() const override { return std::min(n_, k_); }

    // The k greatest, the first of equals; of those, if fewer will do, what is above zero.
    int64_t maximize(const double* unary, const double*, Index* ones) override {
        const double least = at_most_ ? 0 : FORBIDDEN;
        int64_t count = 0;
        for (int64_t i = 0; i < n_; i++)
            if (unary[i] > least) order_[count++] = Index(i);
        if (count < k_ && !at_most_) return -1;
        if (count > k_) {
            std::nth_element(order_.begin(), order_.begin() + k_, order_.begin() + count, [&](Index a, Index b) {
                return unary[a] > unary[b] || (unary[a] == unary[b] && a < b);
            });
            count = k_;
            std::sort(order_.begin(), order_.begin() + count);
        }
        std::copy_n(order_.begin(), count, ones);
        return count;
    }

    bool valid(const Index*, int64_t count) override { return at_most_ ? count <= k_ : count == k_; }

    void centre(double* unary, double* extra, Index* scratch) override {
        if (!at_most_) centre_equal(*this, unary, n_, extra, scratch);
    }

   protected:
    const int64_t n_, k_;
    const bool at_most_;
    std::vector<Index> order_;
};

// V_i(c, b): the best value of the first i items, c of them chosen, b whether the last is. O(n k).
class SequentialSubsets : public Subsets {
   public:
    SequentialSubsets(int64_t n, int64_t k, bool at_most)
        : Subsets(n, k, at_most), width_(std::min(n, k) + 1), room_((width_ + LANES - 1) / LANES * LANES),
          values_(4 * (LANES + room_)), came_(n * room_) {}

    int64_t most_extras() const override { return std::max<int64_t>(most_ones() - 1, 0); }
    int64_t additional() const override { return std::max<int64_t>(n_ - 1, 0); }

    int64_t maximize(const double* unary, const double* extra, Index* ones) override {
        if (k_ > n_ && !at_most_) return -1;
        const auto [off, on] = advance(unary, extra);
        int64_t c = width_ - 1;
        if (at_most_)
            for (int64_t a = width_ - 2; a >= 0; a--)
                if (std::max(off[a], on[a]) >= std::max(off[c], on[c])) c = a;
        if (!(std::max(off[c], on[c]) > FORBIDDEN)) return -1;
        const int64_t count = c;
        bool chosen = on[c] > off[c];
        for (int64_t i = n_ - 1; i >= 0 && c > 0; i--) {
            const uint8_t came = came_[i * room_ + c];
            if (chosen) ones[--c] = Index(i);
            chosen = chosen ? came >> 1 : came & 1;
        }
        return count;
    }

    int64_t extras(const Index* ones, int64_t count, Index* out) const override {
        int64_t pairs = 0;
        for (int64_t i = 1; i < count; i++)
            if (ones[i] == ones[i - 1] + 1) out[pairs++] = ones[i - 1];
        return pairs;
    }

   private:
    static constexpr int64_t LANES = 8;
    // Of values, which may lie anywhere; of what a comparison of them gives; and of flags.
    typedef double Values __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
    typedef int64_t Truths __attribute__((vector_size(8 * LANES)));
    typedef uint8_t Flags __attribute__((vector_size(LANES), aligned(1), may_alias));

    const int64_t width_, room_;  // how many counts there are; in whole vectors
    std::vector<double> values_;  // four times a value for each count, with a vector in front that stays forbidden
    std::vector<uint8_t> came_;   // whether the item before was chosen: bit 0 if this one is not, bit 1 if it is

    // Item by item the best values by count, the item chosen or not; returns those of the last one, not and chosen.
    OMEGAMAX_WIDE std::pair<const double*, const double*> advance(const double* unary, const double* extra) {
        std::fill(values_.begin(), values_.end(), FORBIDDEN);
        const int64_t stride = LANES + room_, most = width_ - 1;
        double *off = values_.data() + LANES, *on = off + stride, *next_off = on + stride, *next_on = next_off + stride;
        off[0] = 0;
        for (int64_t i = 0; i < n_; i++) {
            const double x = unary[i], pair = i ? extra[i - 1] : 0;
            uint8_t* came = came_.data() + i * room_;
            // Counts that i + 1 items can have, and from which the items left can still make k; and, to fill vectors,
            // some that nobody asks for.
            const int64_t low = at_most_ ? 0 : std::max<int64_t>(0, most - (n_ - 1 - i)), high = std::min(i + 1, most);
            for (int64_t c = low / LANES * LANES; c <= high; c += LANES) {
                const Values stays = *(const Values*)(off + c), was = *(const Values*)(on + c);
                const Values alone = *(const Values*)(off + c - 1), joined = *(const Values*)(on + c - 1) + pair;
                const Truths left = was > stays, more = joined > alone;
                *(Values*)(next_off + c) = left ? was : stays;
                *(Values*)(next_on + c) = x + (more ? joined : alone);
                *(Flags*)(came + c) = __builtin_convertvector((left & 1) | (more & 2), Flags);
            }
            std::swap(off, next_off);
            std::swap(on, next_on);
        }
        return {off, on};
    }
};

}  // namespace omegamax
