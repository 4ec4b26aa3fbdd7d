// The C interface of total variation. No torch headers: tensors arrive as pointers and sizes. Rows are shared out among
// OpenMP threads, and computed in double; a row's result does not depend on which thread, or how many.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "batch.h"
#include "chain.h"
#include "chain_lanes.h"
#include "graph.h"
#include "grid.h"
#include "groups.h"

namespace {

using namespace omegamax;

// ---- chains: [outer, K, inner], contiguous ----

// Rows with a stride are taken LANES at a time, others as well where there is work for as many.
struct Lines {
    static constexpr int64_t LANES = ChainLanes::LANES;
    int64_t outer, K, inner;
    int64_t rows() const { return outer * inner; }
    // A row is every step-th entry; the next one begins a stride further on, within a tile.
    int64_t step() const { return inner; }
    int64_t stride() const { return inner == 1 ? K : 1; }
    int64_t across() const { return inner == 1 ? rows() : inner; }  // rows in a line of tiles
    int64_t tiles_in_line() const { return (across() + LANES - 1) / LANES; }
    int64_t tiles() const { return across() ? rows() / across() * tiles_in_line() : 0; }

    // visit(index of the first row, offset of its first entry, rows)
    template <class Visit>
    void tile(int64_t index, Visit visit) const {
        const int64_t line = index / tiles_in_line(), j = index % tiles_in_line() * LANES;
        visit(line * across() + j, line * across() * K + j * stride(), std::min(LANES, across() - j));
    }
};

template <class T>
struct ChainState {
    Chain chain;
    ChainLanes lanes;
    std::vector<T> row, out;
    std::vector<double> x;
};

// z[i * step] and w[i * step].
template <class T>
void chain_row(const T* z, int64_t K, int64_t step, double strength, T* w, ChainState<T>& state) {
    state.row.resize(size_t(K)), state.out.resize(size_t(K)), state.x.resize(size_t(K));
    T *row = state.row.data(), *out = state.out.data();
    double* x = state.x.data();
    for (int64_t i = 0; i < K; i++) row[i] = z[i * step];
    const double factor = prepare(row, K, strength, x);
    if (factor == 0) std::fill(out, out + K, T(NAN));
    else if (strength == 0) std::copy(row, row + K, out);
    else
        for (int64_t i = 0; i < K;) {
            if (row[i] == ABSENT<T>) {
                out[i++] = ABSENT<T>;
                continue;
            }
            int64_t end = i + 1;
            while (end < K && row[end] != ABSENT<T>) end++;
            state.chain.solve(x + i, end - i, factor * strength, out + i);
            for (; i < end; i++) out[i] = T(out[i] / factor);
        }
    for (int64_t i = 0; i < K; i++) w[i * step] = out[i];
}

template <class T>
double chain(const T* z, T* w, Strength strength, Lines lines, int threads) {
    const auto make = [] { return std::make_unique<ChainState<T>>(); };
    const bool vectors = has_avx2() && lines.K > 1;
    const int64_t entries = lines.K * lines.LANES;
    return share<ChainState<T>>(lines.tiles(), entries, threads, make, [&](int64_t t, ChainState<T>& s) {
        lines.tile(t, [&](int64_t row, int64_t offset, int64_t rows) {
            double strengths[Lines::LANES];
            bool together = vectors && rows == lines.LANES;
            for (int64_t l = 0; l < rows; l++) strengths[l] = strength[row + l], together &= strengths[l] > 0;
            const T* from = z + offset;
            if (together && s.lanes.solve(from, lines.K, lines.step(), lines.stride(), strengths, w + offset)) return;
            for (int64_t l = 0; l < rows; l++) {
                const int64_t begin = offset + l * lines.stride();
                chain_row(z + begin, lines.K, lines.step(), strengths[l], w + begin, s);
            }
        });
        return 0;
    });
}

// The mean of g over each piece; without g, of what pulls at it. Entries are a step apart.
template <class T>
void chain_spread_row(const T* w, const T* g, int64_t K, int64_t step, double strength, T* out) {
    for (int64_t i = 0; i < K;) {
        const T value = w[i * step];
        double sum = 0;
        int64_t end = i;
        do
            if (g) sum += double(g[end * step]);
        while (++end < K && strength > 0 && w[end * step] == value);
        if (!g) sum = -(i > 0 ? fall(value, w[(i - 1) * step]) : 0) - (end < K ? fall(value, w[end * step]) : 0);
        const T mean = value == ABSENT<T> ? T(0) : end == i + 1 ? T(sum) : T(sum / double(end - i));
        for (; i < end; i++) out[i * step] = mean;
    }
}

template <class T>
double chain_spread(const T* w, const T* g, T* out, Strength strength, Lines lines, int threads) {
    const auto make = [] { return std::make_unique<int>(); };
    return share<int>(lines.tiles(), lines.K * lines.LANES, threads, make, [&](int64_t t, int&) {
        lines.tile(t, [&](int64_t row, int64_t offset, int64_t rows) {
            for (int64_t l = 0; l < rows; l++) {
                const int64_t b = offset + l * lines.stride();
                chain_spread_row(w + b, g ? g + b : nullptr, lines.K, lines.step(), strength[row + l], out + b);
            }
        });
        return 0;
    });
}

// ---- grids and graphs: [count, n], contiguous ----

template <class Solver>
struct NetState {
    Solver solver;
    std::vector<double> x, w;
    template <class... Arguments>
    explicit NetState(const Arguments&... arguments) : solver(arguments...) {}
};

// One row; run(solver, x, strength, there, w) solves what is not settled by itself.
template <class T, class State, class Run>
double net_row(const T* z, int64_t n, double strength, T* w, State& state, Run run) {
    if (n == 0) return 0;
    state.x.resize(size_t(n)), state.w.resize(size_t(n));
    const double factor = prepare(z, n, strength, state.x.data());
    if (factor == 0) {
        std::fill(w, w + n, T(NAN));
        return 0;
    }
    if (strength == 0) {
        std::copy(z, z + n, w);
        return 0;
    }
    const auto there = [&](int64_t i) { return z[i] != ABSENT<T>; };
    const double residual = run(state.solver, state.x.data(), factor * strength, there, state.w.data());
    for (int64_t i = 0; i < n; i++) w[i] = z[i] == ABSENT<T> ? z[i] : T(state.w[size_t(i)] / factor);
    return residual;
}

template <class T>
double grid(const T* z, T* w, Strength strength, int64_t count, int64_t height, int64_t width, int threads) {
    if (height == 1 || width == 1) return chain(z, w, strength, {count, height * width, 1}, threads);
    typedef NetState<GridSolver> State;
    const int64_t n = height * width;
    return share<State>(count, n, threads, [] { return std::make_unique<State>(); }, [&](int64_t row, State& state) {
        return net_row(z + row * n, n, strength[row], w + row * n, state,
                       [&](GridSolver& solver, const double* x, double s, auto there, double* out) {
                           return solver.solve(x, int(height), int(width), s, there, out);
                       });
    });
}

template <class T>
double graph(const T* z, T* w, const int64_t* edges, const double* weights, Strength strength, int64_t count, int64_t n,
             int64_t size, int threads) try {
    typedef NetState<GraphSolver> State;
    const Wiring wiring(int(n), int(size), edges, weights);
    const auto make = [&] { return std::make_unique<State>(wiring); };
    return share<State>(count, n + size, threads, make, [&](int64_t row, State& state) {
        return net_row(z + row * n, n, strength[row], w + row * n, state,
                       [&](GraphSolver& solver, const double* x, double s, auto there, double* out) {
                           return solver.solve(x, s, there, out);
                       });
    });
} catch (...) {
    return FAILED;
}

struct GroupState {
    Groups groups;
    std::vector<double> pull;
};

// The mean of g over each group; without g, of what pulls at it. edges(f(i, j, weight)) names the edges.
template <class T, class Edges>
double spread(const T* w, const T* g, T* out, Strength strength, int64_t count, int64_t n, int64_t size, int threads,
              Edges edges) {
    const auto make = [] { return std::make_unique<GroupState>(); };
    return share<GroupState>(count, n + size, threads, make, [&](int64_t row, GroupState& state) {
        const T *v = w + row * n, *given = g ? g + row * n : nullptr;
        const double s = strength[row];
        state.groups.start(n);
        edges([&](int64_t i, int64_t j, double weight) {
            if (v[i] == v[j] && s * weight > 0) state.groups.join(int32_t(i), int32_t(j));
        });
        if (given) {
            state.groups.mean(v, [&](int64_t i) { return double(given[i]); }, n, out + row * n);
        } else {
            state.pull.assign(size_t(n), 0.0);
            edges([&](int64_t i, int64_t j, double weight) {
                const double f = weight > 0 ? weight * fall(v[i], v[j]) : 0;
                state.pull[size_t(i)] -= f, state.pull[size_t(j)] += f;
            });
            state.groups.mean(v, [&](int64_t i) { return state.pull[size_t(i)]; }, n, out + row * n);
        }
        return 0;
    });
}

template <class T>
double grid_spread(const T* w, const T* g, T* out, Strength strength, int64_t count, int64_t height, int64_t width,
                   int threads) {
    const int64_t n = height * width;
    return spread(w, g, out, strength, count, n, n, threads, [&](auto visit) {
        for (int64_t y = 0; y < height; y++)
            for (int64_t i = y * width; i < (y + 1) * width; i++) {
                if (i + 1 < (y + 1) * width) visit(i, i + 1, 1.0);
                if (y + 1 < height) visit(i, i + width, 1.0);
            }
    });
}

template <class T>
double graph_spread(const T* w, const T* g, T* out, const int64_t* edges, const double* weights, Strength strength,
                    int64_t count, int64_t n, int64_t size, int threads) {
    return spread(w, g, out, strength, count, n, size, threads, [&](auto visit) {
        for (int64_t e = 0; e < size; e++) visit(edges[e], edges[size + e], weights[e]);
    });
}

}  // namespace

