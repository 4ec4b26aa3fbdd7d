// Entmax for alpha <= 2: the formula of a probability, as cheap as alpha allows, and the threshold at which a row sums to
// one. With e = alpha - 1, a formula has for t, a score minus the threshold:
//   terms    p and its weight p^(1 - e),
//   step     the Newton step of the threshold from the excess s - 1 of s = sum p, and r = sum of the weights,
//   output   the probability up to a factor: p itself for entmax, p^(1/alpha) for normmax,
//   polynomial   whether p is a polynomial of t on the support.
// Polynomials take the scores as they are: p = [t / reach]_+^(1/e), the threshold tau being the edge of the support, which
// is at most `reach` below the largest score. The others take scaled scores of which the largest is 0:
// p = exp_e(t) = [1 + e t]_+^(1/e), which stays accurate down to e = 0.
#pragma once

#include "../../cpp/sums.h"

namespace omegamax {

// How close to one the sum must be for the step that follows to be the last. Newton's error is squared where the sum is
// smooth; an entry that leaves the support adds about the distance to the power 1/e. `goal` is the error aimed at.
INLINE double last_step(double e, double goal) { return std::pow(goal, std::max(e, 0.5)); }
template <class T> constexpr double rounding = std::numeric_limits<T>::epsilon() / 2;

template <class T>
struct Linear {  // e = 1: sparsemax
    static constexpr bool polynomial = true;
    static constexpr T reach = 1;
    const Vec<T> tolerance = splat<T>(T(last_step(1, 4 * rounding<T>)));
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        p = maximum<T>(t, Vec<T>{});
        weight = keep<T>(t > 0, splat<T>(1));
    }
    MEMBER Vec<T> step(Vec<T> excess, Vec<T> r) const { return excess / r; }
    MEMBER Vec<T> output(Vec<T> t) const { return maximum<T>(t, Vec<T>{}); }
};

template <class T>
struct Square {  // e = 1/2: entmax15
    static constexpr bool polynomial = true;
    static constexpr T reach = 2;
    const Vec<T> tolerance = splat<T>(T(last_step(0.5, rounding<T>)));
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        weight = maximum<T>(t * T(0.5), Vec<T>{});
        p = weight * weight;
    }
    // 2 (s - sqrt(s)) / r
    MEMBER Vec<T> step(Vec<T> excess, Vec<T> r) const {
        Vec<T> root = square_root<T>(excess + T(1));
        return T(2) * root * excess / ((root + T(1)) * r);
    }
    MEMBER Vec<T> output(Vec<T> t) const {
        Vec<T> w = maximum<T>(t * T(0.5), Vec<T>{});
        return w * w;
    }
};

// (exp(y) - 1) / y, accurate through y = 0.
template <class T> INLINE Vec<T> exponential_quotient(Vec<T> y) {
    constexpr int terms = Simd<T>::exp_terms;
    Vec<T> series = splat<T>(T(INVERSE_FACTORIAL[terms + 1]));
#pragma GCC unroll 16
    for (int k = terms; k > 0; k--) series = series * y + T(INVERSE_FACTORIAL[k]);
    Int<T> small = maximum<T>(y, -y) < T(0.5);
    Vec<T> direct = (exponential<T>(y) - T(1)) / y;
    return select<T>(small, series, direct);
}

// s / r * (1 - s^(-e)) / e, accurate down to e = 0, where it is log(s).
template <class T> INLINE Vec<T> newton_step(Vec<T> excess, Vec<T> r, Vec<T> e) {
    const Vec<T> s = excess + T(1), log_s = log_one_plus<T>(excess);
    return s / r * log_s * exponential_quotient<T>(-e * log_s);
}

template <class T>
struct IntegerPower {  // 1/e an integer: alpha = 4/3, 1.25, 1.2, ...
    static constexpr bool polynomial = true;
    const Vec<T> tolerance = splat<T>(T(last_step(0.5, rounding<T>)));
    T e, reach;
    int power;
    explicit IntegerPower(double e) : e(T(e)), reach(T(1 / e)), power(int(std::lround(1 / e))) {}
    MEMBER Vec<T> base(Vec<T> t) const { return maximum<T>(t * e, Vec<T>{}); }
    MEMBER Vec<T> raise(Vec<T> w, int n) const {
        Vec<T> out = n & 1 ? w : splat<T>(1);
        while (n >>= 1) {
            w *= w;
            if (n & 1) out *= w;
        }
        return out;
    }
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        Vec<T> w = base(t);
        weight = raise(w, power - 1);
        p = weight * w;
    }
    MEMBER Vec<T> step(Vec<T> excess, Vec<T> r) const { return newton_step<T>(excess, r, splat<T>(e)); }
    MEMBER Vec<T> output(Vec<T> t) const { return raise(base(t), power); }
};

