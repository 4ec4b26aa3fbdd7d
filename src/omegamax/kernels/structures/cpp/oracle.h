// What SparseMAP asks of a family of structures.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace omegamax {

constexpr double FORBIDDEN = -std::numeric_limits<double>::infinity();

using Index = int32_t;

// A family of structures, each known by its ones among the unary scores, in ascending order; these also say which of the
// additional scores it has. An object belongs to one thread: it holds the memory that its calls need.
class Oracle {
   public:
    virtual ~Oracle() = default;

    // The most ones that a structure has, among the unary and among the additional scores.
    virtual int64_t most_ones() const = 0;
    virtual int64_t most_extras() const { return 0; }

    // How many additional scores there are.
    virtual int64_t additional() const { return 0; }

    // A structure of the greatest total score, written to `ones`; returns how many ones it has, or -1 where scores of -inf
    // forbid every structure. Scores hold neither NaN nor +inf.
    virtual int64_t maximize(const double* unary, const double* extra, Index* ones) = 0;

    // Writes the ones of a structure among the additional scores; returns how many there are.
    virtual int64_t extras(const Index*, int64_t, Index*) const { return 0; }

    // Whether these ones are a structure of the family.
    virtual bool valid(const Index* ones, int64_t count) = 0;

    // Takes from the scores what all structures have in common: the solution stays, and rounding becomes relative to the
    // differences between scores rather than to the scores. `scratch` has room for a structure.
    virtual void centre(double* unary, double* extra, Index* scratch) = 0;
};

// For structures that have one of each `width` scores in turn: the greatest of these becomes 0.
inline void centre_groups(double* scores, int64_t groups, int64_t width) {
    for (int64_t g = 0; g < groups; g++, scores += width) {
        double top = FORBIDDEN;
        for (int64_t i = 0; i < width; i++) top = scores[i] > top ? scores[i] : top;
        if (!(top > FORBIDDEN)) continue;
        for (int64_t i = 0; i < width; i++) scores[i] -= top;
    }
}

// For structures that all have equally many ones: the least unary of the best structure becomes 0.
inline void centre_equal(Oracle& oracle, double* unary, int64_t n, const double* extra, Index* scratch) {
    const int64_t count = oracle.maximize(unary, extra, scratch);
    if (count <= 0) return;
    double least = unary[scratch[0]];
    for (int64_t i = 1; i < count; i++) least = unary[scratch[i]] < least ? unary[scratch[i]] : least;
    for (int64_t i = 0; i < n; i++) unary[i] -= least;
}

}  // namespace omegamax
