// Total variation on a graph, exactly: min_w 1/2 |w - x|^2 + sum over edges of cap_e |w_i - w_j|.
//
// The dual is a flow u with |u_e| <= cap_e; w = x - div u is the solution once every edge whose ends differ is full, in
// the direction of the fall (those are the conditions of Karush, Kuhn and Tucker, and they suffice). Starting from any
// flow, the finish below takes the regions joined by edges that are not full and tries to bring each to one level, its
// mean, by more flow inside. A maximum flow that cannot do it ends in a cut of full edges, at which the region falls
// apart (Chambolle and Darbon, "On total variation minimization and surface evolution using parametric maximum flows",
// IJCV 2009, section 4; Hochbaum, JACM 2001). Neighbours whose levels are the wrong way round for the flow between them
// form one region again. What comes out is a flow that proves its values, to rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "processor.h"
#include "region_flow.h"

namespace omegamax {

template <class Net>
class Levels : private RegionFlow<Net> {
public:
    explicit Levels(Net& net) : Base(net) {}

    // From scores and a feasible net.u to the solution; net.u becomes its proof.
    // Returns the residual that a limit on the work left, relative to the scores: 0, unless that limit was met.
    double solve(const double* scores, double* w) {
        x = scores, value = w;
        reserve();
        for (int i = 0; i < net.n; i++) refresh(i);
        wide = false;
        int at = 0;
        for (int i = 0; i < net.n; i++) {
            if (home[i] >= 0) continue;
            const int begin = at;
            at = grow_open(i, at);
            settle(begin, at);
        }
        for (int round = 0; round < MAX_ROUNDS; round++) {
            if (!join(round >= PATIENCE)) {
                unite();
                return residual;
            }
            // Cutting along what was full before is cheap but may undo what it did. Then regions are solved as one.
            wide = round >= 2;
            for (size_t k = 0; k + 1 < starts.size(); k++) settle(starts[k], starts[k + 1]);
        }
        net.edges([&](int i, int j, int e) {
            const double off = std::fabs(value[i] - value[j]) / (std::fabs(value[i]) + std::fabs(value[j]));
            if (wrong(i, j, e)) residual = std::max(residual, off);
        });
        return residual;
    }

private:
    using Base = RegionFlow<Net>;
    using Base::above, Base::below, Base::high, Base::low, Base::net, Base::ROUNDING;
    using Base::balanced, Base::excess, Base::flow, Base::parent, Base::push, Base::queue, Base::side;
    using typename Base::Flow;

    // Regions that grow by a node a round, as along a path, would take as many rounds as they will have nodes. After
    // some, all that is connected is solved as one: one more round, but for rounding.
    static constexpr int PATIENCE = 20, MAX_ROUNDS = 60;

    const double* x = nullptr;
    double* value = nullptr;
    double residual = 0;
    bool wide = false;
    int stamp = 0;                     // of the newest region
    std::vector<double> inflow, size;  // -div u, and the sum of the sizes of its terms
    std::vector<double> slack;         // what rounding does to values
    std::vector<int> home_;            // the region of a node
    int* home = nullptr;
    std::vector<int> before, order, spare, starts;
    std::vector<std::pair<int, int>> todo;

    void reserve() {
        const size_t n = size_t(net.n), pad = size_t(net.pad());
        if (order.size() != n || home_.size() != n + 2 * pad) {
            for (auto* v : {&inflow, &size, &slack}) v->resize(n);
            for (auto* v : {&before, &order, &spare}) v->resize(n);
            home_.assign(n + 2 * pad, 0);
            home = home_.data() + pad;
            Base::reserve_flow(n, pad);
        }
        std::fill(home, home + n, -1);
        residual = 0, stamp = 0;
    }

    ALWAYS void refresh(int i) {
        double sum = 0, terms = 0;
        net.arcs(i, [&](int, int, int e, bool forward) {
            sum += forward ? -net.u[e] : net.u[e];
            terms += std::fabs(net.u[e]);
        });
        inflow[i] = sum, size[i] = terms;
    }

    // Breadth first from a seed into order[at...]; returns the end. Nodes at home elsewhere are left alone.
    template <class Joined>
    ALWAYS int grow(int seed, int at, Joined joined) {
        const int id = ++stamp;
        int next = at;
        int *const order = this->order.data(), *const parent = this->parent.data(), *const home = this->home;
        home[seed] = id, order[at++] = seed;
        for (; next < at; next++) {
            const int i = order[next];
            net.select(
                i, [&](int j, int e, bool forward) { return (home[j] < 0) & int(joined(i, j, e, forward)); },
                [&](int a, int j) { home[j] = id, order[at++] = j, parent[j] = net.reverse(a); });
        }
        return at;
    }

    int grow_open(int seed, int at) {
        return grow(seed, at, [&](int, int, int e, bool) { return std::fabs(net.u[e]) < net.cap[e]; });
    }

    // Levels the region order[begin, end), cutting it where it must be cut.
    void settle(int begin, int end) {
        if (level(begin, end, false)) return;
        todo.clear();
        cut(begin, end);
        for (int cuts = 1; !todo.empty();) {
            const auto [b, e] = todo.back();
            todo.pop_back();
            // A region of m nodes has no more than m - 1 cuts.
            if (!level(b, e, cuts >= end - begin)) cut(b, e), cuts++;
        }
    }

