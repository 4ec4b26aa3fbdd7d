// The members of the family, each as cheap as its exponent allows. For t, a score minus the threshold:
//   terms   p and its weight p^(1 - e),
//   step    the Newton step of the threshold from the excess s - 1 of s = sum p, and r = sum of the weights,
//   output  the probability up to a factor: p itself for entmax, p^(1/alpha) for normmax,
//   cheap   whether that costs a few multiplications only.
// The cheap ones take the scores as they are: p = [t / reach]_+^(1/e), the threshold tau being the edge of the support,
// which is at most `reach` below the largest score. The others take scaled scores of which the largest is 0:
// p = exp_e(t) = [1 + e t]_+^(1/e), which stays accurate down to e = 0.
#pragma once

#include "../../cpp/simd.h"

namespace omegamax {

// How close to one the sum must be for the step that follows to be the last. Newton's error is squared where the sum is
// smooth; an entry that leaves the support adds about the distance to the power 1/e. `goal` is the error aimed at.
INLINE double last_step(double e, double goal) { return std::pow(goal, std::max(e, 0.5)); }
template <class T> constexpr double rounding = std::numeric_limits<T>::epsilon() / 2;

template <class T>
struct Linear {  // e = 1: sparsemax
    static constexpr bool cheap = true;
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
    static constexpr bool cheap = true;
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
    return pick<T>(small, series, direct);
}

// s / r * (1 - s^(-e)) / e, accurate down to e = 0, where it is log(s).
template <class T> INLINE Vec<T> newton_step(Vec<T> excess, Vec<T> r, Vec<T> e) {
    const Vec<T> s = excess + T(1), log_s = log_one_plus<T>(excess);
    return s / r * log_s * exponential_quotient<T>(-e * log_s);
}

template <class T>
struct Whole {  // 1/e a whole number: alpha = 4/3, 1.25, 1.2, ...
    static constexpr bool cheap = true;
    const Vec<T> tolerance = splat<T>(T(last_step(0.5, rounding<T>)));
    T e, reach;
    int power;
    explicit Whole(double e) : e(T(e)), reach(T(1 / e)), power(int(std::lround(1 / e))) {}
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
    static constexpr bool cheap = false;
    static constexpr bool lean = sizeof(S) < sizeof(T);
    static constexpr int exp_terms = lean ? 9 : Simd<T>::exp_terms, log_terms = lean ? 7 : Simd<T>::log_terms;
    Vec<T> e, inverse, tolerance;
    explicit General(Vec<T> e) : e(e), inverse(pick<T>(e == 0, Vec<T>{}, T(1) / e)) {
        for (int i = 0; i < Simd<T>::W; i++)
            tolerance[i] = i && e[i] == e[i - 1] ? tolerance[i - 1] : T(last_step(e[i], lean ? 1e-11 : rounding<T>));
    }
    // The scaled score below which p vanishes if the threshold is 0. Asked for where e is the same in every lane.
    MEMBER T edge() const { return e[0] > 0 ? -inverse[0] : T(-INF); }
    // The logarithm of [1 + e t]_+^(factor), or t itself where e = 0.
    MEMBER Vec<T> log_power(Vec<T> t, Vec<T> factor) const {
        return pick<T>(e == 0, t, log_one_plus<T, log_terms>(e * t) * factor);
    }
    // A masked score has 1 + e t = -inf, or inf if e < 0, or, at e = 0, NaN.
    MEMBER Int<T> inside(Vec<T> t) const { return (e * t + T(1) > 0) & (t > T(-INF)); }
    MEMBER Vec<T> raised(Vec<T> t, Vec<T> factor) const {
        return keep<T>(inside(t), exponential<T, exp_terms>(log_power(t, factor)));
    }
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        p = raised(t, inverse);
        weight = keep<T>(p > 0, p / (e * t + T(1)));
    }
    MEMBER Vec<T> step(Vec<T> excess, Vec<T> r) const {
        // s itself is convex too: near one, where the two agree, its step is as good and costs no powers.
        Vec<T> plain = excess / r;
        Int<T> far = excess > T(0.25);
        return any<T>(far) ? pick<T>(far, newton_step<T>(excess, r, e), plain) : plain;
    }
    MEMBER Vec<T> output(Vec<T> t) const { return raised(t, inverse); }
};

template <class T>
struct Exponential {  // e = 0: softmax, which needs no threshold
    MEMBER Vec<T> output(Vec<T> t) const { return exponential<T>(t); }
};

template <class T>
struct NormUniform : Linear<T> {  // normmax, alpha = inf: equal shares on the support of sparsemax
    MEMBER Vec<T> output(Vec<T> t) const { return keep<T>(t > 0, splat<T>(1)); }
};

template <class T>
struct NormSquare {  // normmax, alpha = 2
    static constexpr bool cheap = true;
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
    static constexpr bool cheap = false;
    static constexpr bool lean = sizeof(S) < sizeof(T);
    static constexpr int exp_terms = lean ? 9 : Simd<T>::exp_terms, log_terms = lean ? 7 : Simd<T>::log_terms;
    Vec<T> exponent;  // 1 / (alpha - 1)
    explicit NormGeneral(Vec<T> exponent) : exponent(exponent) {}
    MEMBER T edge() const { return -1; }
    MEMBER Vec<T> output(Vec<T> t) const {
        return keep<T>(t > T(-INF), exponential<T, exp_terms>(t * exponent));
    }
};

}  // namespace omegamax
