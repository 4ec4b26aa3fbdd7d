// Total variation on a chain: min_w 1/2 |w - x|^2 + strength * sum |w_i - w_{i+1}|, exactly and in linear time.
//
// Dynamic programming over the derivative of the cost so far as a function of the last value (N. Johnson, "A dynamic
// programming algorithm for the fused lasso and L0-segmentation", JCGS 2013, section 3): it is piecewise linear and
// increasing; the next link clips it to [-strength, strength], the next entry adds a line of slope 1. Its knots enter
// at the two ends and leave there, each once.
//
// From the left end the derivative is rise * b - lift - strength up to the first knot, from the right end
// fall * b - drop + strength from the last one on: strength itself never meets x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace omegamax {

constexpr double MAX_SCORE = 1e290;  // size of a score, beyond which scores are scaled before anything is added up

struct Knot {
    double at, bend, moment;  // the slope of the derivative changes by `bend` there; moment = bend * at
};

// Entries that fused. Values come from what a piece holds rather than from the knots, whose rounding adds up.
struct Piece {
    int64_t begin;  // it ends where the piece before it in memory begins: they are found from right to left
    double origin, sum, size, value;  // sum of x - origin and of the pulls at both ends; of their sizes
};

// Neighbours that differ by rounding alone, at the limit of the strength, get the same value.
inline void evaluate(Piece* first, const Piece* last) {
    double before = 0;
    for (Piece* p = first; p <= last; p++) {
        const double n = double(p[-1].begin - p->begin);
        p->value = p->origin + p->sum / n;
        const double slack = 64 * std::numeric_limits<double>::epsilon() * (std::fabs(p->origin) + p->size / n);
        if (p > first && std::fabs(p->value - p[-1].value) <= slack + before) p->value = p[-1].value;
        before = slack;
    }
}

// No link carries more; and next to an unbounded strength x would have no digits.
inline double enough(int64_t n, double low, double high) { return double(n) * (high - low); }

// Whether scores are so far apart that sums over all of them would take away digits of some.
inline bool scattered(double low, double high, double strength) { return high - low > 1e4 * strength; }

class Chain {
public:
    // x: finite, n of them. Entries of a piece are the same to the last bit.
    template <class T>
    void solve(const double* x, int64_t n, double strength, T* w) {
        if (n == 0) return;
        const auto [low, high] = std::minmax_element(x, x + n);
        if (!scattered(*low, *high, strength)) return run(x, n, std::min(strength, enough(n, *low, *high)), w);
        // An entry moves by no more than both its links pull. Two that are farther apart stay so: between them the
        // chain is cut, and what is left of the link is its pull.
        part.assign(x, x + n);
        for (int64_t begin = 0, end; begin < n; begin = end) {
            for (end = begin + 1; end < n && std::fabs(x[end - 1] - x[end]) <= 4 * strength; end++) {}
            if (end < n) {
                const double pull = x[end] > x[end - 1] ? strength : -strength;
                part[size_t(end - 1)] += pull, part[size_t(end)] -= pull;
            }
            run(part.data() + begin, end - begin, strength, w + begin);
        }
    }

private:
    template <class T>
    void run(const double* x, int64_t n, double strength, T* w) {
        if (n == 1) return (void)(*w = T(*x));
        reserve(n);
        const Piece* p = backward(x, n, strength);
        evaluate(pieces.data() + 1, p);
        for (int64_t i = 0; i < n; i++) {
            p -= i == p[-1].begin;
            w[i] = T(p->value);
        }
    }

    std::vector<Knot> knots;
    std::vector<double> lower, upper, part;
    std::vector<Piece> pieces;

    void reserve(int64_t n) {
        if (int64_t(lower.size()) < n) {
            knots.resize(size_t(2 * n + 2)), pieces.resize(size_t(n + 1));
            lower.resize(size_t(n)), upper.resize(size_t(n));
        }
        pieces[0].begin = n;
    }

    // Each value is the next one, as far as its bounds allow. Returns the leftmost piece.
    Piece* backward(const double* x, int64_t n, double strength) {
        double value = forward(x, n, strength), origin = x[n - 1], sum = 0, size = 0;
        Piece* p = pieces.data() + 1;
        for (int64_t i = n - 2; i >= 0; i--) {
            const double next = value;
            value = value < lower[size_t(i)] ? lower[size_t(i)] : value;
            value = value > upper[size_t(i)] ? upper[size_t(i)] : value;
            const bool cut = value != next;
            // On the piece that ends here; on the one that begins, minus.
            const double pull = value > next ? strength : -strength;
            *p = {i + 1, origin, sum + pull, size + strength, 0};
            p += cut;
            origin = cut ? x[i] : origin;
            const double more = x[i] - origin;
            sum = (cut ? -pull : sum) + more, size = (cut ? strength : size) + std::fabs(more);
        }
        *p = {0, origin, sum, size, 0};
        return p;
    }

    // Where the derivative before the link behind entry i reaches -strength and strength; returns the last value.
    double forward(const double* x, int64_t n, double strength) {
        Knot *l = knots.data() + n, *r = l + 1;
        lower[0] = x[0] - strength, upper[0] = x[0] + strength;
        *l = {lower[0], 1, lower[0]}, *r = {upper[0], -1, -upper[0]};
        for (int64_t i = 1; i < n - 1; i++) {
            double rise = 1, lift = x[i], fall = 1, drop = x[i];
            // The outermost knots are fractions, moment / bend, that need not be divided out.
            if (l->moment <= lift * l->bend) {
                rise += l->bend, lift += l->moment, l++;
                for (; l <= r && rise * l->at <= lift; l++) rise += l->bend, lift += l->moment;
            }
            if (r >= l && r->moment <= drop * r->bend) {
                fall -= r->bend, drop -= r->moment, r--;
                for (; r >= l && fall * r->at >= drop; r--) fall -= r->bend, drop -= r->moment;
            }
            lower[size_t(i)] = lift / rise, upper[size_t(i)] = drop / fall;
            *--l = {lower[size_t(i)], rise, lift};
            *++r = {upper[size_t(i)], -fall, -drop};
        }
        return root(l, r, x[n - 1] + strength);
    }

public:
    static double root(const Knot* l, const Knot* r, double lift) {
        double rise = 1;
        for (; l <= r && rise * l->at <= lift; l++) rise += l->bend, lift += l->moment;
        return lift / rise;
    }
};

}  // namespace omegamax
