// A relaxation of SparseMAP over 0/1 sequences with k ones, for transition scores t >= 0: pairs are only asked to agree
// with their two entries, and the ones to be k in the mean,
//
//     max_u <z, u> + sum_i t_i min(u_i, u_{i+1}) - |u|^2 / 2   such that   sum_i u_i = k, 0 <= u <= 1.
//
// As min(a, b) = (a + b - |a - b|) / 2, this is total variation of strength t_i / 2 on a chain, clipped at a threshold.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "oracle.h"

namespace omegamax {

// Entries that are equal in the solution and stay so when scores change a little.
struct Block {
    int64_t begin, end;
    double value;  // less the threshold: in (0, 1), or beyond where it is clipped
    bool joined;   // to the block before, by a pair with a score
    double pull;   // of that block
};

class Relaxation {
   public:
    static constexpr double TIE = 1e-9;  // what is closer may be equal: then other solutions are next to this one

    explicit Relaxation(int64_t n)
        : x_(n), strength_(n), lower_(n), upper_(n), knots_(2 * n + 2) {}

    // Solves for a row with scores of -inf or finite. Returns false for what is left to the search over sequences:
    // repelled pairs, ties, scores so large that rounding hides ties, and a budget that is not spent.
    bool solve(const double* z, const double* t, int64_t n, int64_t k, bool at_most) {
        blocks_.clear();
        if (!load(z, t, n)) return false;
        for (int64_t begin = 0; begin < n;) {
            int64_t end = begin + 1;
            if (z[begin] > FORBIDDEN) {
                while (end < n && strength_[end - 1] > 0) end++;
                fuse(begin, end);
            }
            begin = end;
        }
        double threshold;
        if (!find_threshold(k, threshold) || (at_most && threshold <= TIE)) return false;
        if (ties(threshold)) return false;
        return shift(threshold, k);
    }

    // Whether pairs have a value too: where they earn nothing, any would do.
    bool determined() const {
        for (size_t b = 1; b < blocks_.size(); b++) {
            const Block &left = blocks_[b - 1], &right = blocks_[b];
            const bool free = left.value > 0 && left.value < 1 && right.value > 0 && right.value < 1;
            if (free && left.end == right.begin && !right.joined) return false;
        }
        return true;
    }

    // The blocks of entries that are not masked, from left to right.
    const std::vector<Block>& blocks() const { return blocks_; }

    // Writes values, clipped, and for each entry and each pair the block whose value it has: n where that is clipped. A
    // pair has that of the lower of its entries.
    void write(double* p, int64_t* group, int64_t n) const {
        int64_t before = n, end = 0;
        double value = 0;
        for (size_t b = 0; b < blocks_.size(); b++) {
            const Block& block = blocks_[b];
            const int64_t own = block.value > 0 && block.value < 1 ? int64_t(b) : n;
            std::fill(p + block.begin, p + block.end, std::min(std::max(block.value, 0.0), 1.0));
            std::fill(group + block.begin, group + block.end, own);
            std::fill(group + n + block.begin, group + n + block.end - 1, own);
            if (b > 0 && end == block.begin) group[n + end - 1] = value < block.value ? before : own;
            before = own, end = block.end, value = block.value;
        }
    }

   private:
    static constexpr double LARGEST_ERROR = 1e-10;  // of a value, by rounding
    static constexpr int PASSES = 200;

    struct Knot {
        double at, bend, moment;  // the slope changes by `bend` there; moment = bend * at
    };

    std::vector<double> x_, strength_, lower_, upper_;
    std::vector<Knot> knots_;
    std::vector<Block> blocks_;

    // Scores with half of the transition scores on either side, and the strengths of total variation.
    bool load(const double* z, const double* t, int64_t n) {
        double size = 0;
        for (int64_t i = 0; i < n; i++) {
            x_[i] = z[i];
            if (!(z[i] < std::numeric_limits<double>::infinity())) return false;
            if (z[i] > FORBIDDEN) size = std::max(size, std::abs(z[i]));
        }
        for (int64_t i = 0; i + 1 < n; i++) {
            const bool live = z[i] > FORBIDDEN && z[i + 1] > FORBIDDEN;
            if (!(t[i] < std::numeric_limits<double>::infinity()) || (live && t[i] < 0)) return false;
            strength_[i] = live ? t[i] / 2 : 0;
            size = std::max(size, strength_[i]);
            x_[i] += strength_[i];
            x_[i + 1] += strength_[i];
        }
        return 4 * std::numeric_limits<double>::epsilon() * size * double(n) <= LARGEST_ERROR;
    }

    // ---- total variation

