// Total variation on a chain: min_w 1/2 |w - x|^2 + strength * sum |w_i - w_{i+1}|, exactly and in linear time.
//
// Dynamic programming over the derivative of the cost so far as a function of the last value (N. Johnson, "A dynamic
// programming algorithm for the fused lasso and L0-segmentation", JCGS 2013, section 3): it is piecewise linear and
// increasing; the next link clips it to [-strength, strength], the next entry adds a line of slope 1. Its knots enter
// at the two ends and leave there, each once.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace omegamax {

class Chain {
public:
    // x: finite, n of them. w may be x. Entries of a piece that fused are the same to the last bit.
    template <class T>
    void solve(const double* x, int64_t n, double strength, T* w) {
        if (n == 0) return;
        double low = x[0], high = x[0];
        for (int64_t i = 1; i < n; i++) low = x[i] < low ? x[i] : low, high = x[i] > high ? x[i] : high;
        if (strength >= double(n) * (high - low)) {  // more than any link can carry; and next to it x has no digits
            const T value = T(mean(x, 0, n, 0));
            for (int64_t i = 0; i < n; i++) w[i] = value;
            return;
        }
        reserve(n);
        const double last = forward(x, n, strength);
        // Backwards, each value is the next one, as far as its bounds allow.
        double next = last;
        int64_t end = n;
        double right = 0;  // pull of the link behind the piece
        for (int64_t i = n - 2; i >= 0; i--) {
            const double low = lower[i], high = upper[i];
            const double value = next < low ? low : next > high ? high : next;
            if (value == next) continue;
            const double left = value > next ? strength : -strength;
            fill(w, i + 1, end, T(mean(x, i + 1, end, left + right)));
            end = i + 1, right = -left, next = value;
        }
        fill(w, 0, end, T(mean(x, 0, end, right)));
    }

private:
    struct Knot {
        double at, bend;  // the slope of the derivative changes by `bend` there
    };
    std::vector<Knot> knots;
    std::vector<double> lower, upper;

    void reserve(int64_t n) {
        if (int64_t(lower.size()) >= n) return;
        knots.resize(size_t(2 * n + 2));
        lower.resize(size_t(n)), upper.resize(size_t(n));
    }

    // Where the derivative before the link behind entry i reaches -strength and strength; returns the last value.
    double forward(const double* x, int64_t n, double strength) {
        Knot *first = knots.data() + n, *last = first + 1;
        lower[0] = x[0] - strength, upper[0] = x[0] + strength;
        *first = {lower[0], 1}, *last = {upper[0], -1};
        for (int64_t i = 1; i < n - 1; i++) {
            // From the left end the derivative is slope * b - offset - strength: strength itself never meets x.
            double slope = 1, offset = x[i];
            Knot *l = first, *r = last;
            for (; l <= r && slope * l->at <= offset; l++) slope += l->bend, offset += l->bend * l->at;
            lower[i] = offset / slope;
            const Knot left = {lower[i], slope};
            // From the right end it is slope * b - offset + strength.
            slope = 1, offset = x[i];
            for (; r >= l && slope * r->at >= offset; r--) slope -= r->bend, offset -= r->bend * r->at;
            upper[i] = offset / slope;
            *(first = l - 1) = left;
            *(last = r + 1) = {upper[i], -slope};
        }
        double slope = 1, offset = x[n - 1] + strength;
        for (Knot* l = first; l <= last && slope * l->at <= offset; l++) slope += l->bend, offset += l->bend * l->at;
        return offset / slope;
    }

    // The value of a piece, from what it holds rather than from the knots, whose rounding adds up.
    static double mean(const double* x, int64_t begin, int64_t end, double pull) {
        const double origin = x[begin];
        double sum[4] = {};
        int64_t i = begin;
        for (; i + 4 <= end; i += 4)
            for (int k = 0; k < 4; k++) sum[k] += x[i + k] - origin;
        for (; i < end; i++) sum[0] += x[i] - origin;
        return origin + ((sum[0] + sum[1]) + (sum[2] + sum[3]) + pull) / double(end - begin);
    }

    template <class T>
    static void fill(T* w, int64_t begin, int64_t end, T value) {
        for (int64_t i = begin; i < end; i++) w[i] = value;
    }
};

}  // namespace omegamax