template <class T, class S>
struct General {  // any e <= 1, one for each lane; results go to S
    static constexpr bool polynomial = false;
    static constexpr bool lean = sizeof(S) < sizeof(T);
    static constexpr int exp_terms = lean ? 9 : Simd<T>::exp_terms, log_terms = lean ? 7 : Simd<T>::log_terms;
    Vec<T> e, inverse, tolerance;
    explicit General(Vec<T> e) : e(e), inverse(select<T>(e == 0, Vec<T>{}, T(1) / e)) {
        for (int i = 0; i < Simd<T>::W; i++)
            tolerance[i] = i && e[i] == e[i - 1] ? tolerance[i - 1] : T(last_step(e[i], lean ? 1e-11 : rounding<T>));
    }
    // The scaled score below which p vanishes if the threshold is 0. Asked for where e is the same in every lane.
    MEMBER T edge() const { return e[0] > 0 ? -inverse[0] : T(-INF); }
    // The logarithm of [1 + e t]_+^(factor), or t itself where e = 0.
    MEMBER Vec<T> log_power(Vec<T> t, Vec<T> factor) const {
        return select<T>(e == 0, t, log_one_plus<T, log_terms>(e * t) * factor);
    }
    // A masked score has 1 + e t = -inf, or inf if e < 0, or, at e = 0, NaN.
    MEMBER Int<T> inside(Vec<T> t) const { return (e * t + T(1) > 0) & (t > T(-INF)); }
    MEMBER Vec<T> raise_power(Vec<T> t, Vec<T> factor) const {
        return keep<T>(inside(t), exponential<T, exp_terms>(log_power(t, factor)));
    }
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        p = raise_power(t, inverse);
        weight = keep<T>(p > 0, p / (e * t + T(1)));
    }
    MEMBER Vec<T> step(Vec<T> excess, Vec<T> r) const {
        // s itself is convex too: near one, where the two agree, its step is as good and costs no powers.
        Vec<T> plain = excess / r;
        Int<T> far = excess > T(0.25);
        return any<T>(far) ? select<T>(far, newton_step<T>(excess, r, e), plain) : plain;
    }
    MEMBER Vec<T> output(Vec<T> t) const { return raise_power(t, inverse); }
};

template <class T>
struct Exponential {  // e = 0: softmax, which needs no threshold
    MEMBER Vec<T> output(Vec<T> t) const { return exponential<T>(t); }
};

// ---- the threshold ----

// Newton on (s^e - 1) / e, s the sum, which is convex and decreasing in the threshold. From where the largest score
// alone makes one it never overshoots, so there is no bracket, and for e = 1 it ends exactly (Michelot).

// A threshold, and the sum of the weights there: by how much a rounding of the scores moves the probabilities together.
template <class T>
struct Root {
    DoubleWord<T> at;
    Vec<T> weights;
};

