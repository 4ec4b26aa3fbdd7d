// A start for levels.h: over-relaxed sweeps over the edges, each of which moves flow until its two ends agree, or it is
// full. Few sweeps suffice; they need not be accurate, since what follows is exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "levels.h"
#include "processor.h"

namespace omegamax {

constexpr int DEPTH = 8;  // sweeps between two tests of convergence
constexpr int MAX_SWEEPS = 512;
constexpr double CONVERGED = 1.5e-4;  // share of all capacity, below which the flow that a sweep moves ends them

// Cautious at first, while edges fill up; towards what is best for flow over distances later.
inline double over_relaxation(int sweep) { return 1.8 - 0.5 * std::exp(-sweep / 16.0); }

// Any net, one edge after the other. `level` is x - div u, here and afterwards.
template <class Net>
void relax(Net& net, double* level) {
    double capacity = 0, before = 0;
    net.edges([&](int, int, int e) { capacity += net.cap[e]; });
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        const double half = over_relaxation(sweep) / 2;
        double moved = 0;
        net.edges([&](int i, int j, int e) {
            const double u = net.u[e], cap = net.cap[e];
            const double v = std::max(std::min(u + half * (level[i] - level[j]), cap), -cap), d = v - u;
            net.u[e] = v, level[i] -= d, level[j] += d;
            moved += std::fabs(d);
        });
        if (sweep + 1 >= DEPTH && !(moved > CONVERGED * capacity)) break;
        if (sweep % 32 == 31) {  // around a node of many edges sweeps may get nowhere
            if (moved > 0.9 * before && sweep > 32) break;
            before = moved;
        }
    }
}

// ---- grids, in vectors of floats ----

// A row of width W is folded into columns of LANES: lane l of column k holds entry l * columns + k, so that the right
// neighbours of a column are the next column. Even columns come first, then odd ones: three runs of edges in each row
// touch no entry twice, [even, odd], [odd, even] and [row, next row], and one column of edges leads a lane on.
class Fold {
public:
    static constexpr int LANES = 8;

    static bool suits(int width) { return width > LANES; }

    void relax(int height, int width, const double* x, double pivot, double scale, const double* cap, double* u) {
        reserve(height, width);
        double capacity = 0;
        each([&](int i, int a, float* c) {
            level[a] = float((x[i] - pivot) * scale);
            c[0] = float(cap[2 * i] * scale), c[row] = float(cap[2 * i + 1] * scale);
            capacity += double(c[0]) + double(c[row]);
        });
        for (int sweep = 0; sweep < MAX_SWEEPS; sweep += DEPTH) {
            float half[DEPTH];
            for (int s = 0; s < DEPTH; s++) half[s] = float(over_relaxation(sweep + s) / 2);
            const double moved = has_avx2() ? sweeps_avx2(half) : sweeps_plain(half);
            if (!(moved > CONVERGED * capacity)) break;
        }
        const double back = 1 / scale;
        const auto out = [&](float v, float c, double full) {
            return std::copysign(std::fabs(v) < c ? std::min(std::fabs(double(v)) * back, full) : full, double(v));
        };
        each([&](int i, int, float* c) {
            const float* v = c - (limit - flow);
            u[2 * i] = out(v[0], c[0], cap[2 * i]), u[2 * i + 1] = out(v[row], c[row], cap[2 * i + 1]);
        });
    }

private:
    typedef float Lanes __attribute__((vector_size(4 * LANES)));
    typedef int32_t Positions __attribute__((vector_size(4 * LANES)));

    int height = 0, width = 0, columns = 0, even = 0, odd = 0, row = 0;  // the last three in entries
    std::vector<float> memory;
    float *level = nullptr, *flow = nullptr, *limit = nullptr;  // [height + 1, row]; [height, 2, row]: right, down

    void reserve(int h, int w) {
        height = h, width = w, columns = (w + LANES - 1) / LANES;
        even = (columns + 1) / 2 * LANES, odd = columns / 2 * LANES, row = even + odd;
        const size_t rows = size_t(h + 1) * size_t(row);
        memory.assign(5 * rows + 16, 0.0f);
        level = (float*)(((uintptr_t)memory.data() + 63) / 64 * 64);
        flow = level + rows, limit = flow + 2 * rows;
    }

