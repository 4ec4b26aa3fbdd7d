// Normmax: the formula of a probability, and the threshold l at which sum [1 + u - l]_+^q = 1, q = alpha / (alpha - 1),
// for scores u with maximum 0.
//
// For large alpha the probabilities, powers 1 / (alpha - 1) of the heights 1 + u - l, rise from zero like a high root. So
// a height is needed with all its digits: where one score leads all others by nearly 1, l is next to nothing and the
// heights 1 + u exact, and where it leads by 1 they are exactly 0.
#pragma once

#include "entmax.h"

namespace omegamax {

template <class T>
struct NormUniform : Linear<T> {  // normmax, alpha = inf: equal shares on the support of sparsemax
    MEMBER Vec<T> output(Vec<T> t) const { return keep<T>(t > 0, splat<T>(1)); }
};

template <class T>
struct NormSquare {  // normmax, alpha = 2
    static constexpr bool polynomial = true;
    static constexpr T reach = 1;
    const Vec<T> tolerance = splat<T>(T(last_step(0.5, rounding<T>)));
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        weight = maximum<T>(t, Vec<T>{});
        p = weight * weight;
    }
    MEMBER Vec<T> step(Vec<T> excess, Vec<T> r) const {
        Vec<T> root = square_root<T>(excess + T(1));
        return root * excess / ((root + T(1)) * r);
    }
    MEMBER Vec<T> output(Vec<T> t) const { return maximum<T>(t, Vec<T>{}); }
};

template <class T, class S>
struct NormGeneral {  // normmax, any alpha; its threshold is in norm.h, and leaves logarithms
    static constexpr bool polynomial = false;
    static constexpr bool lean = sizeof(S) < sizeof(T);
    static constexpr int exp_terms = lean ? 9 : Simd<T>::exp_terms, log_terms = lean ? 7 : Simd<T>::log_terms;
    Vec<T> exponent;  // 1 / (alpha - 1)
    explicit NormGeneral(Vec<T> exponent) : exponent(exponent) {}
    MEMBER T edge() const { return -1; }
    MEMBER Vec<T> output(Vec<T> t) const {
        return keep<T>(t > T(-INF), exponential<T, exp_terms>(t * exponent));
    }
};

// Logarithms of the heights, -inf off the support.
template <class T, class S>
INLINE Vec<T> log_height(const NormGeneral<T, S>&, Vec<T> u, Vec<T> l) {
    const Vec<T> height = (u + T(1)) - l, safe = maximum<T>(height, splat<T>(std::numeric_limits<T>::min()));
    const Vec<T> logarithm = logarithm_parts<T, NormGeneral<T, S>::log_terms>(safe, u - l);
    return select<T>(height > 0, logarithm, splat<T>(T(-INF)));
}

// exp(y) - 1
template <class T> INLINE Vec<T> exponential_minus_one(Vec<T> y) { return y * exponential_quotient<T>(y); }

// Turns the scores into the logarithms of their heights above the threshold, which then is 0. Newton's method on the
// q-norm of the heights, convex and decreasing in l, from below: for q <= 2 from the threshold of alpha = 2, else from
// that of the leaders alone.
template <bool ACROSS, class T, class S>
INLINE Root<T> general_threshold(const NormGeneral<T, S>& power, Vec<T>* x, int64_t n) {
    auto total = [](Vec<T> v) __attribute__((always_inline)) { return ACROSS ? across_sum<T>(v) : v; };
    Int<T> active = Vec<T>{} == Vec<T>{};
    Vec<T> l{}, leaders{};
    for (int64_t i = 0; i < n; i++) leaders += keep<T>(x[i] == 0, splat<T>(1));
    leaders = total(leaders);
    while (any<T>(active)) {
        Vec<T> square{}, sum{};
        for (int64_t i = 0; i < n; i++) {
            const Vec<T> height = maximum<T>((x[i] + T(1)) - l, Vec<T>{});
            square += height * height, sum += height;
        }
        square = total(square), sum = total(sum);
        const Vec<T> step = (square - square_root<T>(square)) / sum;
        l = select<T>(active, l + maximum<T>(step, Vec<T>{}), l);
        active &= step > T(0.01) * l;
    }
    const Vec<T> q = power.exponent + T(1);
    l = select<T>(q > T(2), -exponential_minus_one<T>(-logarithm<T>(leaders) / q), l);
    constexpr T exact = NormGeneral<T, S>::lean ? T(1e-11) : 4 * std::numeric_limits<T>::epsilon();
    active = Vec<T>{} == Vec<T>{};
    for (int round = 0; round < 100 && any<T>(active); round++) {
        Sum<T> masses, slopes;
        for (int64_t i = 0; i < n; i++) {
            const Vec<T> weight = power.output(log_height(power, x[i], l));
            slopes += weight;
            masses += keep<T>(x[i] != 0, weight * maximum<T>((x[i] + T(1)) - l, Vec<T>{}));
        }
        const Vec<T> mass = masses.template value<ACROSS>(), slope = slopes.template value<ACROSS>();
        // The leaders' powers measured from 1: with one of them, the sum minus one is then as accurate as l.
        const Vec<T> lead = exponential_minus_one<T>(q * log_height(power, Vec<T>{}, l));
        const Vec<T> excess = mass + (leaders - T(1)) * (lead + T(1)) + lead;
        const Vec<T> above = exponential_minus_one<T>(log_one_plus<T>(excess) / q);
        const Vec<T> step = above * (excess + T(1)) / (slope * (above + T(1)));
        l = select<T>(active, l + maximum<T>(step, Vec<T>{}), l);
        active &= step > exact * l;
    }
    for (int64_t i = 0; i < n; i++) x[i] = log_height(power, x[i], l);
    return {DoubleWord<T>{}, Vec<T>{}};
}

}  // namespace omegamax
