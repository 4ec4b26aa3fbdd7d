// The structures that a search holds.
#pragma once

#include <algorithm>
#include <cmath>

#include "oracle.h"

namespace omegamax {

// Structures in slots, with what they share: integers, so that a matrix made of them is exact.
class Pool {
   public:
    explicit Pool(Oracle& oracle, int64_t n)
        : oracle_(oracle), width_(std::max<int64_t>(oracle.most_ones(), 1)), mark_(n), parts_(oracle.most_extras()) {}

    int64_t width() const { return width_; }
    int64_t slots() const { return slots_; }

    Index* ones(Index slot) { return ones_.data() + slot * width_; }
    const Index* begin(Index slot) const { return ones_.data() + slot * width_; }
    const Index* end(Index slot) const { return begin(slot) + count_[slot]; }
    Index count(Index slot) const { return count_[slot]; }
    double overlap(Index a, Index b) const { return overlap_[a * slots_ + b]; }

    // The sum of a structure's additional scores, and of their sizes.
    double bonus(Index slot) const { return bonus_[slot]; }
    double bonus_size(Index slot) const { return bonus_size_[slot]; }

    // Its ones among the additional scores.
    std::pair<const Index*, const Index*> extras(Index slot) {
        return {parts_.data(), parts_.data() + oracle_.extras(begin(slot), count_[slot], parts_.data())};
    }

    void clear() {
        free_.clear();
        for (int64_t s = slots_ - 1; s >= 0; s--) free_.push_back(Index(s));
    }

    // A free slot, which stays free until it is taken.
    Index next() {
        if (free_.empty()) grow();
        return free_.back();
    }
    void take() { free_.pop_back(); }
    void give_back(Index slot) { free_.push_back(slot); }

    // Sums up the structure whose ones were written to a slot, next to those in use; whether it is one of these.
    bool describe(Index slot, int64_t count, const double* extra, const std::vector<Index>& used) {
        count_[slot] = Index(count);
        bonus_[slot] = bonus_size_[slot] = 0;
        for (auto [i, end] = extras(slot); i != end; i++) {
            bonus_[slot] += extra[*i];
            bonus_size_[slot] += std::abs(extra[*i]);
        }
        for (const Index* i = begin(slot); i != end(slot); i++) mark_[*i] = 1;
        bool known = false;
        for (Index other : used) {
            int both = 0;
            for (const Index *i = begin(other), *last = end(other); i != last; i++) both += mark_[*i];
            overlap_[slot * slots_ + other] = overlap_[other * slots_ + slot] = both;
            known |= both == count && both == count_[other];
        }
        overlap_[slot * slots_ + slot] = double(count);
        for (const Index* i = begin(slot); i != end(slot); i++) mark_[*i] = 0;
        return known;
    }

    // The sum of a vector over the ones of a structure, and of its sizes.
    double sum(Index slot, const double* values, double& size) const {
        const Index* i = begin(slot);
        const Index* last = end(slot);
        double sum[2] = {0, 0}, sizes[2] = {0, 0};  // two chains of additions in flight
        for (; i + 1 < last; i += 2) {
            const double v = values[i[0]], w = values[i[1]];
            sum[0] += v, sum[1] += w;
            sizes[0] += std::abs(v), sizes[1] += std::abs(w);
        }
        if (i < last) {
            sum[0] += values[*i];
            sizes[0] += std::abs(values[*i]);
        }
        size = sizes[0] + sizes[1];
        return sum[0] + sum[1];
    }

   private:
    Oracle& oracle_;
    const int64_t width_;
    int64_t slots_ = 0;
    std::vector<Index> ones_;  // [slot, width]
    std::vector<Index> count_;
    std::vector<double> bonus_, bonus_size_;
    std::vector<double> overlap_;  // [slot, slot]
    std::vector<Index> free_;
    std::vector<uint8_t> mark_;
    std::vector<Index> parts_;

    void grow() {
        const int64_t more = std::max<int64_t>(16, 2 * slots_);
        std::vector<double> overlap(more * more);
        for (int64_t s = 0; s < slots_; s++) std::copy_n(overlap_.data() + s * slots_, slots_, overlap.data() + s * more);
        overlap_.swap(overlap);
        ones_.resize(more * width_);
        count_.resize(more);
        bonus_.resize(more);
        bonus_size_.resize(more);
        for (int64_t s = more - 1; s >= slots_; s--) free_.push_back(Index(s));
        slots_ = more;
    }
};

}  // namespace omegamax
