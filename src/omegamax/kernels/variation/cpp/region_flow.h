// A maximum flow inside a region of a graph, from the nodes above its level to those below: waves of breadth-first searches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "processor.h"

namespace omegamax {

constexpr double UNBOUNDED = 1e300;  // a capacity no flow comes near, yet one to compute with

struct Arc {
    int to, edge;
    bool forward;  // along the edge, or against it
};

// Net is a graph with a flow: n nodes, u[edge], cap[edge], and
//   arcs(i, f(arc, to, edge, forward)): all arcs of a node, those of capacity 0 and ones into the padding included;
//   select(i, wanted(to, edge, forward), f(arc, to)): f on those that are wanted;
//   arc(i, arc): the arc itself; reverse(arc): its index at the other end;
//   edges(f(i, j, edge)): all edges of positive capacity;
//   pad(): how far beyond [0, n) an arc may point.
template <class Net>
class RegionFlow {
protected:
    explicit RegionFlow(Net& net) : net(net) {}

    static constexpr int OUTSIDE = 1 << 30;
    static constexpr double ROUNDING = 16 * std::numeric_limits<double>::epsilon();

    Net& net;
    int above = 0, below = 0;    // nodes above and below the level that the region is to be brought to
    double high = 0, low = 0;    // by how much, in all
    std::vector<double> excess;  // of a node over the level of the region
    std::vector<int> seen_;      // whether a search has met a node
    int* seen = nullptr;
    std::vector<int> parent, live, queue;
    std::vector<signed char> side;  // of the cut

    void reserve_flow(size_t n, size_t pad) {
        excess.resize(n), side.resize(n);
        for (auto* v : {&parent, &live, &queue}) v->resize(n);
        seen_.assign(n + 2 * pad, OUTSIDE);
        seen = seen_.data() + pad;
    }

    double room(int e, bool forward) const { return forward ? net.cap[e] - net.u[e] : net.cap[e] + net.u[e]; }

    // Sends up to f >= 0; returns how much went. A full edge is at its capacity to the last bit, and one that is full
    // but for rounding is full: nothing is gained by sending dust through it.
    ALWAYS double push(int e, bool forward, double f) {
        const double most = room(e, forward), cap = net.cap[e];
        if (most - f <= ROUNDING * cap) {
            net.u[e] = forward ? cap : -cap;
            return std::min(most, f);
        }
        net.u[e] += forward ? f : -f;
        return f;
    }

    // Counts and sums what is above the level and what is below; whether either is no more than rounding.
    bool balanced(const int* node, int m, double close, double enough) {
        above = below = 0, high = low = 0;
        for (int k = 0; k < m; k++) {
            const double f = excess[node[k]];
            above += f > close, below += f < -close;
            high += f > close ? f : 0, low -= f < -close ? f : 0;
        }
        return high <= enough || low <= enough;
    }

    // A maximum flow from excess to deficit inside a region. Where it ends in a cut, marks the sides.
    enum class Flow { level, cut, limited };
    Flow flow(const int* node, int m, double close, double enough) {
        int count = m;
        for (int k = 0; k < m; k++) live[k] = node[k], side[node[k]] = 0;
        Flow found = Flow::limited;
        for (int64_t pass = 0; pass < 10000 + int64_t(m); pass++) {
            // From the fewer: what the many have to give or to take arrives in one wave.
            const bool met = below <= above ? wave<true>(count, close, above) : wave<false>(count, close, below);
            if (!balanced(live.data(), count, close, enough) && met) continue;
            found = count == m || balanced(node, m, close, enough) ? Flow::level : Flow::cut;
            break;
        }
        // What is still alive holds excess alone, or deficit alone, or neither.
        balanced(live.data(), count, close, enough);
        for (int k = 0; k < count; k++) side[live[k]] = high > low ? 1 : -1;
        for (int k = 0; k < m; k++) seen[node[k]] = OUTSIDE;
        if (found != Flow::level) balanced(node, m, close, enough);
        return found;
    }

    // A search from all deficits, up the arcs with room, until it has met all excess; then excess moves down the trees,
    // farthest first. With `down` false, excess and deficit change places. What the search cannot meet never will be
    // met again, and is dropped from the live. False if it met nothing.
    template <bool down>
    bool wave(int& count, double close, int wanted) {
        constexpr double sign = down ? 1 : -1;
        double* const excess = this->excess.data();
        int *const queue = this->queue.data(), *const live = this->live.data(), *const parent = this->parent.data();
        int* const seen = this->seen;
        int tail = 0, met = 0;
        for (int k = 0; k < count; k++) {
            const int i = live[k], root = sign * excess[i] < -close;
            queue[tail] = i, tail += root, seen[i] = root;
        }
        const int roots = tail;
        for (int k = 0; k < tail && met < wanted; k++)
            net.arcs(queue[k], [&](int a, int j, int e, bool forward) {
                if (seen[j] || !(room(e, forward != down) > 0)) return;
                seen[j] = 1, queue[tail++] = j, parent[j] = net.reverse(a);
                met += sign * excess[j] > close;
            });
        if (met < wanted) {
            int left = 0;
            for (int k = 0; k < count; k++) {
                const int i = live[k];
                if (seen[i]) live[left++] = i;
                else seen[i] = OUTSIDE, side[i] = down ? 1 : -1;
            }
            count = left;
        }
        for (int k = tail - 1; k >= roots; k--) {
            const int i = queue[k];
            const double have = sign * excess[i];
            if (!(have > 0)) continue;
            const Arc a = net.arc(i, parent[i]);
            const double moved = push(a.edge, a.forward == down, have);
            excess[i] = moved == have ? 0 : sign * (have - moved);
            excess[a.to] += sign * moved;
        }
        return met > 0;
    }
};

}  // namespace omegamax