    // Dynamic programming over the derivative of the cost so far (N. Johnson, JCGS 2013, Sec. 3), as in
    // ../../variation/cpp/chain.h, with a strength for each link.
    void fuse(int64_t begin, int64_t end) {
        Knot *l = knots_.data() + (end - begin), *r = l - 1;  // none yet; they come in at both ends
        double before = 0, value = 0;
        for (int64_t i = begin; i < end; i++) {
            // The last link leads nowhere: the value there is the root.
            const double next = i + 1 < end ? strength_[i] : 0;
            double rise = 1, lift = x_[i] + before, fall = 1, drop = x_[i] - before;
            for (; l <= r && rise * l->at - lift < -next; l++) rise += l->bend, lift += l->moment;
            lower_[i] = value = (lift - next) / rise;
            for (; r >= l && fall * r->at - drop > next; r--) fall -= r->bend, drop -= r->moment;
            upper_[i] = (drop + next) / fall;
            *--l = {lower_[i], rise, lift - next};
            *++r = {upper_[i], -fall, -(drop + next)};
            before = next;
        }
        const size_t first = blocks_.size();
        int64_t last = end;
        for (int64_t i = end - 2; i >= begin; i--) {
            const double clipped = std::min(std::max(value, lower_[i]), upper_[i]);
            if (clipped == value) continue;
            blocks_.push_back({i + 1, last, value, true, 0});
            value = clipped, last = i + 1;
        }
        blocks_.push_back({begin, last, value, false, 0});
        std::reverse(blocks_.begin() + first, blocks_.end());
        double pull = 0;
        for (size_t b = first; b < blocks_.size(); b++) {
            double ahead = 0;
            if (b + 1 < blocks_.size())
                ahead = (blocks_[b + 1].value > blocks_[b].value ? 1 : -1) * strength_[blocks_[b].end - 1];
            measure(blocks_[b], pull + ahead);
            blocks_[b].pull = pull;
            pull = -ahead;
        }
    }

    // The value of a block from its entries and the pulls of its neighbours: knots are not as accurate.
    void measure(Block& block, double pull) const {
        const double origin = x_[block.begin];
        double sum = 0;
        for (int64_t i = block.begin; i < block.end; i++) sum += x_[i] - origin;
        block.value = origin + (sum + pull) / double(block.end - block.begin);
    }

    // ---- the budget

    // Newton inside a bracket, on a sum that is piecewise linear and non-increasing: exact once it stays on a piece.
    bool find_threshold(int64_t k, double& threshold) const {
        double low = std::numeric_limits<double>::infinity(), high = -low;
        int64_t count = 0;
        for (const Block& b : blocks_) {
            low = std::min(low, b.value - 1), high = std::max(high, b.value);
            count += b.end - b.begin;
        }
        if (!(k > 0 && k < count)) return false;
        threshold = low + (high - low) * (1 - double(k) / double(count));
        for (int pass = 0; pass < PASSES; pass++) {
            int64_t free = 0, ones = 0, full = 0, bounds = 0;
            double sum = 0, above = INFINITY, below = -INFINITY;  // the least of the ones, less 1; the greatest of the zeros
            for (const Block& b : blocks_) {
                const double v = b.value - threshold, size = double(b.end - b.begin);
                if (v >= 1) ones += b.end - b.begin;
                else if (v > 0) free += b.end - b.begin, sum += v * size;
                if (v >= 1 - TIE) full += b.end - b.begin, bounds++, above = std::min(above, b.value - 1);
                else if (v <= TIE) bounds++, below = std::max(below, b.value);
            }
            // All values are 0 or 1, and remain so for a range of thresholds.
            if (bounds == int64_t(blocks_.size()) && full == k) return threshold = (above + below) / 2, true;
            const double excess = sum + double(ones - k), newton = threshold + excess / double(free);
            // From so near, a step crosses no value that is not as good as at its bound.
            if (free > 0 && std::abs(excess) <= LARGEST_ERROR) return threshold = newton, true;
            (excess > 0 ? low : high) = threshold;
            threshold = free > 0 && newton > low && newton < high ? newton : (low + high) / 2;
        }
        return false;
    }

    // Values less the threshold, of which those in (0, 1) take what rounding has left of the budget.
    bool shift(double threshold, int64_t k) {
        double sum = -double(k);
        int64_t free = 0;
        for (Block& b : blocks_) {
            b.value -= threshold;
            const int64_t size = b.end - b.begin;
            sum += double(size) * std::min(std::max(b.value, 0.0), 1.0);
            if (b.value > 0 && b.value < 1) free += size;
        }
        if (free == 0) return sum == 0;
        for (Block& b : blocks_)
            if (b.value > 0 && b.value < 1) b.value -= sum / double(free);
        return std::abs(sum) <= LARGEST_ERROR;
    }

    // Whether a block may be at its bound, split, or equal its neighbour. Where values are clipped that makes no difference.
    bool ties(double threshold) const {
        for (size_t b = 0; b < blocks_.size(); b++) {
            const Block& block = blocks_[b];
            const double v = block.value - threshold;
            if (std::abs(v) <= TIE || std::abs(v - 1) <= TIE) return true;
            if (v < 0 || v > 1) continue;
            if (block.joined && std::abs(block.value - blocks_[b - 1].value) <= TIE) return true;
            double carried = block.pull;
            for (int64_t i = block.begin; i + 1 < block.end; i++) {
                carried += x_[i] - block.value;
                if (strength_[i] - std::abs(carried) <= TIE) return true;
            }
        }
        return false;
    }
};

}  // namespace omegamax
