// Total variation on any graph with weighted edges.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "levels.h"
#include "relax.h"

namespace omegamax {

// Edges as they came, and the arcs of each node, once for all rows. Loops are left out.
struct Wiring {
    int n = 0, count = 0;
    const int64_t *tail = nullptr, *head = nullptr;
    const double* weight = nullptr;
    std::vector<int> start, to, edge, twin;  // arcs of node i: [start[i], start[i + 1]); twin: the same edge, other end
    std::vector<char> forward;

    Wiring(int nodes, int edges, const int64_t* pairs, const double* weights)
        : n(nodes), count(edges), tail(pairs), head(pairs + edges), weight(weights), start(size_t(nodes) + 1) {
        for (int e = 0; e < count; e++)
            if (tail[e] != head[e]) start[size_t(tail[e]) + 1]++, start[size_t(head[e]) + 1]++;
        for (int i = 0; i < n; i++) start[size_t(i) + 1] += start[size_t(i)];
        const size_t arcs = size_t(start[size_t(n)]);
        to.resize(arcs), edge.resize(arcs), twin.resize(arcs), forward.resize(arcs);
        std::vector<int> next(start.begin(), start.end() - 1);
        for (int e = 0; e < count; e++) {
            if (tail[e] == head[e]) continue;
            const int a = next[size_t(tail[e])]++, b = next[size_t(head[e])]++;
            to[size_t(a)] = int(head[e]), to[size_t(b)] = int(tail[e]);
            edge[size_t(a)] = edge[size_t(b)] = e;
            twin[size_t(a)] = b, twin[size_t(b)] = a;
            forward[size_t(a)] = 1;
        }
    }
};

struct Graph {
    const Wiring& wiring;
    int n;
    std::vector<double> flows, limits;
    double *u, *cap;

    explicit Graph(const Wiring& wiring)
        : wiring(wiring), n(wiring.n), flows(size_t(wiring.count)), limits(size_t(wiring.count)), u(flows.data()),
          cap(limits.data()) {}
    Graph(const Graph&) = delete;

    static int pad() { return 0; }
    int reverse(int arc) const { return wiring.twin[size_t(arc)]; }

    ALWAYS Arc arc(int, int a) const {
        return {wiring.to[size_t(a)], wiring.edge[size_t(a)], bool(wiring.forward[size_t(a)])};
    }

    template <class F>
    ALWAYS void arcs(int i, F f) const {
        for (int a = wiring.start[size_t(i)]; a < wiring.start[size_t(i) + 1]; a++) {
            const Arc arc = this->arc(i, a);
            f(a, arc.to, arc.edge, arc.forward);
        }
    }

    template <class Wanted, class F>
    ALWAYS void select(int i, Wanted wanted, F f) const {
        arcs(i, [&](int a, int j, int e, bool forward) {
            if (wanted(j, e, forward)) f(a, j);
        });
    }

    template <class F>
    ALWAYS void edges(F f) const {
        for (int e = 0; e < wiring.count; e++)
            if (cap[e] > 0) f(int(wiring.tail[e]), int(wiring.head[e]), e);
    }

    template <class There>
    void fill(double strength, There there) {
        for (int e = 0; e < wiring.count; e++) {
            const int64_t i = wiring.tail[e], j = wiring.head[e];
            const double limit = std::min(strength * wiring.weight[e], UNBOUNDED);
            cap[e] = i != j && there(i) && there(j) && limit > 0 ? limit : 0;
            u[e] = 0;
        }
    }
};

class GraphSolver {
public:
    explicit GraphSolver(const Wiring& wiring) : net(wiring) {}

    // As GridSolver.
    template <class There>
    double solve(const double* x, double strength, There there, double* w) {
        net.fill(strength, there);
        level.assign(x, x + net.n);
        relax(net, level.data());
        return levels.solve(x, w);
    }

private:
    Graph net;
    Levels<Graph> levels{net};
    std::vector<double> level;
};

}  // namespace omegamax
