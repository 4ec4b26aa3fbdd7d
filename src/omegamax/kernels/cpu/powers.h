// The members of the family, each as cheap as its exponent allows. For t = u - l, scaled scores minus the threshold:
//   terms   p = exp_e(t) = [1 + e t]_+^(1/e) and its weight p^(1 - e) = -dp/dl,
//   step    the Newton step from s = sum p and r = sum of the weights,
//   output  the probability up to a factor: p itself for entmax, p^(1/alpha) for normmax,
//   cheap   whether that costs a few multiplications only.
#pragma once

#include "simd.h"

namespace omegamax {

// Newton is quadratic, so a sum this close to one is right to rounding after the step that follows. Below a power of 2
// the sum has kinks, and only a sum that is right already will do.
template <class T> constexpr T smooth_tolerance = sizeof(T) == 4 ? T(0x1p-12) : T(0x1p-27);
template <class T> constexpr T kinked_tolerance = 4 * std::numeric_limits<T>::epsilon();

template <class T>
struct Linear {  // e = 1: sparsemax
    static constexpr T tolerance = kinked_tolerance<T>;
    static constexpr bool cheap = true;
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        Vec<T> w = t + T(1);
        p = maximum<T>(w, Vec<T>{});
        weight = keep<T>(w > 0, splat<T>(1));
    }
    MEMBER Vec<T> step(Vec<T> s, Vec<T> r) const { return (s - T(1)) / r; }
    MEMBER Vec<T> output(Vec<T> t) const { return maximum<T>(t + T(1), Vec<T>{}); }
};

template <class T>
struct Square {  // e = 1/2: entmax15
    static constexpr T tolerance = smooth_tolerance<T>;
    static constexpr bool cheap = true;
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        weight = maximum<T>(t * T(0.5) + T(1), Vec<T>{});
        p = weight * weight;
    }
    MEMBER Vec<T> step(Vec<T> s, Vec<T> r) const { return T(2) * (s - square_root<T>(s)) / r; }
    MEMBER Vec<T> output(Vec<T> t) const {
        Vec<T> w = maximum<T>(t * T(0.5) + T(1), Vec<T>{});
        return w * w;
    }
};

// s / r * (1 - s^(-e)) / e, accurate down to e = 0, where it is log(s).
template <class T> INLINE Vec<T> newton_step(Vec<T> s, Vec<T> r, Vec<T> e) {
    Vec<T> log_s = logarithm<T>(s);
    Vec<T> y = -e * log_s;
    Vec<T> series = splat<T>(1);  // of expm1(y) / y
    for (int k = Simd<T>::exp_terms + 1; k > 1; k--) series = series * y * T(1.0 / k) + T(1);
    Int<T> small = maximum<T>(y, -y) < T(0.5);
    Vec<T> direct = (exponential<T>(y) - T(1)) / y;
    return s / r * log_s * pick<T>(small, series, direct);
}

template <class T>
struct Whole {  // 1/e a whole number: alpha = 4/3, 1.25, 1.2, ...
    static constexpr T tolerance = smooth_tolerance<T>;
    static constexpr bool cheap = true;
    T e;
    int power;
    explicit Whole(double e) : e(T(e)), power(int(std::lround(1 / e))) {}
    MEMBER Vec<T> base(Vec<T> t) const { return maximum<T>(t * e + T(1), Vec<T>{}); }
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
    MEMBER Vec<T> step(Vec<T> s, Vec<T> r) const { return newton_step<T>(s, r, splat<T>(e)); }
    MEMBER Vec<T> output(Vec<T> t) const { return raise(base(t), power); }
};

template <class T>
struct General {  // any e <= 1, one for each lane
    static constexpr bool cheap = false;
    Vec<T> e, inverse;
    T tolerance;
    explicit General(Vec<T> e) : e(e), inverse(pick<T>(e == 0, Vec<T>{}, T(1) / e)) {
        tolerance = any<T>(e > T(0.5)) ? kinked_tolerance<T> : smooth_tolerance<T>;
    }
    // [1 + e t]_+ and the logarithm of [1 + e t]_+^(factor / e), or t itself where e = 0.
    MEMBER Vec<T> log_power(Vec<T> t, Vec<T> factor) const {
        return pick<T>(e == 0, t, log_one_plus<T>(e * t) * factor);
    }
    MEMBER void terms(Vec<T> t, Vec<T>& p, Vec<T>& weight) const {
        Vec<T> w = e * t + T(1);
        // A masked score has w = -inf, or inf if e < 0, or, at e = 0, NaN.
        Int<T> inside = (w > 0) & (t > T(-INF));
        p = keep<T>(inside, exponential<T>(log_power(t, inverse)));
        weight = keep<T>(inside, p / w);
    }
    MEMBER Vec<T> step(Vec<T> s, Vec<T> r) const { return newton_step<T>(s, r, e); }
    MEMBER Vec<T> output(Vec<T> t) const { return raised(t, inverse); }
    MEMBER Vec<T> raised(Vec<T> t, Vec<T> factor) const {
        Int<T> inside = (e * t + T(1) > 0) & (t > T(-INF));
        // Most vectors of a long row lie outside the support.
        return any<T>(inside) ? keep<T>(inside, exponential<T>(log_power(t, factor))) : Vec<T>{};
    }
};

template <class T>
struct Exponential {  // e = 0: softmax, which needs no threshold
    static constexpr bool cheap = false;
    MEMBER Vec<T> output(Vec<T> t) const { return exponential<T>(t); }
};

template <class T>
struct NormUniform : Linear<T> {  // normmax, alpha = inf: equal shares on the support of sparsemax
    MEMBER Vec<T> output(Vec<T> t) const { return keep<T>(t + T(1) > 0, splat<T>(1)); }
};

template <class T>
struct NormSquare : Square<T> {  // normmax, alpha = 2
    MEMBER Vec<T> output(Vec<T> t) const { return maximum<T>(t * T(0.5) + T(1), Vec<T>{}); }
};

template <class T>
struct NormGeneral : General<T> {  // normmax, any alpha
    Vec<T> exponent;               // 1 / (alpha - 1)
    NormGeneral(Vec<T> e, Vec<T> exponent) : General<T>(e), exponent(exponent) {}
    MEMBER Vec<T> output(Vec<T> t) const { return this->raised(t, exponent); }
};

}  // namespace omegamax
