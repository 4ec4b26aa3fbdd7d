// Dependency trees, crossing or not: the algorithm of Chu, Liu and Edmonds for a dense graph, O(n^2).
#pragma once

#include <algorithm>

#include "oracle.h"

namespace omegamax {

// Words and the tree above them: unary [n, n], entry (modifier, head); the diagonal attaches a word to the root.
class Trees : public Oracle {
   public:
    Trees(int64_t n, bool single_root) : n_(n), single_(single_root) {}

    int64_t most_ones() const override { return n_; }

    void centre(double* unary, double*, Index*) override { centre_groups(unary, n_, n_); }

    // One head a word, one word or more below the root, and no way from a word back to itself.
    bool valid(const Index* ones, int64_t count) override {
        if (count != n_) return false;
        int64_t roots = 0;
        for (int64_t m = 0; m < n_; m++) {
            if (ones[m] / n_ != m) return false;
            roots += ones[m] % n_ == m;
        }
        if (single_ && roots > 1) return false;
        for (int64_t m = 0; m < n_; m++) {
            int64_t at = m, steps = 0;
            for (; ones[at] % n_ != at; at = ones[at] % n_)
                if (++steps >= n_) return false;
        }
        return true;
    }

   protected:
    const int64_t n_;
    const bool single_;
};

class Arborescences : public Trees {
   public:
    Arborescences(int64_t n, bool single_root)
        : Trees(n, single_root), weight_(n * (n + 1)), penalty_(single_root ? n * (n + 1) : 0), word_(n * (n + 1)),
          top_(n), node_(2 * n) {
        path_.reserve(n);
    }

    int64_t maximize(const double* unary, const double*, Index* ones) override {
        if (!search<false>(unary)) return -1;
        int64_t roots = write(ones);
        // The best tree of all mostly has one root by itself.
        if (single_ && roots > 1) {
            search<true>(unary);
            roots = write(ones);
            if (roots > 1) return -1;
        }
        return n_;
    }

   private:
    enum State : uint8_t { NEW, ON_PATH, SETTLED };

    // A word, or a cycle that was contracted.
    struct Node {
        Index row;             // where its entering edges are
        Index parent;          // the cycle it is in, or -1
        Index head, modifier;  // the best edge that enters it
        double weight;
        int32_t penalty;
        State state;
    };

    std::vector<double> weight_;    // [row, head]: the best edge from a head (n: the root) into any word of the node,
    std::vector<int32_t> penalty_;  // 1 if it is from the root; counts more than any weight; and all that relative to
    std::vector<Index> word_;       // the edge it would replace; the word it enters
    std::vector<Index> top_;        // the outermost node that a word is in
    std::vector<Node> node_;
    std::vector<Index> path_;

    // Follows best entering edges backwards until they come to the root, or to a node from which they did before; a
    // cycle on the way becomes one node. Weights may be of any ordered group: (-penalty, weight) asks for the fewest
    // edges from the root, exactly, where a large constant added to the weights would round them.
    template <bool PENALTY>
    bool search(const double* unary) {
        const int64_t width = n_ + 1;
        for (int64_t m = 0; m < n_; m++) {
            double* weight = weight_.data() + m * width;
            std::copy_n(unary + m * n_, n_, weight);
            weight[n_] = weight[m];
            weight[m] = FORBIDDEN;
            std::fill_n(word_.data() + m * width, width, Index(m));
            if (PENALTY) {
                std::fill_n(penalty_.data() + m * width, n_, 0);
                penalty_[m * width + n_] = 1;
            }
            top_[m] = Index(m);
            node_[m] = {Index(m), -1, 0, 0, 0, 0, NEW};
        }
        nodes_ = n_;
        for (int64_t start = 0; start < n_; start++) {
            Index v = top_[start];
            if (node_[v].state == SETTLED) continue;
            path_.clear();
            for (;;) {
                if (!enter<PENALTY>(v)) return false;
                node_[v].state = ON_PATH;
                path_.push_back(v);
                const Index head = node_[v].head;
                if (head == n_) break;
                const Index from = top_[head];
                if (node_[from].state == SETTLED) break;
                v = node_[from].state == ON_PATH ? contract<PENALTY>(from) : from;
            }
            for (Index p : path_) node_[p].state = SETTLED;
        }
        return true;
    }

