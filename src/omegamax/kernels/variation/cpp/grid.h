// Total variation on a grid: every entry and its neighbours to the right and below.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chain.h"
#include "levels.h"
#include "relax.h"

namespace omegamax {

// Edge 2i leads from i to the right, 2i + 1 down. Edges over the border have no capacity, whichever node they reach.
struct Grid {
    int height = 0, width = 0, n = 0;
    double *u = nullptr, *cap = nullptr;

    int pad() const { return width; }
    static int reverse(int arc) { return arc ^ 2; }

    ALWAYS Arc arc(int i, int a) const { return {i + step[a], 2 * i + edge[a], a < 2}; }

    template <class F>
    ALWAYS void arcs(int i, F f) const {
        f(0, i + 1, 2 * i, true);
        f(1, i + width, 2 * i + 1, true);
        f(2, i - 1, 2 * i - 2, false);
        f(3, i - width, 2 * (i - width) + 1, false);
    }

    // Which neighbours are wanted is as good as random: bits, not branches.
    template <class Wanted, class F>
    ALWAYS void select(int i, Wanted wanted, F f) const {
        unsigned bits = 0;
        arcs(i, [&](int a, int j, int e, bool forward) { bits |= unsigned(wanted(j, e, forward)) << a; });
        for (; bits; bits &= bits - 1) {
            const int a = __builtin_ctz(bits);
            f(a, i + step[a]);
        }
    }

    template <class F>
    ALWAYS void edges(F f) const {
        for (int i = 0; i < n; i++) {
            if (cap[2 * i] > 0) f(i, i + 1, 2 * i);
            if (cap[2 * i + 1] > 0) f(i, i + width, 2 * i + 1);
        }
    }

    void reserve(int h, int w) {
        if (h != height || w != width) {
            height = h, width = w, n = h * w;
            step[0] = 1, step[1] = w, step[2] = -1, step[3] = -w;
            edge[0] = 0, edge[1] = 1, edge[2] = -2, edge[3] = 1 - 2 * w;
            flows.assign(size_t(2 * (n + 2 * w)), 0.0), limits.assign(size_t(2 * (n + 2 * w)), 0.0);
            u = flows.data() + 2 * w, cap = limits.data() + 2 * w;
        }
    }

    // The capacity of every edge whose ends are both there.
    template <class There>
    void fill(double strength, There there) {
        strength = std::min(strength, UNBOUNDED);
        for (int y = 0, i = 0; y < height; y++)
            for (int k = 0; k < width; k++, i++) {
                cap[2 * i] = k + 1 < width && there(i) && there(i + 1) ? strength : 0;
                cap[2 * i + 1] = y + 1 < height && there(i) && there(i + width) ? strength : 0;
            }
        std::fill(u, u + 2 * n, 0.0);
    }

private:
    int step[4] = {}, edge[4] = {};
    std::vector<double> flows, limits;
};

class GridSolver {
public:
    // x: finite, what is absent is 0 and has no edge. Returns the residual, as Levels does.
    template <class There>
    double solve(const double* x, int height, int width, double strength, There there, double* w) {
        net.reserve(height, width);
        net.fill(strength, there);
        // Floats, measured from a score among the many, have digits for all that matters, unless some are far away.
        const double pivot = middle(x, net.n);
        double most = 0;
        for (int i = 0; i < net.n; i++) most = std::max(most, std::fabs(x[i] - pivot));
        if (Fold::suits(width) && most <= 1e5 * strength) {
            const double scale = most > 0 ? std::ldexp(1.0, -std::ilogb(most)) : 1;
            fold.relax(height, width, x, pivot, scale, net.cap, net.u);
        } else {
            level.assign(x, x + net.n);
            relax(net, level.data());
        }
        return levels.solve(x, w);
    }

private:
    Grid net;
    Fold fold;
    Levels<Grid> levels{net};
    std::vector<double> level;

    static double middle(const double* x, int n) {
        double some[9];
        for (int k = 0; k < 9; k++) some[k] = x[int64_t(n - 1) * k / 8];
        std::nth_element(some, some + 4, some + 9);
        return some[4];
    }
};

}  // namespace omegamax
