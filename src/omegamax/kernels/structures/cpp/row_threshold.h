// The threshold of sparsemax: what to take off numbers so that their positive parts sum to one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace omegamax {

class RowThreshold {
   public:
    // Of x [n], which may hold -inf; -inf where it holds nothing else.
    double find(const double* x, int64_t n) {
        const double top = largest(x, n);
        near_.resize(n);
        double* near = near_.data();
        int64_t count = 0, before = 0;
        for (int64_t j = 0; j < n; j++) near[count] = x[j] - top, count += x[j] - top > -1;
        if (count == 0) return top;
        // From below, each threshold is that of the entries above the last one.
        double threshold = -1;
        while (count != before) {
            before = count;
            double sum = -1;
            for (int64_t j = 0; j < before; j++) sum += near[j];
            threshold = sum / double(before);
            count = 0;
            for (int64_t j = 0; j < before; j++) near[count] = near[j], count += near[j] > threshold;
        }
        // Measured from 0: next to a solution the threshold is small, and has more digits than its distance from the top.
        threshold += top;
        double excess = -1;
        for (int64_t j = 0; j < count; j++) excess += near[j] + (top - threshold);
        return threshold + excess / double(count);
    }

   private:
    std::vector<double> near_;  // entries less the largest, as far as they may be above the threshold

    // Four at a time: each maximum waits for the one before.
    static double largest(const double* x, int64_t n) {
        constexpr int WAYS = 4;
        double top[WAYS];
        std::fill_n(top, WAYS, -std::numeric_limits<double>::infinity());
        int64_t j = 0;
        for (; j + WAYS <= n; j += WAYS)
            for (int w = 0; w < WAYS; w++) top[w] = std::max(top[w], x[j + w]);
        for (; j < n; j++) top[0] = std::max(top[0], x[j]);
        return std::max(std::max(top[0], top[1]), std::max(top[2], top[3]));
    }
};

}  // namespace omegamax