    // visit(entry of the grid, its position among the levels, where its limits are)
    template <class Visit>
    ALWAYS void each(Visit visit) {
        for (int y = 0; y < height; y++)
            for (int lane = 0; lane < LANES; lane++)
                for (int k = 0, c = lane * columns; k < columns && c < width; k++, c++) {
                    const int a = (k & 1) * even + k / 2 * LANES + lane;
                    visit(y * width + c, y * row + a, limit + 2 * size_t(y) * size_t(row) + a);
                }
    }

    // n edges from a[i] to b[i]; adds up how much flow moved.
    template <bool MEASURE>
    static ALWAYS float run(float* __restrict a, float* __restrict b, float* __restrict u, const float* __restrict c,
                            int n, float half) {
        float moved = 0;
#pragma omp simd reduction(+ : moved)
        for (int i = 0; i < n; i++) {
            float v = u[i] + half * (a[i] - b[i]);
            v = v < c[i] ? v : c[i];
            v = v > -c[i] ? v : -c[i];
            const float d = v - u[i];
            u[i] = v, a[i] -= d, b[i] += d;
            if (MEASURE) moved += std::fabs(d);
        }
        return moved;
    }

    // The edges from the last column to the first, a lane on.
    static ALWAYS void turn(float* last, float* first, float* u, const float* c, float half) {
        Lanes a, b, v, limit;
        std::memcpy(&a, last, sizeof a), std::memcpy(&b, first, sizeof b);
        std::memcpy(&v, u, sizeof v), std::memcpy(&limit, c, sizeof limit);
#if defined(__clang__)
        const Lanes next = __builtin_shufflevector(b, b, 1, 2, 3, 4, 5, 6, 7, 7);
#else
        const Lanes next = __builtin_shuffle(b, Positions{1, 2, 3, 4, 5, 6, 7, 7});
#endif
        Lanes t = v + half * (a - next);
        t = t < limit ? t : limit;
        t = t > -limit ? t : -limit;
        const Lanes d = t - v;
#if defined(__clang__)
        b += __builtin_shufflevector(d, Lanes{}, 8, 0, 1, 2, 3, 4, 5, 6);
#else
        b += __builtin_shuffle(d, Lanes{}, Positions{8, 0, 1, 2, 3, 4, 5, 6});
#endif
        a -= d;
        std::memcpy(last, &a, sizeof a), std::memcpy(first, &b, sizeof b), std::memcpy(u, &t, sizeof t);
    }

    // DEPTH sweeps, two rows apart: the later ones find their rows in the cache, and their order is that of one after
    // the other. Returns the flow moved by the last.
    ALWAYS double sweeps(const float* half) {
        float moved = 0;
        const int last = columns % 2 ? even - LANES : row - LANES;
        for (int t = 0; t < height + 2 * (DEPTH - 1); t++) {
            const int begin = std::max(0, (t - height + 2) / 2), end = std::min(DEPTH - 1, t / 2);
            // The rows at work do not touch each other; step by step, so that each step has them all to choose from.
            for (int step = 0; step < 4; step++)
                for (int s = begin; s <= end; s++) {
                    const size_t y = size_t(t - 2 * s);
                    float *r = level + y * size_t(row), *u = flow + 2 * y * size_t(row);
                    const float *c = limit + 2 * y * size_t(row), h = half[s];
                    if (step == 0) run<false>(r, r + even, u, c, odd, h);
                    else if (step == 1) run<false>(r + even, r + LANES, u + even, c + even, even - LANES, h);
                    else if (step == 2) turn(r + last, r, u + last, c + last, h);
                    else if (s < DEPTH - 1) run<false>(r, r + row, u + row, c + row, row, h);
                    else moved += run<true>(r, r + row, u + row, c + row, row, h);
                }
        }
        return 2 * double(moved);  // down, and about as much to the right
    }

    __attribute__((noinline)) double sweeps_plain(const float* half) { return sweeps(half); }
    __attribute__((noinline)) WITH_AVX2 double sweeps_avx2(const float* half) { return sweeps(half); }
};

}  // namespace omegamax
