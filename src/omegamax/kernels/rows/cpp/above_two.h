// Entmax for alpha > 2: p has infinite slope at the edge of the support, so the threshold cannot be iterated on. With y the
// smallest probability of the support and d_j >= 0 the scaled gaps of the others to it, y + sum_j (y^e + d_j)^(1/e) is
// convex and increasing in y: Newton from above, y = 1 / size, cannot overshoot. One row at a time, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace omegamax {

constexpr double SMALLEST = 1e-280;  // of powers that keep their digits

// (y^e + gap)^(1/e). At large e the power of y underflows, and is added as a logarithm.
inline double raise_power(double y, double floor, double gap, double e) {
    if (floor > SMALLEST) return std::pow(floor + gap, 1 / e);
    if (!(gap > 0) || !(y > 0)) return gap > 0 ? std::pow(gap, 1 / e) : y;
    const double a = e * std::log(y), b = std::log(gap);
    return std::exp((std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)))) / e);
}

// u holds the n scores of a row, maximum 0, and becomes its probabilities.
template <class T>
void above_two_row(T* u, int64_t n, double e) {
    if (std::isinf(e)) {  // argmax: the maxima share
        int64_t ties = 0;
        for (int64_t i = 0; i < n; i++) ties += u[i] == 0;
        for (int64_t i = 0; i < n; i++) u[i] = u[i] == 0 ? T(1.0 / ties) : T(0);
        return;
    }
    const double q = 1 / e;
    std::vector<double> top;
    for (int64_t i = 0; i < n; i++)
        if (u[i] > -q) top.push_back(u[i]);
    std::sort(top.begin(), top.end(), [](double a, double b) { return a > b; });
    // The k-th entry is in the support iff the larger ones, with the threshold at it, sum to less than one.
    size_t low = 1, high = top.size();
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        double mass = 0;
        for (size_t j = 0; j < middle && mass < 1; j++) mass += std::pow(e * (top[j] - top[middle - 1]), q);
        if (mass < 1) low = middle;
        else high = middle - 1;
    }
    const size_t size = low;
    const double last = top[size - 1];
    double y = 1.0 / double(size);
    for (int step = 0; step < 200; step++) {
        double floor = std::pow(y, e), sum = 0, slope = 0;
        for (size_t j = 0; j < size; j++) {
            const double gap = e * (top[j] - last), p = raise_power(y, floor, gap, e);
            sum += p;
            // (y / p)^(e - 1), of which the powers are known
            if (p > 0) slope += floor > SMALLEST ? floor / y * p / (floor + gap) : std::pow(y / p, e - 1);
        }
        double lower = std::max(0.0, y - (sum - 1) / std::max(1.0, slope));
        if (!(lower < y)) break;
        y = lower;
    }
    const double floor = std::pow(y, e);
    double sum = 0;
    for (size_t j = 0; j < size; j++) sum += raise_power(y, floor, e * (top[j] - last), e);
    for (int64_t i = 0; i < n; i++)
        u[i] = u[i] >= last ? T(raise_power(y, floor, e * (double(u[i]) - last), e) / sum) : T(0);
}

}  // namespace omegamax
