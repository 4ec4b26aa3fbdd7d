// What a search for SparseMAP starts from, is limited by, and finds.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "oracle.h"

namespace omegamax {

struct Limits {
    double tol;
    int64_t max_iter;
    int64_t max_tied;  // structures, with those that only tie
};

// Structures with their weights, heaviest first; where there is none, the residual says why. Those without weight tie
// with the others.
struct Solution {
    static constexpr double INVALID = std::numeric_limits<double>::quiet_NaN();     // scores of NaN or +inf
    static constexpr double INFEASIBLE = std::numeric_limits<double>::infinity();  // every structure forbidden
    std::vector<Index> ones, extras;              // among the unary and the additional scores, one structure after
    std::vector<Index> ones_count, extras_count;  // another, and how many each has
    std::vector<double> weights;
    int64_t iterations = 0;
    double residual = 0;
};

// Where to start from: structures of an earlier solution, or what is said to be some.
struct Start {
    const Index* ones = nullptr;
    const Index* ones_count = nullptr;
    const double* weights = nullptr;
    int64_t count = 0;
    bool trusted = false;
};

// Adds up the ones of structures by their weights, the heaviest first: exactly 1 where all those with weight have a one.
inline void mix_structures(const std::vector<Index>& ones, const std::vector<Index>& count,
                           const std::vector<double>& weights, double* out, std::vector<Index>& cover) {
    std::fill(cover.begin(), cover.end(), 0);
    const Index* at = ones.data();
    Index heavy = 0;
    for (; heavy < Index(count.size()) && weights[heavy] > 0; heavy++)
        for (Index i = 0; i < count[heavy]; i++, at++) {
            out[*at] += weights[heavy];
            cover[*at]++;
        }
    if (heavy == 0) return;
    for (size_t i = 0; i < cover.size(); i++) out[i] = cover[i] == heavy ? 1 : std::min(out[i], 1.0);
}

}  // namespace omegamax
