// Sums over the path of steepest descent of the contour integral behind expectations under compact densities; see
// ../reference.py, the same in torch, for what they are. One pair of a density and a basis function in each lane.
#pragma once

#include <algorithm>

#include "../../cpp/simd.h"
#include "../../cpp/threads.h"

namespace omegamax {

typedef Vec<double> D;

struct Complex {
    D re, im;
};
INLINE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
INLINE Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
INLINE Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
INLINE Complex operator*(D a, Complex b) { return {a * b.re, a * b.im}; }
INLINE Complex operator+(double a, Complex b) { return {a + b.re, b.im}; }
INLINE Complex inverse(Complex a) {
    D r = 1.0 / (a.re * a.re + a.im * a.im);
    return {a.re * r, -a.im * r};
}

constexpr double PI = 3.14159265358979323846;

// atan(u) / u as a polynomial in u^2, for u <= tan(pi / 8): 1e-18.
constexpr double ARCTAN[] = {0.9999999999999999987,  -0.3333333333333312116, 0.1999999999994089146,
                             -0.1428571427925024494, 0.1111111074491965824,  -0.09090896809064027076,
                             0.07692045330902224952, -0.06662951813629190088, 0.0584687829733087252,
                             -0.05035102456601551843, 0.03796525745386593624, -0.01780539720541944523};

// The angle of x + iy in [0, pi], for y >= 0.
INLINE D angle(D x, D y) {
    D size = maximum<double>(x, -x);
    auto slanted = y > 0.41421356237309505 * size, upright = y > 2.4142135623730950 * size;
    // atan(y / size) is that of the other quotient less pi / 4, or of the inverse less pi / 2: always within pi / 8.
    D v = select<double>(upright, -size, select<double>(slanted, y - size, y)) /
          select<double>(upright, y, select<double>(slanted, y + size, size));
    D q = v * v;
    D series = splat<double>(ARCTAN[11]);
#pragma GCC unroll 12
    for (int i = 10; i >= 0; i--) series = series * q + ARCTAN[i];
    D turn = keep<double>(slanted, splat<double>(PI / 4)) + keep<double>(upright, splat<double>(PI / 4));
    D full = v * series + turn;
    return select<double>(x < 0.0, PI - full, full);
}

// log(1 + z) for z in the upper half-plane.
INLINE Complex log_one_plus(Complex z) {
    return {0.5 * log_one_plus<double>(z.re * (2.0 + z.re) + z.im * z.im), angle(1.0 + z.re, z.im)};
}

constexpr int SADDLE_STEPS = 40, FIRST_STEPS = 3;
constexpr int MAX_DIMENSION = 16;

// What is known of every density, [rows], and of each of its pairs, [rows, functions, n]; `diagonal` and `spread` may
// be the same for all functions or for all rows.
// digamma_gap is digamma(M) - log M, log_scale is B + log(Gamma(M) e^M M^-M).
struct Pairs {
    int64_t rows, functions;
    int n;
    bool one_diagonal, one_spread;
    const double *M, *h, *log_scale, *digamma_gap, *diagonal, *delta, *spread;
    int nodes;
    double step;
    double* out;  // [rows, functions, results(n)]
    int64_t diagonal_at(int64_t pair) const { return (one_diagonal ? pair / functions : pair) * n; }
    int64_t spread_at(int64_t pair) const { return (one_spread ? pair % functions : pair) * n; }
};

// Of each pair: the value, then its derivatives in sigma (lower triangle, by rows), delta, spread, M and h.
INLINE int results(int n) { return 3 + n * (n + 1) / 2 + 2 * n; }

// A vector of pairs, in N dimensions, or n of them where N is 0.
template <int N>
struct Contour {
    static constexpr int ROOM = N ? N : MAX_DIMENSION;
    int n;
    D M, h, log_scale, digamma_gap, diagonal[ROOM], delta[ROOM], spread[ROOM];
    D a[ROOM], b[ROOM], s0, lead, g[ROOM], gamma[ROOM], inverse_w[ROOM];
    // Sums over the path, with r = 1 / (1 + 2 a s), of 1, log(s / M), s r_i, (s r_i)^2 and s r_i r_j for i > j.
    D sum, log_sum, first[ROOM], second[ROOM], cross[ROOM][ROOM];

    MEMBER int dims() const { return N ? N : n; }

    // The positive root of square s^2 - linear s - M.
    MEMBER D bound(D linear, D square) const {
        D root = square_root<double>(linear * linear + 4.0 * square * M);
        return select<double>(linear > 0.0, (linear + root) / (2.0 * square), 2.0 * M / (root - linear));
    }

