// The next structure of a search for SparseMAP: the oracle is asked for one that gains over the present mixture.
#pragma once

#include "weights.h"

namespace omegamax {

class Pricing : protected WeightedStructures {
   protected:
    using WeightedStructures::WeightedStructures;

    std::vector<double> lean_, leaning_;

    void restart() {
        clear();
        calls_ = 0;
        long_ = false;
    }

    struct Offer {
        double gain;  // over the mixture
        double bar;   // what it must exceed to be more than rounding
        bool known;
    };

    // Whether a structure was taken in; the gain of the best, in any case.
    bool extend(double tol, double& gain) {
        const Index slot = pool_.next();
        calls_++;
        if (m_ && !long_ && calls_ > PATIENCE && 2 * calls_ > 3 * used()) {
            long_ = true;
            best_ = query_ = slope_;
            bound_ = std::numeric_limits<double>::infinity();
        }
        Offer offer;
        const double by = LEAN * largest_slope();
        const bool found = (ask(slot, leaning(long_ ? between() : slope_.data(), by), tol, offer) &&
                            offer.gain > std::max(offer.bar, 4 * by * double(pool_.width()))) ||
                           (ask(slot, slope_.data(), tol, offer) && offer.gain > offer.bar);
        gain = std::max(offer.gain, 0.0);
        if (!found) return false;
        const double distance = offer.known ? 0 : border(slot, used());
        if (apart(slot, distance)) {
            pool_.take();
            take_in(slot, distance, 0);
            gain_.back() = level_ + offer.gain;
            return true;
        }
        if (!offer.known && m_) return exchange(slot);
        // It cannot gain, in exact arithmetic: once more with a fresh factor, then that is that.
        if (exact_) return false;
        rebuild();
        return true;
    }

    // Slopes are equal wherever weights can still be exchanged, and so many structures are equally good. A lean that is
    // always the same decides between them, not rounding, lest the least change of the scores change the distribution.
    static constexpr double LEAN = 0x1p-26;

    const double* leaning(const double* slope, double by) {
        if (lean_.empty())
            for (int64_t i = 0; i < n_; i++) {
                const double r = 1e4 * std::sin(double(i + 1));  // scattered, and the same on every machine
                lean_.push_back(r - std::floor(r) - 0.5);
            }
        leaning_.resize(n_);
        for (int64_t i = 0; i < n_; i++) leaning_[i] = slope[i] + by * lean_[i];
        return leaning_.data();
    }

    double largest_slope() const {
        double most = 1;
        for (double v : slope_)
            if (v > FORBIDDEN) most = std::max(most, std::abs(v));
        return most;
    }

    // The best structure at a slope, into a slot.
    bool ask(Index slot, const double* slope, double tol, Offer& offer) {
        const int64_t count = oracle_.maximize(slope, extra_.data(), pool_.ones(slot));
        offer = {0, 0, false};
        if (count < 0) return false;
        offer.known = pool_.describe(slot, count, extra_.data(), active_);
        double size;
        offer.gain = lead(slot, size);
        offer.bar = tol * (1 + size) + std::max(rounding_, ROUNDING * (size + double(count)));
        if (long_) remember(slot, slope);
        return true;
    }

    // What the structure in a slot gains over the mixture, and the sum of the sizes of the terms.
    double lead(Index slot, double& size) const {
        double sum = pool_.bonus(slot) - level_;
        size = pool_.bonus_size(slot);
        int64_t shared = 0;
        for (const Index *i = pool_.begin(slot), *end = pool_.end(slot); i != end; i++) {
            // Both lists ascend: what is common and not here is met on the way.
            while (shared < commons_ && common_[shared] < *i) without(common_[shared++], sum, size);
            if (shared < commons_ && common_[shared] == *i) {
                shared++;
                continue;
            }
            sum += slope_[*i];
            size += std::abs(slope_[*i]);
        }
        while (shared < commons_) without(common_[shared++], sum, size);
        return sum;
    }

    void without(Index part, double& sum, double& size) const {
        sum -= slope_[part];
        size += std::abs(slope_[part]);
    }

    // A structure in the affine hull of the others: along the null vector the marginals stand still while the additional
    // scores gain, until a weight is zero.
    bool exchange(Index slot) {
        factor_.backward(row_.data());
        double length = std::numeric_limits<double>::infinity();
        int64_t first = -1;
        for (int64_t a = 0; a < used(); a++)
            if (row_[a] > NO_DISTANCE && weight_[a] / row_[a] < length) length = weight_[a] / row_[a], first = a;
        if (first < 0) return false;
        pool_.take();
        for (int64_t a = 0; a < used(); a++) weight_[a] -= length * row_[a];
        weight_[first] = 0;
        drop_weightless(0);
        double distance = border(slot, used());
        if (!apart(slot, distance)) {
            rebuild();
            distance = border(slot, used());
        }
        const bool fits = apart(slot, distance);
        if (fits) take_in(slot, distance, length);
        else pool_.give_back(slot);
        normalise();
        measure();
        return fits;
    }

    // ---- a long search

    // With additional scores that are small next to the regulariser the problem is close to a linear program, and slopes
    // swing. Then it pays to ask near the one that gave the least bound: |eta - w|^2 / 2 + max over structures of
    // <m, w> + c is at least the objective, whatever w. Wentges, International Transactions in Operational Research 4
    // (1997).
    static constexpr int64_t PATIENCE = 64;  // calls before that; and half as many again as there are structures
    static constexpr double SHARE = 0.1;     // of the present slope
    int64_t calls_ = 0;
    bool long_ = false;
    std::vector<double> best_, query_;
    double bound_ = 0;

    const double* between() {
        for (int64_t i = 0; i < n_; i++)
            query_[i] = score_[i] == FORBIDDEN ? FORBIDDEN : best_[i] + SHARE * (slope_[i] - best_[i]);
        return query_.data();
    }

    void remember(Index slot, const double* slope) {
        double size, bound = pool_.sum(slot, slope, size) + pool_.bonus(slot);
        for (int64_t i = 0; i < n_; i++)
            if (score_[i] > FORBIDDEN) bound += 0.5 * (score_[i] - slope[i]) * (score_[i] - slope[i]);
        if (bound < bound_) bound_ = bound, std::copy_n(slope, n_, best_.data());
    }
};

}  // namespace omegamax