    void cut(int begin, int end) {
        const int m = end - begin;
        std::copy(order.begin() + begin, order.begin() + end, spare.begin());
        for (int k = 0; k < m; k++) home[spare[k]] = -1, refresh(spare[k]);
        int at = begin;
        for (int k = 0; k < m; k++) {
            const int seed = spare[k], from = at;
            if (home[seed] >= 0) continue;
            at = wide ? grow(seed, at, [&](int i, int j, int e, bool) { return net.cap[e] > 0 && side[i] == side[j]; })
                      : grow_open(seed, at);
            todo.push_back({from, at});
        }
    }

    // Whether the region could be brought to one level; if not, the edges across a cut of it are full. If it must be
    // one, notes the residual that this leaves.
    bool level(int begin, int end, bool must) {
        const int m = end - begin, *const node = order.data() + begin;
        const double origin = x[*node];
        if (m == 1) {
            value[*node] = origin + inflow[*node], slack[*node] = ROUNDING * (std::fabs(origin) + size[*node]);
            return true;
        }
        // All is measured from one of the scores, however far from zero they are.
        double sum = 0, scale = 0;
        for (int k = 0; k < m; k++) {
            const int i = node[k];
            const double above = x[i] - origin;
            sum += excess[i] = above + inflow[i];
            scale = std::max(scale, std::fabs(above) + size[i]);
        }
        const double mean = sum / m, close = ROUNDING * scale;
        for (int k = 0; k < m; k++) excess[node[k]] -= mean;
        // All at once along the tree that found the region: enough for most, and a good start for the others.
        bool fits = true;
        for (int k = m - 1; k > 0; k--) {
            const int i = node[k];
            const Arc a = net.arc(i, parent[i]);
            const double f = excess[i];
            const double moved = f >= 0 ? push(a.edge, a.forward, f) : -push(a.edge, !a.forward, -f);
            excess[i] = moved == f ? 0 : f - moved;
            fits &= moved == f;
            excess[a.to] += moved;
        }
        const double enough = close * (16 + std::sqrt(m));
        if (!fits && !balanced(node, m, close, enough)) {
            const Flow found = flow(node, m, close, enough);
            if (found == Flow::cut && !must) return false;
            if (found != Flow::level) residual = std::max(residual, (high + low) / scale);
        }
        // From the scores and what crosses the border, free of the rounding of the flow inside.
        const int id = home[node[0]];
        double total = 0;
        for (int k = 0; k < m; k++) {
            total += x[node[k]] - origin;
            net.arcs(node[k], [&](int, int j, int e, bool forward) {
                total += home[j] == id ? 0 : forward ? -net.u[e] : net.u[e];
            });
        }
        const double found = origin + total / m;
        for (int k = 0; k < m; k++) value[node[k]] = found, slack[node[k]] = close + ROUNDING * std::fabs(found);
        return true;
    }

    // Whether the flow along an edge could still lower the one end and raise the other. (Hardly ever: no branches.)
    ALWAYS bool wrong(int i, int j, int e) const {
        const double fall = value[i] - value[j], u = net.u[e], cap = net.cap[e];
        const int could = ((u < cap) & (fall > 0)) | ((u > -cap) & (fall < 0));
        return __builtin_expect(could, 0) && !tied(i, j);
    }

    static uint64_t bits(double v) {
        uint64_t b;
        std::memcpy(&b, &v, sizeof b);
        return b;
    }

    bool tied(int i, int j) const { return std::fabs(value[i] - value[j]) <= slack[i] + slack[j]; }

    // New regions, order[starts[k], starts[k + 1]), of groups that edges join, where one of the edges calls for it;
    // whether any does.
    template <class Calls, class Joins>
    ALWAYS bool regroup(Calls calls, Joins joins) {
        std::vector<int>& seeds = queue;
        int found = 0;
        net.edges([&](int i, int j, int e) {
            if (__builtin_expect(calls(i, j, e), 0) && found < net.n) seeds[size_t(found++)] = i;
        });
        starts.clear();
        if (found == 0) return false;
        std::copy(home, home + net.n, before.begin());
        std::fill(home, home + net.n, -1);
        int at = 0;
        for (int k = 0; k < found; k++) {
            if (home[seeds[size_t(k)]] >= 0) continue;
            starts.push_back(at);
            at = grow(seeds[size_t(k)], at, [&](int i, int j, int e, bool forward) {
                return net.cap[e] > 0 && (before[i] == before[j] || (forward ? joins(i, j, e) : joins(j, i, e)));
            });
        }
        starts.push_back(at);
        for (int i = 0; i < net.n; i++) home[i] = home[i] < 0 ? before[i] : home[i];
        return true;
    }

    // Groups whose levels are the wrong way round become regions, or the whole of what they are connected with.
    bool join(bool whole) {
        const auto wrongs = [&](int i, int j, int e) { return wrong(i, j, e); };
        if (!regroup(wrongs, [&](int i, int j, int e) { return whole || wrong(i, j, e); })) return false;
        for (int k = 0; k < starts.back(); k++) refresh(order[size_t(k)]);
        return true;
    }

    // Neighbours that differ by rounding alone, on an edge that is just full, get the same value.
    void unite() {
        // 0 < difference <= slack in one comparison, of their bits: whether they differ at all is as good as random.
        const auto apart = [&](int i, int j, int) {
            return bits(std::fabs(value[i] - value[j])) - 1 < bits(slack[i] + slack[j]);
        };
        if (!regroup(apart, [&](int i, int j, int) { return tied(i, j); })) return;
        for (size_t k = 0; k + 1 < starts.size(); k++) {
            const double shared = value[order[size_t(starts[k])]];
            for (int at = starts[k]; at < starts[k + 1]; at++) value[order[size_t(at)]] = shared;
        }
    }
};

}  // namespace omegamax
