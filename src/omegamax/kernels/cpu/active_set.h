// SparseMAP: the sparse distribution over structures that is best for the scores, one row at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "factor.h"
#include "oracle.h"

namespace omegamax {

struct Limits {
    double tol;
    int64_t max_iter;
};

// Structures with their weights, heaviest first; where there is none, the residual says why.
struct Answer {
    static constexpr double SPOILT = std::numeric_limits<double>::quiet_NaN();     // scores of NaN or +inf
    static constexpr double INFEASIBLE = std::numeric_limits<double>::infinity();  // every structure forbidden
    std::vector<Index> ones, extras;              // among the unary and the additional scores, one structure after
    std::vector<Index> ones_count, extras_count;  // another, and how many each has
    std::vector<double> weights;
    int64_t iterations = 0;
    double residual = 0;
};

// Where to start from: structures [count, n] of an earlier answer.
struct Start {
    const double* unary = nullptr;
    const double* weights = nullptr;
    int64_t count = 0;
};

// max over xi in the simplex of <M xi, eta> + <c, xi> - 1/2 |M xi|^2, the columns of M the structures' ones and c their
// additional scores. The structures in use keep positive weights and are affinely independent, so that K = M^T M + 1 1^T
// is regular; a whole-number matrix of overlaps. After Wolfe (Mathematical Programming 11, 1976).
class Search {
   public:
    Search(Oracle& oracle, int64_t n)
        : oracle_(oracle), n_(n), width_(std::max<int64_t>(oracle.most_ones(), 1)), score_(n), slope_(n), cover_(n),
          mark_(n), extra_(oracle.additional()), parts_(oracle.most_extras()), common_(width_) {}

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
        if (!more) answer.iterations = std::min(answer.iterations, limits.max_iter - 1);
        write(answer);
    }

   private:
    static constexpr double EPS = std::numeric_limits<double>::epsilon();
    static constexpr double NO_WEIGHT = 2 * EPS;     // what rounding cannot tell from zero: a weight,
    static constexpr double NO_DISTANCE = 1e-10;     // and a squared distance from the affine hull, relative
    static constexpr double ROUNDING = 16 * EPS;     // of a sum of scores, relative to the sum of their sizes
    static constexpr double GREATEST = 1e290;        // beyond it sums might overflow
    static constexpr int REFINEMENTS = 4;

    Oracle& oracle_;
    const int64_t n_, width_;
    std::vector<double> score_;   // eta
    std::vector<double> slope_;   // eta - M xi
    std::vector<Index> cover_;    // how many of the structures in use have a one here
    std::vector<uint8_t> mark_;
    std::vector<double> extra_;
    std::vector<Index> parts_;
    std::vector<Index> common_;

    // By slot.
    int64_t slots_ = 0;
    std::vector<Index> ones_;      // [slot, width]
    std::vector<Index> count_;
    std::vector<double> bonus_;    // the additional scores, summed; and their sizes, summed
    std::vector<double> size_;
    std::vector<double> overlap_;  // [slot, slot]
    std::vector<Index> free_;

    // By place in the order in which structures were taken in.
    std::vector<Index> active_;    // slot
    std::vector<double> weight_;
    std::vector<double> gain_;     // score at the slope, less what all of them share
    std::vector<double> row_, step_;
    Factor factor_;
    double level_ = 0;             // the mean gain; they are all equal at the best weights
    double rounding_ = 0;          // of gains
    bool exact_ = false;           // the factor is fresh

