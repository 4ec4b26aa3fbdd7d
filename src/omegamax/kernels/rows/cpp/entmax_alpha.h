// The sums of a row that an alpha is learnt by: powers, the Tsallis entropy, its derivative in alpha, and that of entmax.
// Entries without probability add nothing, so that the others are gathered first. Sums are taken in double.
#pragma once

#include "entmax.h"
#include "entmax_vjp.h"

namespace omegamax {

// Numbered as in kernels/rows/cpu.py.
enum class RowSum : int { POWERS = 0, TSALLIS = 1, TSALLIS_IN_ALPHA = 2, ALPHA_VJP = 3 };

// How many terms of a series results in S need.
template <class S> constexpr int EXP_TERMS = General<double, S>::exp_terms;
template <class S> constexpr int LOG_TERMS = General<double, S>::log_terms;

// The entries of a row that are in the support, packed, and those of g beside them if it is given.
template <class S>
struct Support {
    static constexpr int W = Simd<double>::W;
    int64_t n = 0, vectors = 0;
    bool sound = true;  // no NaN among the probabilities or, if it is given, in g where they are not 0
    explicit Support(int64_t K, bool with_g)
        : room(K / Simd<S>::W + 3), some(room), more(with_g ? room : 1), found(new int64_t[with_g ? size_t(room) : 1]),
          p((S*)some.v), g(with_g ? (S*)more.v : nullptr) {}

    // `grads` is null without g. It is fetched only where there is a probability: all of it at once, then read.
    void gather(const S* probabilities, const S* grads, int64_t K) {
        const Row<S> row(probabilities, K);
        Int<S> bad{};
        int64_t count = n = 0;
        row.each([&](Vec<S> v, int64_t i) {
            const Int<S> inside = v > 0;
            if (g == nullptr) bad |= v != v;
            if (!any<S>(inside)) return;
            n += compact<S>(p + n, v, inside);
            if (g == nullptr) return;
            __builtin_prefetch(grads + i);
            found[count++] = i;
        });
        store<S>(p + n, Vec<S>{});
        if (g != nullptr) {
            const Row<S> other(grads, K);
            int64_t taken = 0;
            for (int64_t c = 0; c < count; c++) {
                const Vec<S> v = row.at(found[c]), h = other.at(found[c]);
                const Int<S> inside = v > 0;
                bad |= inside & (h != h);
                taken += compact<S>(g + taken, h, inside);
            }
            store<S>(g + taken, Vec<S>{});
        }
        vectors = (n + W - 1) / W, sound = !any<S>(bad);
    }

    // Visits vectors of probabilities and of g, with which of their lanes are in use; p is 1 in the others.
    template <class Visit>
    MEMBER void each(Visit visit) const {
        for (int64_t i = 0; i < vectors; i++) {
            const Vec<double> v = load<double>(p + i * W);
            const Int<double> used = v > 0;
            const Vec<double> safe = maximum<double>(v, splat<double>(std::numeric_limits<double>::min()));
            visit(select<double>(used, safe, splat<double>(1)), used, g == nullptr ? v : load<double>(g + i * W));
        }
    }

