// The C interface of total variation. No torch headers: tensors arrive as pointers and sizes. Rows are shared out among
// OpenMP threads, and computed in double; a row's result does not depend on which thread, or how many.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "chain.h"
#include "graph.h"
#include "grid.h"
#include "groups.h"
#include "threads.h"

namespace {

using namespace omegamax;

constexpr int64_t GRAIN = 4096;  // entries worth handing to a thread
constexpr double FAILED = -1;    // instead of what was left undone: no memory

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
    const int64_t block = std::max<int64_t>(1, GRAIN / std::max<int64_t>(1, entries)), blocks = (count + block - 1) / block;
    std::atomic<bool> failed{false};
    try {
        std::vector<std::unique_ptr<State>> states(size_t(std::max(1, threads)));
        std::vector<double> most(states.size(), 0.0);
        each(blocks, threads, [&](int64_t b, int thread) {
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

// What scores look like to a solver: absent ones are 0, and a row that holds NaN or +inf is not for it.
template <class T>
bool sound(const T* x, int64_t n, double strength, double* out) {
    T worst = 0;  // NaN once there is a NaN, inf once there is one
    for (int64_t i = 0; i < n; i++) {
        const T v = x[i] == ABSENT<T> ? T(0) : x[i];
        worst += v - v;
        out[i] = double(v);
    }
    return worst == 0 && strength >= 0;
}

// ---- chains: [outer, K, inner], contiguous ----

// Rows with a stride are read and written LANES at a time.
struct Lines {
    static constexpr int64_t LANES = 16;
    int64_t outer, K, inner;
    int64_t tiles() const { return outer * ((inner + LANES - 1) / LANES); }
    int64_t lanes() const { return std::min(inner, LANES); }

    // visit(offset of the first entry, number of the first row, rows)
    template <class Visit>
    void tile(int64_t number, Visit visit) const {
        const int64_t across = (inner + LANES - 1) / LANES, o = number / across, j = number % across * LANES;
        visit(o * K * inner + j, o * inner + j, std::min(LANES, inner - j));
    }
};

template <class T>
struct Columns {
    std::vector<T> memory;
    const T* read(const T* from, const Lines& lines, int64_t offset, int64_t rows) {
        if (lines.inner == 1) return from + offset;
        T* to = write(nullptr, lines, offset);
        for (int64_t k = 0; k < lines.K; k++)
            for (int64_t l = 0; l < rows; l++) to[l * lines.K + k] = from[offset + k * lines.inner + l];
        return to;
    }
    T* write(T* to, const Lines& lines, int64_t offset) {
        if (lines.inner == 1) return to + offset;
        memory.resize(size_t(lines.LANES * lines.K));
        return memory.data();
    }
    void put(T* to, const Lines& lines, int64_t offset, int64_t rows) const {
        if (lines.inner == 1) return;
        for (int64_t k = 0; k < lines.K; k++)
            for (int64_t l = 0; l < rows; l++) to[offset + k * lines.inner + l] = memory[size_t(l * lines.K + k)];
    }
};

template <class T>
struct ChainState {
    Chain chain;
    std::vector<double> x;
    Columns<T> in, given, out;
};

template <class T>
void chain_row(const T* z, int64_t K, double strength, T* w, ChainState<T>& state) {
    state.x.resize(size_t(K));
    double* x = state.x.data();
    if (!sound(z, K, strength, x)) return std::fill(w, w + K, T(NAN));
    if (strength == 0) return (void)std::copy(z, z + K, w);
    for (int64_t i = 0; i < K;) {
        if (z[i] == ABSENT<T>) {
            w[i++] = ABSENT<T>;
            continue;
        }
        int64_t end = i + 1;
        while (end < K && z[end] != ABSENT<T>) end++;
        state.chain.solve(x + i, end - i, strength, w + i);
        i = end;
    }
}

template <class T>
double chain(const T* z, T* w, Strength strength, Lines lines, int threads) {
    const auto make = [] { return std::make_unique<ChainState<T>>(); };
    return share<ChainState<T>>(lines.tiles(), lines.K * lines.lanes(), threads, make, [&](int64_t t, ChainState<T>& s) {
        lines.tile(t, [&](int64_t offset, int64_t row, int64_t rows) {
            const T* from = s.in.read(z, lines, offset, rows);
            T* to = s.out.write(w, lines, offset);
            for (int64_t l = 0; l < rows; l++)
                chain_row(from + l * lines.K, lines.K, strength[row + l], to + l * lines.K, s);
            s.out.put(w, lines, offset, rows);
        });
        return 0;
    });
}

// The mean of g over each piece; without g, of what pulls at it.
template <class T>
void chain_spread_row(const T* w, const T* g, int64_t K, double strength, T* out) {
    for (int64_t i = 0; i < K;) {
        int64_t end = i + 1;
        if (strength > 0)
            while (end < K && w[end] == w[i]) end++;
        double sum = 0;
        if (g)
            for (int64_t k = i; k < end; k++) sum += double(g[k]);
        else sum = -(i > 0 ? fall(w[i], w[i - 1]) : 0) - (end < K ? fall(w[end - 1], w[end]) : 0);
        const T mean = w[i] == ABSENT<T> ? T(0) : end == i + 1 ? T(sum) : T(sum / double(end - i));
        std::fill(out + i, out + end, mean);
        i = end;
    }
}

template <class T>
double chain_spread(const T* w, const T* g, T* out, Strength strength, Lines lines, int threads) {
    const auto make = [] { return std::make_unique<ChainState<T>>(); };
    return share<ChainState<T>>(lines.tiles(), lines.K * lines.lanes(), threads, make, [&](int64_t t, ChainState<T>& s) {
        lines.tile(t, [&](int64_t offset, int64_t row, int64_t rows) {
            const T* from = s.in.read(w, lines, offset, rows);
            const T* given = g ? s.given.read(g, lines, offset, rows) : nullptr;
            T* to = s.out.write(out, lines, offset);
            for (int64_t l = 0; l < rows; l++)
                chain_spread_row(from + l * lines.K, given ? given + l * lines.K : nullptr, lines.K, strength[row + l],
                                 to + l * lines.K);
            s.out.put(out, lines, offset, rows);
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
    state.x.resize(size_t(n)), state.w.resize(size_t(n));
    if (!sound(z, n, strength, state.x.data())) {
        std::fill(w, w + n, T(NAN));
        return 0;
    }
    if (strength == 0) {
        std::copy(z, z + n, w);
        return 0;
    }
    const double undone = run(state.solver, state.x.data(), strength, [&](int64_t i) { return z[i] != ABSENT<T>; },
                              state.w.data());
    for (int64_t i = 0; i < n; i++) w[i] = z[i] == ABSENT<T> ? z[i] : T(state.w[size_t(i)]);
    return undone;
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

// The mean of g over each group; without g, of what pulls at it. edges(row of strength, f(i, j, weight)) names the edges.
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

// `rows` holds the strength of each row; where it is null, they share `value`. Solvers return what a limit on their work
// left undone (see levels.h), all return less than 0 where there was no memory. `g` may be null: see spread().
#define INTERFACE(T, SUFFIX)                                                                                            \
    double omegamax_tv_chain_##SUFFIX(const T* z, T* w, double value, const double* rows, int64_t outer, int64_t K,     \
                                      int64_t inner, int threads) {                                                     \
        return chain(z, w, {value, rows}, {outer, K, inner}, threads);                                                  \
    }                                                                                                                   \
    double omegamax_tv_chain_spread_##SUFFIX(const T* w, const T* g, T* out, double value, const double* rows,          \
                                             int64_t outer, int64_t K, int64_t inner, int threads) {                    \
        return chain_spread(w, g, out, {value, rows}, {outer, K, inner}, threads);                                      \
    }                                                                                                                   \
    double omegamax_tv_grid_##SUFFIX(const T* z, T* w, double value, const double* rows, int64_t count, int64_t height, \
                                     int64_t width, int threads) {                                                      \
        return grid(z, w, {value, rows}, count, height, width, threads);                                                \
    }                                                                                                                   \
    double omegamax_tv_grid_spread_##SUFFIX(const T* w, const T* g, T* out, double value, const double* rows,           \
                                            int64_t count, int64_t height, int64_t width, int threads) {                \
        return grid_spread(w, g, out, {value, rows}, count, height, width, threads);                                    \
    }                                                                                                                   \
    double omegamax_tv_graph_##SUFFIX(const T* z, T* w, const int64_t* edges, const double* weights, double value,      \
                                      const double* rows, int64_t count, int64_t n, int64_t size, int threads) {        \
        return graph(z, w, edges, weights, {value, rows}, count, n, size, threads);                                     \
    }                                                                                                                   \
    double omegamax_tv_graph_spread_##SUFFIX(const T* w, const T* g, T* out, const int64_t* edges,                      \
                                             const double* weights, double value, const double* rows, int64_t count,    \
                                             int64_t n, int64_t size, int threads) {                                    \
        return graph_spread(w, g, out, edges, weights, {value, rows}, count, n, size, threads);                         \
    }

extern "C" {
INTERFACE(float, f32)
INTERFACE(double, f64)
}