// `rows` holds the strength of each row; where it is null, they share `value`. Solvers return the residual that a
// limit on their work left (see levels.h), all return less than 0 where there was no memory. `g` may be null: see spread().
#define ROWS double value, const double *rows
#define INTERFACE(T, SUFFIX)                                                                                           \
    double omegamax_tv_chain_##SUFFIX(const T* z, T* w, ROWS, int64_t outer, int64_t K, int64_t inner, int threads) {  \
        return chain(z, w, {value, rows}, {outer, K, inner}, threads);                                                 \
    }                                                                                                                  \
    double omegamax_tv_chain_spread_##SUFFIX(const T* w, const T* g, T* out, ROWS, int64_t outer, int64_t K,           \
                                             int64_t inner, int threads) {                                             \
        return chain_spread(w, g, out, {value, rows}, {outer, K, inner}, threads);                                     \
    }                                                                                                                  \
    double omegamax_tv_grid_##SUFFIX(const T* z, T* w, ROWS, int64_t count, int64_t height, int64_t width,             \
                                     int threads) {                                                                    \
        return grid(z, w, {value, rows}, count, height, width, threads);                                               \
    }                                                                                                                  \
    double omegamax_tv_grid_spread_##SUFFIX(const T* w, const T* g, T* out, ROWS, int64_t count, int64_t height,       \
                                            int64_t width, int threads) {                                              \
        return grid_spread(w, g, out, {value, rows}, count, height, width, threads);                                   \
    }                                                                                                                  \
    double omegamax_tv_graph_##SUFFIX(const T* z, T* w, const int64_t* edges, const double* weights, ROWS,             \
                                      int64_t count, int64_t n, int64_t size, int threads) {                           \
        return graph(z, w, edges, weights, {value, rows}, count, n, size, threads);                                    \
    }                                                                                                                  \
    double omegamax_tv_graph_spread_##SUFFIX(const T* w, const T* g, T* out, const int64_t* edges,                     \
                                             const double* weights, ROWS, int64_t count, int64_t n, int64_t size,      \
                                             int threads) {                                                            \
        return graph_spread(w, g, out, edges, weights, {value, rows}, count, n, size, threads);                        \
    }

extern "C" {
INTERFACE(float, f32)
INTERFACE(double, f64)
}
