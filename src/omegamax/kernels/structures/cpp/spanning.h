// Spanning trees of an undirected graph: Prim's algorithm.
#pragma once

#include <algorithm>

#include "oracle.h"

namespace omegamax {

// A structure is the set of the edges of a tree; `graph` holds the first ends of all edges, then the second.
class SpanningTrees : public Oracle {
   public:
    SpanningTrees(int64_t nodes, const int64_t* graph, int64_t edges)
        : nodes_(nodes), edges_(edges), graph_(graph), first_(nodes + 1), near_(2 * edges), best_(nodes), by_(nodes) {
        for (int64_t i = 0; i < 2 * edges; i++) first_[graph[i] + 1]++;
        for (int64_t v = 0; v < nodes; v++) first_[v + 1] += first_[v];
        std::vector<int64_t> next(first_.begin(), first_.end() - 1);
        for (int64_t e = 0; e < edges; e++)
            for (int side = 0; side < 2; side++)
                near_[next[graph[side * edges + e]]++] = {graph[(1 - side) * edges + e], Index(e)};
    }

    int64_t most_ones() const override { return std::max<int64_t>(nodes_ - 1, 0); }

    int64_t maximize(const double* unary, const double*, Index* ones) override {
        std::fill(best_.begin(), best_.end(), FORBIDDEN);
        std::fill(by_.begin(), by_.end(), NONE);
        if (nodes_) by_[0] = INSIDE;
        int64_t newest = 0, count = 0;
        for (; count + 1 < nodes_; count++) {
            for (int64_t i = first_[newest]; i < first_[newest + 1]; i++) {
                const auto [v, e] = near_[i];
                if (by_[v] != INSIDE && unary[e] > best_[v]) best_[v] = unary[e], by_[v] = e;
            }
            best_[newest] = FORBIDDEN;
            newest = std::max_element(best_.begin(), best_.end()) - best_.begin();
            if (!(best_[newest] > FORBIDDEN)) return -1;
            ones[count] = by_[newest];
            by_[newest] = INSIDE;
        }
        std::sort(ones, ones + count);
        return count;
    }

    bool valid(const Index* ones, int64_t count) override {
        if (count != most_ones()) return false;
        for (int64_t v = 0; v < nodes_; v++) by_[v] = Index(v);
        for (int64_t i = 0; i < count; i++) {
            const Index a = by_[graph_[ones[i]]], b = by_[graph_[edges_ + ones[i]]];
            if (a == b) return false;
            std::replace(by_.begin(), by_.end(), a, b);
        }
        return true;
    }

    void centre(double* unary, double* extra, Index* scratch) override {
        centre_equal(*this, unary, edges_, extra, scratch);
    }

   private:
    static constexpr Index NONE = -1, INSIDE = -2;
    struct Neighbour {
        int64_t node;
        Index edge;
    };
    const int64_t nodes_, edges_;
    const int64_t* graph_;
    std::vector<int64_t> first_;  // neighbours of v: near_[first_[v]] up to near_[first_[v + 1]]
    std::vector<Neighbour> near_;
    std::vector<double> best_;  // the greatest score of an edge between a node outside and the tree, and that edge
    std::vector<Index> by_;
};

}  // namespace omegamax