// x holds n vectors: the entries of one row spread over the lanes (ACROSS), or one row in each lane.
// `at` is where to start: the first step from beyond the root leads back before it, to `least` at the furthest.
// `tolerance` is how close to one the sum must be for the last step. Each lane moves until it is done: a row's result
// does not depend on its neighbours.
template <bool ACROSS, class T, class Power>
INLINE Root<T> newton(const Power& power, const Vec<T>* x, int64_t n, DoubleWord<T> at, Vec<T> least, Vec<T> tolerance) {
    constexpr T slack = 1e-3;
    Int<T> active = tolerance == tolerance, rising{};
    Vec<T> least_excess = splat<T>(T(INF)), floor = least - at.high;
    for (bool first = true;; first = false) {
        Total<T> s;
        Vec<T> r{};
        for (int64_t start = 0; start < n; start += block_of<ACROSS>) {
            const int64_t end = std::min(n, start + block_of<ACROSS>);
            Vec<T> s0{}, s1{}, r0{}, r1{}, p, weight;
            int64_t i = start;
            for (; i + 1 < end; i += 2) {  // two chains of additions, to hide their latency
                power.terms(at.distance(x[i]), p, weight);
                s0 += p, r0 += weight;
                power.terms(at.distance(x[i + 1]), p, weight);
                s1 += p, r1 += weight;
            }
            if (i < end) {
                power.terms(at.distance(x[i]), p, weight);
                s0 += p, r0 += weight;
            }
            s.add(s0 + s1), r += r0 + r1;
        }
        if (ACROSS) s.across(), r = across_sum<T>(r);
        const Vec<T> excess = s.minus(1.0), step = maximum<T>(power.step(excess, r), floor);
        at = select_word<T>(active, at.plus_fast(step), at);
        // Where rounding keeps the sum above one it stops falling, and steps would go on for ever. Rounding may also lead
        // beyond the root, by a small part of a step; from there one step leads back.
        const Int<T> above = (excess > tolerance) & (excess < least_excess);
        const Int<T> beyond = (-excess > tolerance) & ~rising;
        active &= above | beyond;
        least_excess = minimum<T>(least_excess, select<T>(excess > 0, excess, least_excess));
        rising = first ? Int<T>{} : excess < 0;
        floor = -slack * maximum<T>(step, -step);
        if (!any<T>(active)) return {at, r};
    }
}

// Finds the threshold of a polynomial, for scores of which `top` is the largest.
template <bool ACROSS, class T, class Power>
INLINE DoubleWord<T> polynomial_threshold(const Power& power, const Vec<T>* x, int64_t n, Vec<T> top) {
    const DoubleWord<T> start = DoubleWord<T>{top, Vec<T>{}}.plus(splat<T>(-power.reach));
    return newton<ACROSS, T>(power, x, n, start, start.high, power.tolerance).at;
}

// Where to look for the threshold of any e, and a bound that is surely below it.
template <class T>
struct Start {
    DoubleWord<T> at;
    Vec<T> least;
};

// At fixed t <= 0, exp_e(t) falls as e grows, and so does the root: the roots for e = 1 and e = 1/2, roughly found and from
// below, tell where to start. n equal scores have the root (1 - n^-e) / e. Solved for log n, which depends on e far less than
// the root does and not at all for equal scores, it is what is interpolated; below 1/2 it is that of 1/2.
constexpr double ROUGH_EXCESS = 0.01;  // of the sum over one
constexpr double ROUGH_SLACK = 1e-3;   // much more than rounding

template <bool ACROSS, class T, class Power>
INLINE Start<T> rough_threshold(const Power& power, const Vec<T>* x, int64_t n) {
    const Vec<T> zero{}, rough = splat<T>(ROUGH_EXCESS);
    // A threshold l is the edge of the support plus 1/e.
    const DoubleWord<T> edge{splat<T>(-1), zero};
    const Vec<T> one = newton<ACROSS, T>(Linear<T>(), x, n, edge, edge.high, rough).at.high + T(1);
    const DoubleWord<T> next{one - T(2), zero};
    const Vec<T> half = newton<ACROSS, T>(Square<T>(), x, n, next, splat<T>(-2), rough).at.high + T(2);
    const Vec<T> log_n_one = -log_one_plus<T>(-one), log_n_half = T(-2) * log_one_plus<T>(T(-0.5) * half);
    // Between 1/2 and 1 log n falls along a curve, which this one follows for normal, uniform and heavy-tailed scores.
    const Vec<T> u = maximum<T>(T(2) * power.e - T(1), zero), along = u * (T(1.6) - T(0.6) * u);
    const Vec<T> log_n = log_n_half + (log_n_one - log_n_half) * along;
    const Vec<T> least = maximum<T>(select<T>(power.e <= T(0.5), half, one) - T(ROUGH_SLACK), zero);
    return {{log_n * exponential_quotient<T>(-power.e * log_n), zero}, least};
}

template <bool ACROSS, class T, class Power>
INLINE Root<T> general_threshold(const Power& power, const Vec<T>* x, int64_t n, const Start<T>& start) {
    return newton<ACROSS, T>(power, x, n, start.at, start.least, power.tolerance);
}

template <bool ACROSS, class T, class Power>
INLINE Root<T> general_threshold(const Power& power, const Vec<T>* x, int64_t n) {
    return general_threshold<ACROSS, T>(power, x, n, rough_threshold<ACROSS, T>(power, x, n));
}

}  // namespace omegamax
