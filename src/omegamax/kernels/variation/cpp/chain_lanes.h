// Total variation on four chains at a time, one in each lane: the arithmetic of chain.h, to the last bit, with masks
// instead of branches. Which knots leave is as good as random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "chain.h"
#include "processor.h"

namespace omegamax {

class ChainLanes {
public:
    static constexpr int LANES = 4;
    typedef double D __attribute__((vector_size(8 * LANES)));

    // Rows of n >= 2 entries: x[i * step + k * stride] is entry i of row k. False, and nothing written, where one of
    // them holds a score that is not finite, or so large that sums might not be, or scores that are scattered.
    template <class T>
    WITH_AVX2 bool solve(const T* x, int64_t n, int64_t step, int64_t stride, const double* strengths, T* w) {
        reserve(n);
        D low = D{} + INF, high = -low, worst = {}, strength = {};
        for (int64_t i = 0; i < n; i++) {
            D v;
            for (int k = 0; k < LANES; k++) v[k] = double(x[i * step + k * stride]);
            low = select(v < low, v, low), high = select(v > high, v, high);
            worst += v - v;
            scores[i] = v;
        }
        for (int k = 0; k < LANES; k++) {
            if (!(worst[k] == 0 && high[k] - low[k] < MAX_SCORE)) return false;
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

    static ALWAYS WITH_AVX2 D select(I where, D yes, D no) { return (D)((where & (I)yes) | (~where & (I)no)); }
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
            value = select(value < lower[i], lower[i], value);
            value = select(value > upper[i], upper[i], value);
            const I cut = value != next;
            const D pull = select(value > next, strength, -strength), all = sum + pull, sizes = size + strength;
            for (int k = 0; k < LANES; k++) {
                *p[k] = {i + 1, origin[k], all[k], sizes[k], 0};
                p[k] -= cut[k];
            }
            origin = select(cut, x[i], origin);
            const D more = x[i] - origin;
            sum = select(cut, -pull, sum) + more, size = select(cut, strength, size) + select(more < 0, -more, more);
        }
        for (int k = 0; k < LANES; k++) *p[k] = {0, origin[k], sum[k], size[k], 0};
    }
};

}  // namespace omegamax
