// One component of a mixture on a line (N = 1) or in the plane (N = 2): from sums over points to its moments, from these
// to the score of a point, and both ways back for gradients. Everything is an array of F numbers:
//   state   weight, mean, covariance (its lower triangle, row by row)
//   sums    of the weights of points, of these times d, and times d d', where d is how far a point is from a centre
// See ../__init__.py for the formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace omegamax {

constexpr double HALF_LOG_2_PI = 0.91893853320467274178;
constexpr double NEVER = -1e30;  // the logarithm of no weight: unlike -inf it may be multiplied by 0
constexpr double LEAST_MASS = 4.930380657631324e-32;  // the square of the rounding error

template <int N>
struct Component {
    static constexpr int P = N * (N + 1) / 2, F = 1 + N + P;

    // log(weight) + log N(x; mean, covariance) as theta[0] + theta[1] d0^2, and in the plane + theta[3] (d1 - theta[2] d0)^2:
    // squares, for those of a thin ellipse are what little is left of larger numbers.
    static void score(const double *state, const double *spread, double *theta) {
        const double *cov = state + 1 + N;
        theta[0] = (state[0] > 0 ? std::log(state[0]) : NEVER) - N * HALF_LOG_2_PI - 0.5 * std::log(cov[0]);
        theta[1] = -0.5 / cov[0];
        theta[0] += theta[1] * spread[0];
        if constexpr (N == 2) {
            const double ratio = cov[1] / cov[0], pivot = cov[2] - ratio * cov[1];
            theta[2] = ratio, theta[3] = -0.5 / pivot;
            theta[0] += theta[3] * (ratio * ratio * spread[0] + spread[1]) - 0.5 * std::log(pivot);
        }
    }

    // The gradient by the state, from that by the scores of all points, summed about its mean.
    static void score_vjp(const double *state, const double *spread, const double *sums, double *gradient) {
        const double *cov = state + 1 + N;
        const double mass = sums[0], first = 0.5 / cov[0];
        const double square = sums[1 + N] + mass * spread[0];
        gradient[0] = state[0] > 0 ? mass / state[0] : 0;
        gradient[1] = sums[1] / cov[0];
        gradient[1 + N] = first * (square / cov[0] - mass);
        if constexpr (N == 2) {
            const double ratio = cov[1] / cov[0], half_low = 0.5 / (cov[2] - ratio * cov[1]);
            const double by_ratio = 2 * half_low * (sums[4] - ratio * square);
            const double across = ratio * (ratio * square - 2 * sums[4]) + sums[5] + mass * spread[1];
            const double by_pivot = half_low * (2 * half_low * across - mass);
            gradient[2] = 2 * half_low * (sums[2] - ratio * sums[1]);
            gradient[1] -= ratio * gradient[2];
            gradient[3] += ratio * (ratio * by_pivot - by_ratio / cov[0]);
            gradient[4] = by_ratio / cov[0] - 2 * ratio * by_pivot;
            gradient[5] = by_pivot;
        }
    }

    // Mean and covariance of points with these sums, each spread out; the covariance as it is, not held at a floor.
    static void moments(const double *sums, const double *centre, const double *spread, double *raw) {
        double d[N];
        for (int i = 0, k = 1 + N; i < N; i++) {
            d[i] = sums[1 + i] / sums[0];
            raw[1 + i] = centre[i] + d[i];
            for (int j = 0; j <= i; j++, k++) raw[k] = sums[k] / sums[0] - d[i] * d[j] + (i == j ? spread[i] : 0);
        }
    }

    // From the gradient by mass, mean and covariance to what it says of the weight of a point: coefficients of 1, d and
    // d d' about the mean, in place.
    static void moments_vjp(const double *raw, const double *spread, double mass, double *gradient) {
        for (int i = 0, k = 1 + N; i < N; i++) {
            gradient[1 + i] /= mass;
            for (int j = 0; j <= i; j++, k++) {
                gradient[k] /= mass;
                gradient[0] -= gradient[k] * (raw[k] - (i == j ? spread[i] : 0));
            }
        }
    }

    // No variance below the floor: two eigenvalues in closed form, middle +- radius.
    static void hold(const double *raw, double floor, double *cov) {
        if constexpr (N == 1) {
            cov[0] = std::max(raw[0], floor);
        } else {
            const double a = raw[0], b = raw[1], c = raw[2], mid = (a + c) / 2, half = (a - c) / 2;
            const double square = half * half + b * b;
            const bool oblong = is_oblong(square, mid);
            const double radius = oblong ? std::sqrt(square) : 0, high = mid + radius;
            cov[0] = a, cov[1] = b, cov[2] = c;
            if (!(mid - radius < floor)) return;  // NaN stays NaN
            if (high > floor && oblong) {
                const double ratio = (high - floor) / (2 * radius), middle = (high + floor) / 2;
                cov[0] = middle + ratio * half, cov[1] = ratio * b, cov[2] = middle - ratio * half;
            } else {
                cov[0] = cov[2] = floor, cov[1] = 0;
            }
        }
    }

    static void hold_vjp(const double *raw, double floor, double *gradient) {
        if constexpr (N == 1) {
            gradient[0] *= raw[0] > floor ? 1 : raw[0] == floor ? 0.5 : 0;  // as torch.maximum has it
        } else {
            const double a = raw[0], b = raw[1], c = raw[2], mid = (a + c) / 2, half = (a - c) / 2;
            const double square = half * half + b * b;
            const bool oblong = is_oblong(square, mid);
            const double radius = oblong ? std::sqrt(square) : 0, high = mid + radius;
            if (!(mid - radius < floor)) return;
            if (high > floor && oblong) {
                const double ratio = (high - floor) / (2 * radius), by_b = gradient[1];
                const double apart = gradient[0] - gradient[2], by_ratio = apart * half + by_b * b;
                const double by_high = (gradient[0] + gradient[2] + by_ratio / radius) / 2;
                const double by_radius = by_high - by_ratio * ratio / radius;
                const double by_half = ratio * apart + by_radius * half / radius;
                gradient[0] = (by_high + by_half) / 2, gradient[2] = (by_high - by_half) / 2;
                gradient[1] = ratio * by_b + by_radius * b / radius;
            } else {
                gradient[0] = gradient[1] = gradient[2] = 0;
            }
        }
    }

    // A circle has no axes, and no gradient of them.
    static bool is_oblong(double square, double mid) {
        const double least = std::numeric_limits<double>::epsilon() * mid;
        return square > least * least;
    }
};

}  // namespace omegamax
