// SparseMAP: the sparse distribution over structures that is best for the scores, one row at a time.
#pragma once

#include <numeric>

#include "factor.h"
#include "pool.h"

namespace omegamax {

struct Limits {
    double tol;
    int64_t max_iter;
    int64_t most_tied;  // structures, with those that only tie
};

// Structures with their weights, heaviest first; where there is none, the residual says why. Those without weight tie
// with the others.
struct Answer {
    static constexpr double SPOILT = std::numeric_limits<double>::quiet_NaN();     // scores of NaN or +inf
    static constexpr double INFEASIBLE = std::numeric_limits<double>::infinity();  // every structure forbidden
    std::vector<Index> ones, extras;              // among the unary and the additional scores, one structure after
    std::vector<Index> ones_count, extras_count;  // another, and how many each has
    std::vector<double> weights;
    int64_t iterations = 0;
    double residual = 0;
};

// Where to start from: structures of an earlier answer, or what is said to be some.
struct Start {
    const Index* ones = nullptr;
    const Index* ones_count = nullptr;
    const double* weights = nullptr;
    int64_t count = 0;
    bool trusted = false;
};

// max over xi in the simplex of <M xi, eta> + <c, xi> - 1/2 |M xi|^2, the columns of M the structures' ones and c their
// additional scores, summed. The structures in use have positive weights and are affinely independent, so that
// K = M^T M + 1 1^T is regular. Wolfe, Mathematical Programming 11 (1976); Niculae et al. (ICML 2018), Sec. 3.2.
class Search {
   public:
    // m: the number of additional scores, or 0 where they all are zero.
    Search(Oracle& oracle, int64_t n, int64_t m)
        : oracle_(oracle), n_(n), m_(m), pool_(oracle, n), score_(n), slope_(n), cover_(n), extra_(oracle.additional()),
          extra_cover_(m), common_(pool_.width()) {}

    void run(const double* scores, const double* additional, const Start& start, Limits limits, Answer& answer) {
        if (!load(scores, additional)) {
            answer.residual = Answer::SPOILT;
            return;
        }
        clear();
        warm(start);
        if (active_.empty() && !cold()) {
            answer.residual = Answer::INFEASIBLE;
            return;
        }
        measure();
        bool more = descend();
        while (more && answer.iterations < limits.max_iter) {
            more = extend(limits.tol, answer.residual) && descend();
            answer.iterations++;
        }
        // As many iterations as allowed is how the caller knows a search that was cut short.
        if (!more) answer.iterations = std::min(answer.iterations, limits.max_iter - 1);
        if (!more) complete(limits);
        write(answer);
    }

    // The mean of the structures of the answer just found: exactly 1 where they all agree.
    void marginals(const Answer& answer, double* unary, double* additional) {
        const double none = std::isnan(answer.residual) ? answer.residual : 0;
        std::fill_n(unary, n_, none);
        std::fill_n(additional, m_, none);
        mix(answer.ones, answer.ones_count, answer.weights, unary, cover_);
        if (m_) mix(answer.extras, answer.extras_count, answer.weights, additional, extra_cover_);
    }

   private:
    static constexpr double EPS = std::numeric_limits<double>::epsilon();
    static constexpr double NO_WEIGHT = 1e-14;    // what rounding cannot tell from zero: a weight,
    static constexpr double NO_DISTANCE = 1e-10;  // and a squared distance from the affine hull, relative
    static constexpr double ROUNDING = 16 * EPS;  // of a sum of scores, relative to the sum of their sizes
    static constexpr double GREATEST = 1e290;     // beyond it sums might overflow
    static constexpr double NEGLIGIBLE = 1e-6;    // next to the largest difference of gains
    static constexpr int REFINEMENTS = 4;

    Oracle& oracle_;
    const int64_t n_, m_;
    Pool pool_;
    std::vector<double> score_;       // eta
    std::vector<double> slope_;       // eta - M xi
    std::vector<double> lean_, leaning_;
    std::vector<Index> cover_;        // how many of the structures in use have a one here
    std::vector<double> extra_;       // additional scores
    std::vector<Index> extra_cover_;
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

    // ---- scores

    static bool copy(const double* from, int64_t n, double* to) {
        bool sound = true;
        for (int64_t i = 0; i < n; i++) {
            const double v = from[i];
            sound &= v < std::numeric_limits<double>::infinity();
            to[i] = v == FORBIDDEN ? v : std::max(-GREATEST, std::min(v, GREATEST));
        }
        return sound;
    }

    bool load(const double* scores, const double* additional) {
        if (!copy(scores, n_, score_.data()) || !copy(additional, m_, extra_.data())) return false;
        oracle_.centre(score_.data(), extra_.data(), common_.data());
        return true;
    }

    // ---- who is in use

    void clear() {
        active_.clear();
        weight_.clear();
        gain_.clear();
        factor_.clear();
        exact_ = true;
        pool_.clear();
        std::fill(cover_.begin(), cover_.end(), 0);
        calls_ = 0;
        long_ = false;
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

    // What of an earlier answer is still allowed.
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

    // ---- the best weights for the structures in use

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

    // ---- the next structure

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

    // ---- ties

    static constexpr int TRIALS = 3;           // ever smaller nudges, for a structure that ties rather than nearly does

    // Where other structures tie, the marginals move with them too: as many are taken in, without weight, as it takes to
    // span the face. A direction in which all structures in use agree tells: either some structure that ties lies ahead
    // or behind, or, the direction being random, none lies outside their affine hull.
    void complete(const Limits& limits) {
        long_ = false;
        uint64_t state = 0x9E3779B97F4A7C15;
        bool far = true;  // any direction finds structures outside the affine hull, as long as many are
        for (bool found = true; found && used() < limits.most_tied;) {
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

    void write(Answer& answer) {
        std::vector<Index> order(used());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return weight_[a] > weight_[b]; });
        for (Index a : order) {
            const Index slot = active_[a];
            answer.ones.insert(answer.ones.end(), pool_.begin(slot), pool_.end(slot));
            answer.ones_count.push_back(pool_.count(slot));
            answer.weights.push_back(weight_[a]);
            if (m_ == 0) continue;
            const auto [extra, last] = pool_.extras(slot);
            answer.extras.insert(answer.extras.end(), extra, last);
            answer.extras_count.push_back(Index(last - extra));
        }
    }

    static void mix(const std::vector<Index>& ones, const std::vector<Index>& count, const std::vector<double>& weights,
                    double* out, std::vector<Index>& cover) {
        std::fill(cover.begin(), cover.end(), 0);
        const Index* at = ones.data();
        Index heavy = 0;
        for (; heavy < Index(count.size()) && weights[heavy] > 0; heavy++)
            for (Index i = 0; i < count[heavy]; i++, at++) {
                out[*at] += weights[heavy];
                cover[*at]++;
            }
        if (heavy == 0) return;
        for (size_t i = 0; i < cover.size(); i++) out[i] = cover[i] == heavy ? 1 : std::min(out[i], 1.0);
    }
};

}  // namespace omegamax
