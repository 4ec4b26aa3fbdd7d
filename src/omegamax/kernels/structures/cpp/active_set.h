// SparseMAP: the sparse distribution over structures that is best for the scores, one row at a time. In turn the weights
// of the structures in use are made best (weights.h) and another structure is taken in (pricing.h).
#pragma once

#include "pricing.h"
#include "solution.h"

namespace omegamax {

class Search : private Pricing {
   public:
    // m: how many additional scores there are, or 0 where they all are zero.
    Search(Oracle& oracle, int64_t n, int64_t m) : Pricing(oracle, n, m), extra_cover_(m) {}

    void run(const double* scores, const double* additional, const Start& start, Limits limits, Solution& solution) {
        if (!load(scores, additional)) {
            solution.residual = Solution::INVALID;
            return;
        }
        restart();
        warm(start);
        if (active_.empty() && !cold()) {
            solution.residual = Solution::INFEASIBLE;
            return;
        }
        measure();
        bool more = descend();
        while (more && solution.iterations < limits.max_iter) {
            more = extend(limits.tol, solution.residual) && descend();
            solution.iterations++;
        }
        // As many iterations as allowed is how the caller knows a search that was cut short.
        if (!more) solution.iterations = std::min(solution.iterations, limits.max_iter - 1);
        if (!more) complete(limits);
        write(solution);
    }

    // The mean of the structures of the solution just found: exactly 1 where they all agree.
    void marginals(const Solution& solution, double* unary, double* additional) {
        const double none = std::isnan(solution.residual) ? solution.residual : 0;
        std::fill_n(unary, n_, none);
        std::fill_n(additional, m_, none);
        mix_structures(solution.ones, solution.ones_count, solution.weights, unary, cover_);
        if (m_) mix_structures(solution.extras, solution.extras_count, solution.weights, additional, extra_cover_);
    }

   private:
    static constexpr double MAX_SCORE = 1e290;  // size of a score, beyond which sums might overflow

    std::vector<Index> extra_cover_;

    // ---- scores

    static bool copy(const double* from, int64_t n, double* to) {
        bool sound = true;
        for (int64_t i = 0; i < n; i++) {
            const double v = from[i];
            sound &= v < std::numeric_limits<double>::infinity();
            to[i] = v == FORBIDDEN ? v : std::max(-MAX_SCORE, std::min(v, MAX_SCORE));
        }
        return sound;
    }

    bool load(const double* scores, const double* additional) {
        if (!copy(scores, n_, score_.data()) || !copy(additional, m_, extra_.data())) return false;
        oracle_.centre(score_.data(), extra_.data(), common_.data());
        return true;
    }

    // ---- where to begin

    bool cold() {
        const Index slot = pool_.next();
        const int64_t count = oracle_.maximize(score_.data(), extra_.data(), pool_.ones(slot));
        if (count < 0) return false;
        pool_.describe(slot, count, extra_.data(), active_);
        pool_.take();
        take_in(slot, border(slot, 0), 1);
        return true;
    }

    // What of an earlier solution is still allowed.
    void warm(const Start& start) {
        const Index* given = start.ones;
        for (int64_t a = 0; a < start.count; given += start.ones_count[a++]) {
            const Index count = start.ones_count[a];
            if (!(start.weights[a] > NO_WEIGHT) || count > pool_.width()) continue;
            if (!start.trusted && !oracle_.valid(given, count)) continue;
            if (std::any_of(given, given + count, [&](Index i) { return score_[i] == FORBIDDEN; })) continue;
            const Index slot = pool_.next();
            std::copy_n(given, count, pool_.ones(slot));
            if (pool_.describe(slot, count, extra_.data(), active_) || pool_.bonus(slot) == FORBIDDEN) continue;
            const double distance = border(slot, used());
            if (!apart(slot, distance)) continue;
            pool_.take();
            take_in(slot, distance, start.weights[a]);
        }
        if (!active_.empty()) normalise();
    }

    // ---- ties

    static constexpr int TRIALS = 3;           // ever smaller nudges, for a structure that ties rather than nearly does

    // Where other structures tie, the marginals move with them too: as many are taken in, without weight, as it takes to
    // span the face. A direction in which all structures in use agree tells: either some structure that ties lies ahead
    // or behind, or, the direction being random, none lies outside their affine hull.
    void complete(const Limits& limits) {
        long_ = false;
        uint64_t state = 0x9E3779B97F4A7C15;
        bool far = true;  // any direction finds structures outside the affine hull, as long as many are
        for (bool found = true; found && used() < limits.max_tied;) {
            draw(state);
            if (far && nudge(1, limits.tol)) continue;
            far = false;
            agree();
            found = nudge(1, limits.tol) || nudge(-1, limits.tol);
        }
    }

    void draw(uint64_t& state) {
        query_.resize(n_);
        for (double& r : query_) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            r = double(int64_t(state) >> 11) / double(int64_t(1) << 52);
        }
    }

    // Takes from the direction what tells the structures in use apart.
    void agree() {
        step_.resize(pool_.slots());
        double size;
        for (int64_t a = 0; a < used(); a++) step_[a] = pool_.sum(active_[a], query_.data(), size);
        factor_.solve_centred(step_.data());
        for (int64_t a = 0; a < used(); a++)
            for (const Index *i = pool_.begin(active_[a]), *end = pool_.end(active_[a]); i != end; i++)
                query_[*i] -= step_[a];
    }

    bool nudge(double sign, double tol) {
        double by = sign * std::max(1e-8, 1024 * EPS * largest_slope());
        best_.resize(n_);
        for (int trial = 0; trial < TRIALS; trial++, by /= 64) {
            for (int64_t i = 0; i < n_; i++) best_[i] = slope_[i] + by * query_[i];
            const Index slot = pool_.next();
            Offer offer;
            if (!ask(slot, best_.data(), tol, offer) || offer.known) return false;
            if (offer.gain < -offer.bar) continue;
            const double distance = border(slot, used());
            if (!apart(slot, distance)) return false;
            pool_.take();
            take_in(slot, distance, 0);
            return true;
        }
        return false;
    }

    // ---- the end

    void write(Solution& solution) {
        std::vector<Index> order(used());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return weight_[a] > weight_[b]; });
        for (Index a : order) {
            const Index slot = active_[a];
            solution.ones.insert(solution.ones.end(), pool_.begin(slot), pool_.end(slot));
            solution.ones_count.push_back(pool_.count(slot));
            solution.weights.push_back(weight_[a]);
            if (m_ == 0) continue;
            const auto [extra, last] = pool_.extras(slot);
            solution.extras.insert(solution.extras.end(), extra, last);
            solution.extras_count.push_back(Index(last - extra));
        }
    }
};

}  // namespace omegamax
