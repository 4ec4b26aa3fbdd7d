// A bound of the entries of all rows: a number, or one for each entry.
#pragma once

#include "../../cpp/simd.h"

namespace omegamax {

// The bounds of one row, in double.
template <class S>
struct RowBound {
    static constexpr int W = Simd<double>::W;
    const S* entries;  // null where all are `value`
    double value;
    MEMBER Vec<double> at(int64_t i, int64_t K) const {
        if (entries == nullptr) return splat<double>(value);
        return i + W <= K ? load<double>(entries + i) : load_some<double>(entries + i, int(K - i), 0.0);
    }
};

template <class S>
struct Bound {
    const S* entries;
    double value;
    int64_t stride;  // from row to row; 0 where all rows share theirs
    MEMBER RowBound<S> row(int64_t i) const { return {entries == nullptr ? nullptr : entries + i * stride, value}; }
};

// A row of scores or probabilities as vectors of double; `fill` stands behind its end.
template <class S>
struct DoubleRow {
    static constexpr int W = Simd<double>::W;
    const S* z;
    int64_t K;
    int64_t vectors() const { return (K + W - 1) / W; }
    MEMBER Vec<double> at(int64_t i, double fill) const {
        const int64_t from = i * W;
        return from + W <= K ? load<double>(z + from) : load_some<double>(z + from, int(K - from), fill);
    }
    MEMBER void put(S* p, int64_t i, Vec<double> v) const {
        const int64_t from = i * W;
        if (from + W <= K) store<double>(p + from, v);
        else store_some<double>(p + from, v, int(K - from));
    }
    // Fills a row with no finite maximum, and tells whether it is one: nothing left gives zeros, NaN and +inf give NaN.
    bool fill_edge_case(double top, S* p) const {
        if (std::isfinite(top)) return false;
        std::fill(p, p + K, top == -INF ? S(0) : S(NAN));
        return true;
    }
};

}  // namespace omegamax