    // Newton's method from the left; see ../reference.py for where it starts.
    MEMBER void saddle() {
        D all_linear = splat<double>(-1.0), all_square{};
        s0 = M;
        for (int i = 0; i < dims(); i++) {
            D linear = a[i] + b[i], square = (2.0 * a[i] + 4.0 * b[i]) * a[i];
            s0 = maximum<double>(s0, (square_root<double>(b[i]) - 1.0) / (2.0 * a[i]));
            s0 = maximum<double>(s0, bound(linear - 1.0, square));
            all_linear += linear, all_square += square;
        }
        if (dims() > 1) s0 = maximum<double>(s0, bound(all_linear, all_square));
        for (int step = 0; step < SADDLE_STEPS; step++) {
            D r = 1.0 / s0, slope = 1.0 - M * r, curve = M * r * r;
            for (int i = 0; i < dims(); i++) {
                D w = 1.0 / (1.0 + 2.0 * a[i] * s0), bw = b[i] * w;
                slope -= (a[i] + bw) * w;
                curve += (2.0 * a[i] + 4.0 * bw) * (a[i] * w * w);
            }
            D move = slope / curve;
            s0 -= move;
            if (!any<double>(maximum<double>(move, -move) > 1e-8 * s0)) break;  // the next one would be 1e-16
        }
    }

    // The exponent K with its first two derivatives, log(1 + zeta) and 1 / (1 + zeta).
    MEMBER Complex gain(Complex z, Complex& slope, Complex& curve, Complex& log_z, Complex& r) const {
        Complex square = z * z;
        r = inverse(1.0 + z);
        log_z = log_one_plus(z);
        Complex k = M * (z - log_z);
        slope = M * r, curve = M * (r * r);
        for (int i = 0; i < dims(); i++) {
            Complex gz = g[i] * z, q = inverse(1.0 + gz), qq = q * q;
            D half = 0.5 * g[i] * g[i];
            k = k + splat<double>(0.5) * (gz - log_one_plus(gz)) + gamma[i] * (square * q);
            slope = slope + half * q + gamma[i] * (q + qq);
            curve = curve + half * qq + (2.0 * gamma[i]) * (q * qq);
        }
        slope = slope * z;
        return k;
    }

    // Adds a node to the sums; returns dz / dx there. (weight / i * f).real = (weight * f).im
    MEMBER Complex add(double x, Complex z, Complex log_s) {
        Complex slope = M * inverse(1.0 + z), r[ROOM];
        for (int i = 0; i < dims(); i++) {
            r[i] = inverse(1.0 + g[i] * z);
            slope = slope + (0.5 * g[i] * g[i]) * r[i] + gamma[i] * (r[i] + r[i] * r[i]);
            r[i] = inverse_w[i] * r[i];
        }
        Complex rate = splat<double>(-x) * inverse(slope * z);
        Complex weight = splat<double>(std::exp(-0.5 * x * x)) * rate;
        Complex s = s0 * (1.0 + z), log_term = weight * log_s, ws = weight * s;
        sum += weight.im;
        log_sum += log_term.im;
        for (int i = 0; i < dims(); i++) {
            Complex one = ws * r[i], two = one * (s * r[i]);
            first[i] += one.im;
            second[i] += two.im;
            for (int j = 0; j < i; j++) {
                Complex mixed = one * r[j];
                cross[i][j] += mixed.im;
            }
        }
        return rate;
    }

    MEMBER void run(int nodes, double step, D* out) {
        for (int i = 0; i < dims(); i++) {
            D width = 2.0 * h * diagonal[i];
            a[i] = spread[i] / width, b[i] = delta[i] * delta[i] / width;
            first[i] = second[i] = D{};
            for (int j = 0; j < i; j++) cross[i][j] = D{};
        }
        sum = log_sum = D{};
        saddle();
        // The first derivatives of K at 0, and the beginning of zeta as a power series in x.
        lead = D{};  // s0 / M - 1, from what the saddle point says of it: accurate also where it is next to nothing
        D curvature = M, third = -2.0 * M, fourth = 6.0 * M;
        for (int i = 0; i < dims(); i++) {
            inverse_w[i] = 1.0 / (1.0 + 2.0 * a[i] * s0);
            g[i] = 1.0 - inverse_w[i];
            gamma[i] = b[i] * s0 * inverse_w[i] * inverse_w[i] * g[i];
            lead += (a[i] + b[i] * inverse_w[i]) * inverse_w[i];
            D square = g[i] * g[i];
            curvature += 0.5 * square + 2.0 * gamma[i];
            third -= g[i] * (square + 6.0 * gamma[i]);
            fourth += square * (3.0 * square + 24.0 * gamma[i]);
        }
        const D bend = third / (6.0 * curvature), twist = fourth / (24.0 * curvature) - 2.5 * bend * bend;
        lead *= s0 / M;
        const D unit = 1.0 / square_root<double>(curvature), log_lead = log_one_plus<double>(lead);
        Complex z{}, rate{}, last_z{}, last_rate{}, log_z{};
        for (int node = 0; node < nodes; node++) {
            const double x = (node + 0.5) * step;
            Complex next;
            if (node < 2) {
                D y = x * unit;
                next = {bend * y * y, y + twist * y * y * y};
            } else {  // the cubic through the last two nodes with their slopes, carried on
                next = splat<double>(5.0) * last_z - splat<double>(4.0) * z +
                       splat<double>(step) * (splat<double>(4.0) * rate + splat<double>(2.0) * last_rate);
            }
            last_z = z, last_rate = rate, z = next;
            for (int halley = node < 2 ? FIRST_STEPS : 1; halley > 0; halley--) {
                Complex slope, curve, r, k = 0.5 * x * x + gain(z, slope, curve, log_z, r);
                Complex move = splat<double>(2.0) * (k * slope * inverse(splat<double>(2.0) * (slope * slope) - k * curve));
                z = z - move;
                // log(1 - share): the move is too small for a sixth order.
                Complex share = move * r;
                Complex series = 1.0 / 4 + splat<double>(0.2) * share;
                series = 1.0 / 3 + share * series;
                series = 1.0 / 2 + share * series;
                log_z = log_z - share * (1.0 + share * series);
            }
            rate = add(x, z, {log_z.re + log_lead, log_z.im});
        }
        finish(step, out);
    }

