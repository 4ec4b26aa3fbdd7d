// What the solvers of total variation share: rows handed out to threads, and scores made ready for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "../../cpp/threads.h"
#include "chain.h"

namespace omegamax {

constexpr int64_t GRAIN = 4096;  // entries that are worth another thread
constexpr double FAILED = -1;    // instead of a residual: no memory

template <class T> constexpr T ABSENT = -std::numeric_limits<T>::infinity();

// One strength for all rows, or one for each.
struct Strength {
    double value;
    const double* rows;
    double operator[](int64_t row) const { return rows ? rows[row] : value; }
};

// work(item, state) for every item, each thread with a State of its own; returns the largest result.
template <class State, class Make, class Work>
double share(int64_t count, int64_t entries, int threads, Make make, Work work) {
    const int64_t block = std::max<int64_t>(1, GRAIN / std::max<int64_t>(1, entries));
    const int64_t blocks = (count + block - 1) / block;
    std::atomic<bool> failed{false};
    try {
        std::vector<std::unique_ptr<State>> states(size_t(std::max(1, threads)));
        std::vector<double> most(states.size(), 0.0);
        for_each(blocks, threads, [&](int64_t b, int thread) {
            if (failed) return;
            try {
                auto& state = states[size_t(thread)];
                if (!state) state = make();
                for (int64_t i = b * block; i < std::min(count, (b + 1) * block); i++)
                    most[size_t(thread)] = std::max(most[size_t(thread)], double(work(i, *state)));
            } catch (...) {
                failed = true;
            }
        });
        return failed ? FAILED : *std::max_element(most.begin(), most.end());
    } catch (...) {
        return FAILED;
    }
}

// Scores as a solver takes them, absent ones as 0, and the factor that keeps their sums finite: a power of two. The
// factor is 0 for a row that holds NaN or +inf, or has no strength.
template <class T>
double prepare(const T* x, int64_t n, double strength, double* out) {
    T worst = 0, most = 0;  // worst: NaN once there is a NaN or an infinity
    for (int64_t i = 0; i < n; i++) {
        const T v = x[i] == ABSENT<T> ? T(0) : x[i];
        worst += v - v, most = std::max(most, std::fabs(v));
        out[i] = double(v);
    }
    if (!(worst == 0 && strength >= 0)) return 0;
    if (double(most) < MAX_SCORE) return 1;
    const double factor = 0x1p-128;
    for (int64_t i = 0; i < n; i++) out[i] *= factor;
    return factor;
}

}  // namespace omegamax