    // Whether an edge, there (not -inf) or not, is better than another.
    template <bool PENALTY>
    static bool better(double weight, int32_t penalty, double than, int32_t than_penalty) {
        if (!PENALTY || penalty == than_penalty) return weight > than;
        return weight > FORBIDDEN && (penalty < than_penalty || !(than > FORBIDDEN));
    }

    template <bool PENALTY>
    bool enter(Index v) {
        Node& node = node_[v];
        const double* weight = weight_.data() + node.row * (n_ + 1);
        const int32_t* penalty = PENALTY ? penalty_.data() + node.row * (n_ + 1) : nullptr;
        int64_t best = 0;
        for (int64_t h = 1; h <= n_; h++)
            if (better<PENALTY>(weight[h], PENALTY ? penalty[h] : 0, weight[best], PENALTY ? penalty[best] : 0)) best = h;
        node.head = Index(best);
        node.modifier = word_[node.row * (n_ + 1) + best];
        node.weight = weight[best];
        if (PENALTY) node.penalty = penalty[best];
        return node.weight > FORBIDDEN;
    }

    // The path from `first` to its end is a cycle: an edge into one of its nodes is worth what it gains over the edge
    // of the cycle that it would replace. Returns the new node, which takes over the row of the first.
    template <bool PENALTY>
    Index contract(Index first) {
        const int64_t width = n_ + 1;
        const Index cycle = Index(nodes_++), row = node_[first].row;
        double* weight = weight_.data() + row * width;
        for (int64_t h = 0; h < width; h++) weight[h] -= node_[first].weight;
        if (PENALTY)
            for (int64_t h = 0; h < width; h++) penalty_[row * width + h] -= node_[first].penalty;
        for (Index member = path_.back(); member != first; member = path_.back()) {
            merge<PENALTY>(row, node_[member]);
            node_[member].parent = cycle;
            path_.pop_back();
        }
        node_[first].parent = cycle;
        path_.pop_back();
        for (int64_t m = 0; m < n_; m++) {
            if (node_[top_[m]].parent != cycle) continue;
            top_[m] = cycle;
            weight[m] = FORBIDDEN;
        }
        node_[cycle] = {row, -1, 0, 0, 0, 0, NEW};
        return cycle;
    }

    // Edges into a member of a cycle, where they are better than those already in the row of the cycle.
    template <bool PENALTY>
    void merge(Index row, const Node& member) {
        const int64_t width = n_ + 1;
        for (int64_t to = row * width, from = member.row * width; to < (row + 1) * width; to++, from++) {
            const double weight = weight_[from] - member.weight;
            const int32_t penalty = PENALTY ? penalty_[from] - member.penalty : 0;
            if (!better<PENALTY>(weight, penalty, weight_[to], PENALTY ? penalty_[to] : 0)) continue;
            weight_[to] = weight;
            if (PENALTY) penalty_[to] = penalty;
            word_[to] = word_[from];
        }
    }

    // Opens the cycles, last first: each gives up the edge into the word where it is entered.
    int64_t write(Index* ones) {
        for (int64_t cycle = nodes_ - 1; cycle >= n_; cycle--) {
            Index member = node_[cycle].modifier;
            while (node_[member].parent != cycle) member = node_[member].parent;
            node_[member].head = node_[cycle].head;
            node_[member].modifier = node_[cycle].modifier;
        }
        int64_t roots = 0;
        for (int64_t m = 0; m < n_; m++) {
            const bool root = node_[m].head == n_;
            ones[m] = Index(m * n_ + (root ? m : node_[m].head));
            roots += root;
        }
        return roots;
    }

    int64_t nodes_ = 0;
};

}  // namespace omegamax