    MEMBER void finish(double step, D* out) const {
        // Gamma(M) exp(s0 - M log s0), of which log_scale holds what depends on M and B only.
        D log_start = log_scale + M * (lead - log_one_plus<double>(lead));
        for (int i = 0; i < dims(); i++)
            log_start += 0.5 * logarithm<double>(inverse_w[i]) - b[i] * s0 * inverse_w[i];
        const D scale = exponential<double>(log_start) * s0 * (step / PI);
        D in_h{};
        D* in_sigma = out + 1;
        D* in_delta = in_sigma + dims() * (dims() + 1) / 2;
        D* in_spread = in_delta + dims();
        for (int i = 0; i < dims(); i++) {
            D in_b = -scale * first[i], in_a = in_b + 2.0 * b[i] * scale * second[i];
            D slant = delta[i] / (h * diagonal[i]), turn = a[i] * in_a + b[i] * in_b;
            for (int j = 0; j < i; j++)
                *in_sigma++ = 0.5 * scale * cross[i][j] * slant * delta[j] / diagonal[j];
            *in_sigma++ = -turn / diagonal[i];
            in_delta[i] = in_b * slant;
            in_spread[i] = in_a / (2.0 * h * diagonal[i]);
            in_h -= turn;
        }
        out[0] = scale * sum;
        in_spread[dims()] = scale * (digamma_gap * sum - log_sum);
        in_spread[dims() + 1] = in_h / h;
    }
};

template <int N>
void contour_range(const Pairs& pairs, int64_t begin, int64_t end) {
    constexpr int W = Simd<double>::W;
    const int n = pairs.n, count = results(n);
    Contour<N> work;
    D result[3 + MAX_DIMENSION * (MAX_DIMENSION + 1) / 2 + 2 * MAX_DIMENSION];
    work.n = n;
    for (int64_t p = begin; p < end; p += W) {
        // Lanes past the end repeat the last pair.
        for (int l = 0; l < W; l++) {
            const int64_t q = std::min(p + l, end - 1), row = q / pairs.functions;
            work.M[l] = pairs.M[row], work.h[l] = pairs.h[row];
            work.log_scale[l] = pairs.log_scale[row], work.digamma_gap[l] = pairs.digamma_gap[row];
            for (int i = 0; i < n; i++) {
                work.diagonal[i][l] = pairs.diagonal[pairs.diagonal_at(q) + i];
                work.delta[i][l] = pairs.delta[q * n + i];
                work.spread[i][l] = pairs.spread[pairs.spread_at(q) + i];
            }
        }
        work.run(pairs.nodes, pairs.step, result);
        for (int l = 0; l < W && p + l < end; l++)
            for (int i = 0; i < count; i++) pairs.out[(p + l) * count + i] = result[i][l];
    }
}

}  // namespace omegamax

namespace {

using namespace omegamax;

constexpr int64_t PAIRS = 16;  // handed to a thread at once; a multiple of every vector's lanes

// Pairs, which cost about a microsecond each, are handed out in complete vectors.
void contour(const Pairs& pairs, int threads) {
    const int64_t count = pairs.rows * pairs.functions;
    auto work = [&](int64_t begin, int64_t end) {
        if (pairs.n == 1) contour_range<1>(pairs, begin, end);
        else if (pairs.n == 2) contour_range<2>(pairs, begin, end);
        else if (pairs.n == 3) contour_range<3>(pairs, begin, end);
        else contour_range<0>(pairs, begin, end);
    };
    const int64_t pieces = (count + PAIRS - 1) / PAIRS;
    const int64_t team = std::min<int64_t>(threads, pieces / 2);
    if (team <= 1 || must_run_serially()) return work(0, count);
#pragma omp parallel for num_threads(int(team)) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) work(piece * PAIRS, std::min(count, (piece + 1) * PAIRS));
}

}  // namespace

extern "C" {

void omegamax_contour(const double* M, const double* h, const double* log_scale, const double* digamma_gap,
                      const double* diagonal, const double* delta, const double* spread, double* out, int64_t rows,
                      int64_t functions, int n, int one_diagonal, int one_spread, int nodes, double step, int threads) {
    contour({rows, functions, n, one_diagonal != 0, one_spread != 0, M, h, log_scale, digamma_gap, diagonal, delta,
             spread, nodes, step, out},
            threads);
}
}
