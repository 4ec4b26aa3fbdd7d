// The structures that a search for SparseMAP has in use, and the weights that are best for them.
#pragma once

#include <numeric>

#include "factor.h"
#include "pool.h"

namespace omegamax {

// max over xi in the simplex of <M xi, eta> + <c, xi> - 1/2 |M xi|^2, the columns of M the structures' ones and c their
// additional scores, summed. The structures in use have positive weights xi and are affinely independent, so that
// K = M^T M + 1 1^T is regular. Wolfe, Mathematical Programming 11 (1976); Niculae et al. (ICML 2018), Sec. 3.2.
class WeightedStructures {
   protected:
    // m: how many additional scores there are, or 0 where they all are zero.
    WeightedStructures(Oracle& oracle, int64_t n, int64_t m)
        : oracle_(oracle), n_(n), m_(m), pool_(oracle, n), score_(n), slope_(n), cover_(n), extra_(oracle.additional()),
          common_(pool_.width()) {}

    static constexpr double EPS = std::numeric_limits<double>::epsilon();
    static constexpr double NO_WEIGHT = 1e-14;    // what rounding cannot tell from zero: a weight,
    static constexpr double NO_DISTANCE = 1e-10;  // and a squared distance from the affine hull, relative
    static constexpr double ROUNDING = 16 * EPS;  // of a sum of scores, relative to the sum of their sizes
    static constexpr double NEGLIGIBLE = 1e-6;    // next to the largest difference of gains
    static constexpr int REFINEMENTS = 4;         // full steps to the best weights

    Oracle& oracle_;
    const int64_t n_, m_;
    Pool pool_;
    std::vector<double> score_;       // eta
    std::vector<double> slope_;       // eta - M xi
    std::vector<Index> cover_;        // how many of the structures in use have a one here
    std::vector<double> extra_;       // additional scores
    std::vector<Index> common_;       // the parts that all structures in use have
    int64_t commons_ = 0;

    // Structures in use, in the order in which they came.
    std::vector<Index> active_;  // slot
    std::vector<double> weight_;
    std::vector<double> gain_;   // score at the slope, less what they share
    std::vector<double> row_, step_;
    Factor factor_;
    double level_ = 0;           // the mean gain; at the best weights all gains are equal
    double rounding_ = 0;        // of gains
    bool exact_ = true;          // nothing was taken out of the factor since it was begun

    int64_t used() const { return int64_t(active_.size()); }

    void clear() {
        active_.clear();
        weight_.clear();
        gain_.clear();
        factor_.clear();
        exact_ = true;
        pool_.clear();
        std::fill(cover_.begin(), cover_.end(), 0);
    }

    // A structure's row of the factor, into row_, were it to come after the first `count` of those in use; returns its
    // squared distance from their affine hull, or what counts as such.
    double border(Index slot, int64_t count) {
        row_.resize(pool_.slots());
        step_.resize(pool_.slots());
        for (int64_t a = 0; a < count; a++) row_[a] = pool_.overlap(slot, active_[a]) + 1;
        return factor_.border(row_.data(), pool_.count(slot) + 1.0);
    }

    bool apart(Index slot, double distance) const { return distance > NO_DISTANCE * (pool_.count(slot) + 1.0); }

    // After border(); the slot is no longer free.
    void take_in(Index slot, double distance, double weight) {
        factor_.push(row_.data(), distance);
        active_.push_back(slot);
        weight_.push_back(weight);
        gain_.push_back(0);
        count_ones(slot, 1);
    }

    void leave(int64_t a) {
        count_ones(active_[a], -1);
        pool_.give_back(active_[a]);
        active_.erase(active_.begin() + a);
        weight_.erase(weight_.begin() + a);
        gain_.erase(gain_.begin() + a);
    }

    void drop(int64_t a) {
        factor_.erase(a);
        exact_ = false;
        leave(a);
    }

    void drop_weightless(int64_t keep) {
        for (int64_t a = used() - 1; a >= 0 && used() > keep; a--)
            if (weight_[a] <= NO_WEIGHT) drop(a);
    }

    void count_ones(Index slot, Index by) {
        for (const Index* i = pool_.begin(slot); i != pool_.end(slot); i++) cover_[*i] += by;
    }

    // The factor, anew. Whoever turns out to depend on others leaves.
    void rebuild() {
        factor_.clear();
        for (int64_t a = 0; a < used();) {
            const double distance = border(active_[a], a);
            if (apart(active_[a], distance)) factor_.push(row_.data(), distance), a++;
            else leave(a);
        }
        exact_ = true;
        normalise();
        measure();
    }

    void normalise() {
        const double sum = std::accumulate(weight_.begin(), weight_.end(), 0.0);
        for (double& w : weight_) w /= sum;
    }

    // Slope, gains and their level. A part that all structures have is left out: however large its score, it says nothing.
    void measure() {
        const int64_t count = used();
        std::copy(score_.begin(), score_.end(), slope_.begin());
        for (int64_t a = 0; a < count; a++)
            for (const Index *i = pool_.begin(active_[a]), *end = pool_.end(active_[a]); i != end; i++)
                slope_[*i] -= weight_[a];
        commons_ = 0;
        for (const Index* i = pool_.begin(active_[0]); i != pool_.end(active_[0]); i++)
            if (cover_[*i] == count) common_[commons_++] = *i;
        for (int64_t i = 0; i < commons_; i++) slope_[common_[i]] = 0;
        double most = 0;
        for (int64_t a = 0; a < count; a++) {
            const Index slot = active_[a];
            double size;
            gain_[a] = pool_.sum(slot, slope_.data(), size) + pool_.bonus(slot);
            most = std::max(most, size + pool_.bonus_size(slot) + pool_.count(slot));
        }
        for (int64_t i = 0; i < commons_; i++) slope_[common_[i]] = score_[common_[i]] - 1;
        rounding_ = ROUNDING * most;
        level_ = 0;
        for (int64_t a = 0; a < count; a++) level_ += weight_[a] * gain_[a];
    }

    // Towards the weights at which all gains are equal, until one is zero: that structure leaves, and so on. Returns
    // false where it is one just taken in, which gains in exact arithmetic: rounding is all that is left.
    bool descend() {
        for (int full = 0; full < REFINEMENTS;) {
            double spread = 0;
            for (double g : gain_) spread = std::max(spread, std::abs(g - level_));
            if (used() == 1 || spread <= rounding_) break;
            if (full == 2 && !exact_) rebuild();
            const int64_t count = used();
            // What is rounding next to the rest is none: mostly all but the last, which spares forward substitution.
            const double none = std::min(rounding_, NEGLIGIBLE * spread);
            for (int64_t a = 0; a < count; a++) {
                const double ahead = gain_[a] - level_;
                step_[a] = std::abs(ahead) <= none ? 0 : ahead;
            }
            factor_.solve_centred(step_.data());
            double length = 1;
            int64_t first = -1;
            for (int64_t a = 0; a < count; a++) {
                if (weight_[a] + step_[a] > NO_WEIGHT) continue;
                const double reach = step_[a] < 0 ? weight_[a] / -step_[a] : 0;
                if (first < 0 || reach < length) length = std::min(reach, 1.0), first = a;
            }
            const bool futile = first >= 0 && weight_[first] == 0, hopeless = futile && exact_;
            for (int64_t a = 0; a < count; a++) weight_[a] += length * step_[a];
            if (first < 0) full++;
            else weight_[first] = 0;
            drop_weightless(1);
            normalise();
            if (hopeless) return false;
            if (futile) rebuild();
            else measure();
        }
        return true;
    }
};

}  // namespace omegamax
