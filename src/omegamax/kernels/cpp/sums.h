// Sums that keep their digits in long rows, in double, and thresholds as double words.
#pragma once

#include "simd.h"

namespace omegamax {

// Vectors that are added up in their own precision before they go to a Total: few, because the rounding of equal values
// adds up rather than cancels. Short rows, one to a lane, should take one block.
constexpr int64_t BLOCK = 16, LANE_BLOCK = 32;
template <bool ACROSS> constexpr int64_t block_of = ACROSS ? BLOCK : LANE_BLOCK;

// A sum in double, lane by lane, of vectors of T.
template <class T>
struct Total;

template <>
struct Total<double> {
    Vec<double> sum{};
    MEMBER void add(Vec<double> v) { sum += v; }
    MEMBER void set(int lane, double value) { sum[lane] = value; }
    MEMBER void across() { sum = across_sum<double>(sum); }
    MEMBER Vec<double> minus(const Total& other) const { return sum - other.sum; }
    MEMBER Vec<double> plus(const Total& more, const Total& less) const { return sum + (more.sum - less.sum); }
    MEMBER Vec<double> minus(double other) const { return sum - other; }
};

template <>
struct Total<float> {
    typedef float Half __attribute__((vector_size(BYTES / 2)));
    Vec<double> low{}, high{};  // of the first and the second half of the lanes
    MEMBER void add(Vec<float> v) {
        Half half[2];
        std::memcpy(half, &v, sizeof half);
        low += __builtin_convertvector(half[0], Vec<double>);
        high += __builtin_convertvector(half[1], Vec<double>);
    }
    MEMBER void set(int lane, double value) {
        constexpr int W = Simd<double>::W;
        if (lane < W) low[lane] = value;
        else high[lane - W] = value;
    }
    MEMBER void across() { low = high = across_sum<double>(low + high); }
    MEMBER Vec<float> minus(const Total& other) const { return join(low - other.low, high - other.high); }
    MEMBER Vec<float> plus(const Total& more, const Total& less) const {
        return join(low + (more.low - less.low), high + (more.high - less.high));
    }
    MEMBER Vec<float> minus(double other) const { return join(low - other, high - other); }

   private:
    static MEMBER Vec<float> join(Vec<double> low, Vec<double> high) {
        const Half half[2] = {__builtin_convertvector(low, Half), __builtin_convertvector(high, Half)};
        Vec<float> v;
        std::memcpy(&v, half, sizeof v);
        return v;
    }
};

// A Total that is given one vector at a time.
template <class T>
struct Sum {
    Total<T> total;
    Vec<T> block{};
    int64_t count = 0;
    MEMBER void operator+=(Vec<T> v) {
        // Double needs no blocks; and GCC 12 fails on the branch of skip() for vectors of two.
        if constexpr (std::is_same<T, double>::value) return total.add(v);
        block += v;
        skip();
    }
    // In place of adding zeros: blocks end where they do in any case, so that lanes do not see each other's zeros.
    MEMBER void skip() {
        if (std::is_same<T, float>::value && ++count % BLOCK == 0) flush();
    }
    // The sum of every lane, or of all ACROSS the lanes, in each.
    template <bool ACROSS>
    MEMBER Vec<T> value() {
        flush();
        if (ACROSS) total.across();
        return total.minus(0.0);
    }

   private:
    MEMBER void flush() {
        total.add(block);
        block = Vec<T>{};
    }
};

// A threshold as a double word: the sum of two floats, the second within the rounding of the first. Scores lose no
// digits to it: what is close to `high` is subtracted exactly, and the difference of anything else is about as large as
// the result.
template <class T>
struct DoubleWord {
    Vec<T> high, low;
    MEMBER Vec<T> distance(Vec<T> score) const { return (score - high) - low; }
    MEMBER Vec<T> minus(const DoubleWord& other) const { return (high - other.high) + (low - other.low); }
    MEMBER DoubleWord plus(Vec<T> by) const {  // Knuth's TwoSum
        by += low;
        const Vec<T> sum = high + by, back = sum - high;
        return {sum, (high - (sum - back)) + (by - back)};
    }
    // The same in half the time, up to a rounding of `by`, for a search that looks where it has come to.
    MEMBER DoubleWord plus_fast(Vec<T> by) const {
        by += low;
        const Vec<T> sum = high + by;
        return {sum, by - (sum - high)};
    }
};

template <class T> INLINE DoubleWord<T> select_word(Int<T> where, const DoubleWord<T>& yes, const DoubleWord<T>& no) {
    return {select<T>(where, yes.high, no.high), select<T>(where, yes.low, no.low)};
}

}  // namespace omegamax