    int64_t used() const { return int64_t(active_.size()); }
    Index* ones(Index slot) { return ones_.data() + slot * width_; }

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
        if (!copy(scores, n_, score_.data())) return false;
        if (additional == nullptr) std::fill(extra_.begin(), extra_.end(), 0.0);
        else if (!copy(additional, int64_t(extra_.size()), extra_.data())) return false;
        oracle_.centre(score_.data(), extra_.data(), common_.data());
        return true;
    }

    // ---- slots

    void clear() {
        active_.clear();
        weight_.clear();
        gain_.clear();
        factor_.clear();
        free_.clear();
        for (int64_t s = slots_ - 1; s >= 0; s--) free_.push_back(Index(s));
        std::fill(cover_.begin(), cover_.end(), 0);
    }

    // A free slot; whoever takes it in removes it from `free_`.
    Index slot() {
        if (free_.empty()) {
            const int64_t more = std::max<int64_t>(16, 2 * slots_);
            std::vector<double> overlap(more * more);
            for (int64_t s = 0; s < slots_; s++)
                std::copy_n(overlap_.data() + s * slots_, slots_, overlap.data() + s * more);
            overlap_.swap(overlap);
            ones_.resize(more * width_);
            for (auto* v : {&bonus_, &size_, &row_, &step_}) v->resize(more);
            count_.resize(more);
            for (int64_t s = more - 1; s >= slots_; s--) free_.push_back(Index(s));
            slots_ = more;
        }
        return free_.back();
    }

    // Sums up what is fixed about the structure written to a slot, and its overlaps; returns whether it is in use.
    bool describe(Index slot) {
        const Index* mine = ones(slot);
        const Index count = count_[slot];
        const int64_t parts = oracle_.extras(mine, count, parts_.data());
        double bonus = 0, size = 0;
        for (int64_t i = 0; i < parts; i++) {
            bonus += extra_[parts_[i]];
            size += std::abs(extra_[parts_[i]]);
        }
        bonus_[slot] = bonus;
        size_[slot] = size;
        for (Index i = 0; i < count; i++) mark_[mine[i]] = 1;
        bool twin = false;
        for (Index other : active_) {
            const Index *his = ones(other), his_count = count_[other];
            int both = 0;
            for (Index i = 0; i < his_count; i++) both += mark_[his[i]];
            overlap_[slot * slots_ + other] = overlap_[other * slots_ + slot] = both;
            twin |= both == count && both == his_count;
        }
        for (Index i = 0; i < count; i++) mark_[mine[i]] = 0;
        overlap_[slot * slots_ + slot] = count;
        return twin;
    }

    // The structure's row of the factor, into row_; returns its squared distance from the affine hull of those in use,
    // or what counts as such.
    double border(Index slot) {
        for (int64_t a = 0; a < used(); a++) row_[a] = overlap_[slot * slots_ + active_[a]] + 1;
        return factor_.border(row_.data(), count_[slot] + 1.0);
    }

    bool apart(Index slot, double distance) const { return distance > NO_DISTANCE * (count_[slot] + 1.0); }

    void take_in(Index slot, double distance, double weight) {
        factor_.push(row_.data(), distance);
        exact_ = false;
        if (!free_.empty() && free_.back() == slot) free_.pop_back();
        active_.push_back(slot);
        weight_.push_back(weight);
        gain_.push_back(0);
        for (Index i = 0; i < count_[slot]; i++) cover_[ones(slot)[i]]++;
    }

    void drop(int64_t a) {
        const Index slot = active_[a];
        for (Index i = 0; i < count_[slot]; i++) cover_[ones(slot)[i]]--;
        factor_.erase(a);
        exact_ = false;
        free_.push_back(slot);
        active_.erase(active_.begin() + a);
        weight_.erase(weight_.begin() + a);
        gain_.erase(gain_.begin() + a);
    }

    // From the overlaps, which are exact. Rows that turn out dependent leave.
    void rebuild() {
        factor_.clear();
        for (int64_t a = 0; a < used();) {
            const Index slot = active_[a];
            for (int64_t b = 0; b < a; b++) row_[b] = overlap_[slot * slots_ + active_[b]] + 1;
            const double distance = factor_.border(row_.data(), count_[slot] + 1.0);
            if (apart(slot, distance)) {
                factor_.push(row_.data(), distance);
                a++;
                continue;
            }
            for (Index i = 0; i < count_[slot]; i++) cover_[ones(slot)[i]]--;
            free_.push_back(slot);
            active_.erase(active_.begin() + a);
            weight_.erase(weight_.begin() + a);
            gain_.erase(gain_.begin() + a);
        }
        normalise();
        exact_ = true;
    }

    void normalise() {
        const double sum = std::accumulate(weight_.begin(), weight_.end(), 0.0);
        for (double& w : weight_) w /= sum;
    }

    // ---- where to begin

    bool cold() {
        const Index s = slot();
        const int64_t count = oracle_.maximize(score_.data(), extra_.data(), ones(s));
        if (count < 0) return false;
        count_[s] = Index(count);
        describe(s);
        take_in(s, border(s), 1);
        return true;
    }

    // What of an earlier answer is still allowed.
    void warm(const Start& start) {
        for (int64_t a = 0; a < start.count; a++) {
            if (!(start.weights[a] > NO_WEIGHT)) continue;
            const Index s = slot();
            const double* unary = start.unary + a * n_;
            int64_t count = 0;
            for (int64_t i = 0; i < n_ && count <= width_; i++) {
                if (unary[i] == 0) continue;
                if (count < width_) ones(s)[count] = Index(i);
                count++;
            }
            if (count > width_ || !oracle_.valid(ones(s), count)) continue;
            count_[s] = Index(count);
            if (describe(s) || bonus_[s] == FORBIDDEN) continue;
            if (std::any_of(ones(s), ones(s) + count, [&](Index i) { return score_[i] == FORBIDDEN; })) continue;
            const double distance = border(s);
            if (apart(s, distance)) take_in(s, distance, start.weights[a]);
        }
        if (!active_.empty()) normalise();
    }

    // ---- the best weights for the structures in use

    // Slope, gains and their level. A part that all structures have is left out: however large its score, it says nothing.
    void measure() {
        const int64_t count = used();
        std::copy(score_.begin(), score_.end(), slope_.begin());
        for (int64_t a = 0; a < count; a++) {
            const Index* mine = ones(active_[a]);
            for (Index i = 0; i < count_[active_[a]]; i++) slope_[mine[i]] -= weight_[a];
        }
        commons_ = 0;
        const Index* first = ones(active_[0]);
        for (Index i = 0; i < count_[active_[0]]; i++)
            if (cover_[first[i]] == count) common_[commons_++] = first[i];
        for (int64_t i = 0; i < commons_; i++) slope_[common_[i]] = 0;
        double most = 0;
        for (int64_t a = 0; a < count; a++) {
            const Index slot = active_[a];
            double sizes;
            gain_[a] = gather(ones(slot), count_[slot], sizes) + bonus_[slot];
            most = std::max(most, sizes + size_[slot] + count_[slot]);
        }
        for (int64_t i = 0; i < commons_; i++) slope_[common_[i]] = score_[common_[i]] - 1;
        rounding_ = ROUNDING * most;
        level_ = 0;
        for (int64_t a = 0; a < count; a++) level_ += weight_[a] * gain_[a];
    }
    int64_t commons_ = 0;

    double gather(const Index* ones, Index count, double& sizes) const {
        double sum[2] = {0, 0}, abs[2] = {0, 0};
        Index i = 0;
        for (; i + 1 < count; i += 2) {
            const double v = slope_[ones[i]], w = slope_[ones[i + 1]];
            sum[0] += v, sum[1] += w;
            abs[0] += std::abs(v), abs[1] += std::abs(w);
        }
        if (i < count) {
            const double v = slope_[ones[i]];
            sum[0] += v, abs[0] += std::abs(v);
        }
        sizes = abs[0] + abs[1];
        return sum[0] + sum[1];
    }

    // Towards the weights at which all gains are equal, until one is zero: that structure leaves, and so on. Returns
    // false where it is one just taken in, which gains in exact arithmetic: rounding is all that is left.
    bool descend() {
        for (int full = 0; full < REFINEMENTS;) {
            double spread = 0;
            for (double g : gain_) spread = std::max(spread, std::abs(g - level_));
            if (used() == 1 || spread <= rounding_) break;
            if (full == 2 && !exact_) rebuild();
            const bool was_exact = exact_;
            const int64_t count = used();
            for (int64_t a = 0; a < count; a++) step_[a] = gain_[a] - level_;
            factor_.solve_centred(step_.data());
            double length = 1;
            int64_t first = -1;
            for (int64_t a = 0; a < count; a++) {
                if (weight_[a] + step_[a] > NO_WEIGHT) continue;
                const double reach = step_[a] < 0 ? weight_[a] / -step_[a] : 0;
                if (first < 0 || reach < length) length = std::min(reach, 1.0), first = a;
            }
            const bool futile = first >= 0 && weight_[first] == 0;
            for (int64_t a = 0; a < count; a++) weight_[a] += length * step_[a];
            if (first < 0) full++;
            else weight_[first] = 0;
            for (int64_t a = count - 1; a >= 0 && used() > 1; a--)
                if (weight_[a] <= NO_WEIGHT) drop(a);
            normalise();
            measure();
            if (futile) {
                if (was_exact) return false;
                rebuild();
                measure();
            }
        }
        return true;
    }

    // ---- the next structure

    // Whether a structure was taken in; the gain of the best, in any case.
    bool extend(double tol, double& gain) {
        const Index s = slot();
        const int64_t count = oracle_.maximize(slope_.data(), extra_.data(), ones(s));
        if (count < 0) return false;
        count_[s] = Index(count);
        const bool known = describe(s);
        double sizes;
        gain = lead(s, sizes);
        const double rounding = std::max(rounding_, ROUNDING * (sizes + count));
        if (!(gain > tol * (1 + sizes) + rounding)) {
            gain = std::max(gain, 0.0);
            return false;
        }
        const double distance = known ? 0 : border(s);
        if (apart(s, distance)) {
            take_in(s, distance, 0);
            gain_.back() = level_ + gain;
            return true;
        }
        if (!known && extra_.size()) return exchange(s);
        // It cannot gain, in exact arithmetic: once more with a fresh factor, then that is that.
        if (exact_) return false;
        rebuild();
        measure();
        return true;
    }

    // What the structure in a slot gains over the mixture, and the sum of the sizes of the terms.
    double lead(Index slot, double& sizes) {
        const Index* mine = ones(slot);
        double sum = bonus_[slot] - level_;
        sizes = size_[slot];
        for (Index i = 0; i < count_[slot]; i++) {
            mark_[mine[i]] = 1;
            if (cover_[mine[i]] == used()) continue;
            sum += slope_[mine[i]];
            sizes += std::abs(slope_[mine[i]]);
        }
        for (int64_t i = 0; i < commons_; i++) {
            if (mark_[common_[i]]) continue;
            sum -= slope_[common_[i]];
            sizes += std::abs(slope_[common_[i]]);
        }
        for (Index i = 0; i < count_[slot]; i++) mark_[mine[i]] = 0;
        return sum;
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
        for (int64_t a = 0; a < used(); a++) weight_[a] -= length * row_[a];
        weight_[first] = 0;
        free_.pop_back();  // the slot, which is not to be given away by those that leave
        for (int64_t a = used() - 1; a >= 0; a--)
            if (weight_[a] <= NO_WEIGHT) drop(a);
        double distance = border(slot);
        if (!apart(slot, distance)) {
            rebuild();
            distance = border(slot);
        }
        const bool fits = apart(slot, distance);
        if (fits) take_in(slot, distance, length);
        else free_.push_back(slot);
        normalise();
        measure();
        return fits;
    }

    // ---- the end

    void write(Answer& answer) {
        const int64_t count = used();
        std::vector<Index> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return weight_[a] > weight_[b]; });
        answer.ones.reserve(count * width_);
        answer.extras.reserve(count * parts_.size());
        for (Index a : order) {
            const Index slot = active_[a];
            const int64_t parts = oracle_.extras(ones(slot), count_[slot], parts_.data());
            answer.ones.insert(answer.ones.end(), ones(slot), ones(slot) + count_[slot]);
            answer.extras.insert(answer.extras.end(), parts_.begin(), parts_.begin() + parts);
            answer.ones_count.push_back(count_[slot]);
            answer.extras_count.push_back(Index(parts));
            answer.weights.push_back(weight_[a]);
        }
    }
};

}  // namespace omegamax
