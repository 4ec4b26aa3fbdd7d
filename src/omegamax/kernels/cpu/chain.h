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

#include "processor.h"

namespace omegamax {

constexpr double HUGE_SCORE = 1e290;  // beyond it scores are scaled before anything is added up

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

// ---- one row ----

class Chain {
public:
    // x: finite, n of them. Entries of a piece are the same to the last bit.
    template <class T>
    void solve(const double* x, int64_t n, double strength, T* w) {
        if (n == 0) return;
        const auto [low, high] = std::minmax_element(x, x + n);
        if (!scattered(*low, *high, strength)) return run(x, n, std::min(strength, enough(n, *low, *high)), w);
        // An entry moves by no more than both its links pull. Two that are farther apart stay so: between them the chain
        // is cut, and what is left of the link is its pull.
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
            const double pull = value > next ? strength : -strength;  // on the piece that ends here; on the other, minus
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

// ---- four rows, one in each lane ----

// The same arithmetic, with masks instead of branches: which knots leave is as good as random.
class Chains {
public:
    static constexpr int LANES = 4;
    typedef double D __attribute__((vector_size(8 * LANES)));

    // Rows of n >= 2 entries: x[i * step + k * stride] is entry i of row k. False, and nothing written, where one of them
    // holds a score that is not finite, or so large that sums might not be, or scores that are scattered.
    template <class T>
    WITH_AVX2 bool solve(const T* x, int64_t n, int64_t step, int64_t stride, const double* strengths, T* w) {
        reserve(n);
        D low = D{} + INF, high = -low, worst = {}, strength = {};
        for (int64_t i = 0; i < n; i++) {
            D v;
            for (int k = 0; k < LANES; k++) v[k] = double(x[i * step + k * stride]);
            low = pick(v < low, v, low), high = pick(v > high, v, high);
            worst += v - v;
            scores[i] = v;
        }
        for (int k = 0; k < LANES; k++) {
            if (!(worst[k] == 0 && high[k] - low[k] < HUGE_SCORE)) return false;
            if (scattered(low[k], high[k], strengths[k])) return false;
            strength[k] = std::min(strengths[k], enough(n, low[k], high[k]));
        }
        Piece* p[LANES];
        backward(strength, forward(strength), p);
        for (int k = 0; k < LANES; k++) evaluate(first(k), p[k]);
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < LANES; k++) {
                p[k] -= i == p[k][-1].begin;
                w[i * step + k * stride] = T(p[k]->value);
            }
        return true;
    }

private:
    typedef int64_t I __attribute__((vector_size(8 * LANES)));
    static constexpr double INF = std::numeric_limits<double>::infinity();

    int64_t n = 0;
    std::vector<Knot> knots;
    std::vector<Piece> pieces;
    std::vector<double> memory;
    D *scores = nullptr, *lower = nullptr, *upper = nullptr;

    static ALWAYS WITH_AVX2 D pick(I where, D yes, D no) { return (D)((where & (I)yes) | (~where & (I)no)); }
    static ALWAYS WITH_AVX2 D keep(I where, D v) { return (D)(where & (I)v); }
    static ALWAYS WITH_AVX2 bool any(I flags) { return (flags[0] | flags[1] | flags[2] | flags[3]) != 0; }
    static ALWAYS WITH_AVX2 D field(Knot* const* p, int step, double Knot::*f) {
        return D{p[0][step].*f, p[1][step].*f, p[2][step].*f, p[3][step].*f};
    }
    Piece* first(int lane) { return pieces.data() + lane * (n + 1) + 1; }

    void reserve(int64_t length) {
        n = length;
        if (int64_t(pieces.size()) < LANES * (n + 1)) {
            knots.resize(size_t(LANES * (2 * n + 8))), pieces.resize(size_t(LANES * (n + 1)));
            memory.resize(size_t(3 * LANES * n + LANES));
            scores = (D*)(((uintptr_t)memory.data() + sizeof(D) - 1) / sizeof(D) * sizeof(D));
        }
        lower = scores + n, upper = lower + n;
    }

    WITH_AVX2 D forward(D strength) {
        const D* x = scores;
        Knot *l[LANES], *r[LANES];
        lower[0] = x[0] - strength, upper[0] = x[0] + strength;
        for (int k = 0; k < LANES; k++) {
            l[k] = knots.data() + k * (2 * n + 8) + n + 3, r[k] = l[k] + 1;
            *l[k] = {lower[0][k], 1, lower[0][k]}, *r[k] = {upper[0][k], -1, -upper[0][k]};
            l[k][-1].at = -INF, r[k][1].at = INF;  // stops: these never leave
        }
        for (int64_t i = 1; i < n - 1; i++) {
            D rise = D{} + 1, lift = x[i], fall = rise, drop = lift;
            D b = field(l, 0, &Knot::bend), m = field(l, 0, &Knot::moment);
            D c = field(r, 0, &Knot::bend), q = field(r, 0, &Knot::moment);
            I s = m <= lift * b, t = q <= drop * c, ls = s, rs = t;
            rise += keep(s, b), lift += keep(s, m), fall -= keep(t, c), drop -= keep(t, q);
            b = field(l, 1, &Knot::bend), m = field(l, 1, &Knot::moment);
            c = field(r, -1, &Knot::bend), q = field(r, -1, &Knot::moment);
            s &= rise * field(l, 1, &Knot::at) <= lift, t &= fall * field(r, -1, &Knot::at) >= drop;
            ls += s, rs += t;
            rise += keep(s, b), lift += keep(s, m), fall -= keep(t, c), drop -= keep(t, q);
            // A third on one side is rare; so is one that both sides take, by rounding.
            s &= rise * field(l, 2, &Knot::at) <= lift, t &= fall * field(r, -2, &Knot::at) >= drop;
            bool rare = any(s | t);
            for (int k = 0; k < LANES; k++) {
                l[k] -= ls[k], r[k] += rs[k];
                rare |= l[k] > r[k] + 1;
            }
            if (__builtin_expect(rare, 0))
                for (int k = 0; k < LANES; k++) {
                    Knot* const end = r[k] - rs[k];
                    if (s[k])
                        for (; l[k] <= end && rise[k] * l[k]->at <= lift[k]; l[k]++)
                            rise[k] += l[k]->bend, lift[k] += l[k]->moment;
                    if (l[k] > r[k] + 1) {
                        r[k] = end, fall[k] = 1, drop[k] = x[i][k];
                        if (r[k] >= l[k] && r[k]->moment <= drop[k] * r[k]->bend)
                            fall[k] -= r[k]->bend, drop[k] -= r[k]->moment, r[k]--, t[k] = -1;
                    }
                    if (t[k])
                        for (; r[k] >= l[k] && fall[k] * r[k]->at >= drop[k]; r[k]--)
                            fall[k] -= r[k]->bend, drop[k] -= r[k]->moment;
                }
            lower[i] = lift / rise, upper[i] = drop / fall;
            for (int k = 0; k < LANES; k++) {
                *--l[k] = {lower[i][k], rise[k], lift[k]};
                *++r[k] = {upper[i][k], -fall[k], -drop[k]};
                l[k][-1].at = -INF, r[k][1].at = INF;
            }
        }
        D last;
        for (int k = 0; k < LANES; k++) last[k] = Chain::root(l[k], r[k], x[n - 1][k] + strength[k]);
        return last;
    }

    WITH_AVX2 void backward(D strength, D value, Piece** p) {
        const D* x = scores;
        D origin = x[n - 1], sum = {}, size = {};
        for (int k = 0; k < LANES; k++) p[k] = first(k), p[k][-1].begin = n;
        for (int64_t i = n - 2; i >= 0; i--) {
            const D next = value;
            value = pick(value < lower[i], lower[i], value);
            value = pick(value > upper[i], upper[i], value);
            const I cut = value != next;
            const D pull = pick(value > next, strength, -strength), all = sum + pull, sizes = size + strength;
            for (int k = 0; k < LANES; k++) {
                *p[k] = {i + 1, origin[k], all[k], sizes[k], 0};
                p[k] -= cut[k];
            }
            origin = pick(cut, x[i], origin);
            const D more = x[i] - origin;
            sum = pick(cut, -pull, sum) + more, size = pick(cut, strength, size) + pick(more < 0, -more, more);
        }
        for (int k = 0; k < LANES; k++) *p[k] = {0, origin[k], sum[k], size[k], 0};
    }
};

}  // namespace omegamax