   private:
    int64_t room;  // vectors: whole ones are written behind the last entry
    Scratch<S> some, more;
    std::unique_ptr<int64_t[]> found;
    S *p, *g;
};

// a times the means of exp(t u) and of u exp(t u) over u in [0, 1], given b = a exp(t).
template <int TERMS>
INLINE void exponential_means(Vec<double> t, Vec<double> a, Vec<double> b, Vec<double>& mean, Vec<double>& moment) {
    const Int<double> small = maximum<double>(t, -t) < 0.5;
    const Vec<double> apart = select<double>(small, splat<double>(1), t);
    mean = (b - a) / apart;
    moment = (b * (apart - 1.0) + a) / (apart * apart);
    if (!any<double>(small)) return;
    Vec<double> first = splat<double>(INVERSE_FACTORIAL[TERMS + 1]);
    Vec<double> second = splat<double>(INVERSE_FACTORIAL[TERMS] / (TERMS + 2));
#pragma GCC unroll 16
    for (int k = TERMS - 1; k >= 0; k--) {
        first = first * t + INVERSE_FACTORIAL[k + 1];
        second = second * t + INVERSE_FACTORIAL[k] / (k + 2);
    }
    mean = select<double>(small, a * first, mean);
    moment = select<double>(small, a * second, moment);
}

// The sum of p^alpha.
template <class S>
double power_sum(const Support<S>& row, double alpha) {
    Vec<double> sum{};
    row.each([&](Vec<double> p, Int<double> used, Vec<double>) {
        const Vec<double> power = alpha == 1.5 ? p * square_root<double>(p)
                                               : exponential<double, EXP_TERMS<S>>(
                                                     logarithm_parts<double, LOG_TERMS<S>>(p, p - 1.0) * alpha);
        sum += keep<double>(used, power);
    });
    return across_sum<double>(sum)[0];
}

// The entropy, sum p (p^e - 1) / (e alpha), or its derivative in alpha. With y = e log p, the quotient is log p times the
// mean of exp(y u) over [0, 1], and its derivative in e is log(p)^2 times that of u exp(y u).
template <bool SLOPE, class S>
double tsallis(const Support<S>& row, double alpha) {
    if (std::isinf(alpha)) return 0;
    Vec<double> value{}, slope{};
    row.each([&](Vec<double> p, Int<double>, Vec<double>) {
        const Vec<double> log_p = logarithm_parts<double, LOG_TERMS<S>>(p, p - 1.0);
        Vec<double> mean, moment;
        exponential_means<EXP_TERMS<S>>(log_p * (alpha - 1), p, exponential<double, EXP_TERMS<S>>(log_p * alpha), mean,
                                        moment);
        value += log_p * mean;
        if (SLOPE) slope += log_p * log_p * moment;
    });
    const double entropy = across_sum<double>(value)[0] / alpha;
    return SLOPE ? (across_sum<double>(slope)[0] - entropy) / alpha : entropy;
}

// The derivative of <g, p> in alpha, which is <g, J c> with c the derivative in e of -(p^e - 1) / e. J does not see a
// constant, in c or in g: both are measured from the entry with the largest weight s = p^(2 - alpha). There, with
// L = log(p / p_first), s (c - c_first) is -p L times the mean over u in [0, 1] of exp(-e L u) (log p - L u): a mean of
// one sign, taken from the end of the path where the exponential is largest.
template <class S>
double alpha_vjp(const Support<S>& row, double alpha) {
    typedef Vec<double> V;
    if (std::isinf(alpha) || row.n == 0) return 0;
    const double e = alpha - 1, sign = alpha > 2 ? 1 : -1;
    Anchor<double> first;
    row.each([&](V p, Int<double> used, V g) { first.consider(used, sign * p, p, g); });
    first.across();
    const V log_first = logarithm_parts<double, LOG_TERMS<S>>(first.p, first.p - 1.0);
    V weights{}, changes{}, dots{}, moves{};
    row.each([&](V p, Int<double> used, V g) {
        const V length = logarithm_parts<double, LOG_TERMS<S>>(p / first.p, (p - first.p) / first.p);
        const V ratio = exponential<double, EXP_TERMS<S>>(length * (1 - e));  // s / s_first
        const Int<double> turned = length * e < 0;
        const V here = select<double>(turned, first.p * ratio, p), there = select<double>(turned, p, first.p * ratio);
        const V start = select<double>(turned, log_first, log_first + length);
        const V step = select<double>(turned, length, -length);
        V mean, moment;
        exponential_means<EXP_TERMS<S>>(-maximum<double>(length * e, -length * e), here, there, mean, moment);
        const V change = keep<double>(used, -length * (start * mean + step * moment));
        const V weight = keep<double>(used, ratio), h = keep<double>(used, g - first.g);
        weights += weight, changes += change;
        dots += keep<double>(h != 0, h * weight), moves += keep<double>(h != 0, h * change);
    });
    const double change = across_sum<double>(changes)[0] / across_sum<double>(weights)[0];
    return across_sum<double>(moves)[0] - across_sum<double>(dots)[0] * change;
}

template <class S>
double sum_row(RowSum kind, const Support<S>& row, double alpha) {
    if (!row.sound) return NAN;
    if (kind == RowSum::POWERS) return power_sum(row, alpha);
    if (kind == RowSum::TSALLIS) return tsallis<false>(row, alpha);
    if (kind == RowSum::TSALLIS_IN_ALPHA) return tsallis<true>(row, alpha);
    return alpha_vjp(row, alpha);
}

// Rows [begin, end), `stride` entries apart. `alpha` holds one for each row, or, where `shared`, a single one.
template <class S>
void sum_range(RowSum kind, const S* p, const S* g, S* out, const double* alpha, bool shared, int64_t K, int64_t stride,
               int64_t begin, int64_t end) {
    Support<S> support(K, g != nullptr);
    for (int64_t i = begin; i < end; i++) {
        support.gather(p + i * stride, g == nullptr ? nullptr : g + i * stride, K);
        out[i] = S(sum_row(kind, support, alpha[shared ? 0 : i]));
    }
}

}  // namespace omegamax
