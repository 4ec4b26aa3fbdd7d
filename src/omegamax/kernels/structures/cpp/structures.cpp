// The C interface of SparseMAP. No torch headers: tensors arrive as pointers and sizes. Rows are shared out among OpenMP
// threads; a row's result does not depend on which thread, or how many.
//
// How many structures a row will have is not known before: solve() keeps the solutions and returns a handle, measure() says
// what room they need, write() copies them, release() frees them. They are written packed, as lists of their ones.
#include <atomic>
#include <memory>
#include <new>

#include "../../cpp/threads.h"
#include "active_set.h"
#include "arborescence.h"
#include "coupling.h"
#include "eisner.h"
#include "face_basis.h"
#include "matching_entries.h"
#include "spanning.h"
#include "subsets.h"
#include "viterbi.h"

namespace {

using namespace omegamax;

// In the order of KINDS in ../cpu.py.
enum class StructureKind { k_subsets, sequential_k_subsets, sequence, arborescence, projective, spanning_tree };

struct Family {
    StructureKind kind;
    int64_t sizes[3];
    const int64_t* graph;  // [2, edges]
    int64_t edges;

    std::unique_ptr<Oracle> oracle() const {
        const int64_t n = sizes[0];
        switch (kind) {
            case StructureKind::k_subsets: return std::make_unique<Subsets>(n, sizes[1], sizes[2]);
            case StructureKind::sequential_k_subsets: return std::make_unique<SequentialSubsets>(n, sizes[1], sizes[2]);
            case StructureKind::sequence: return std::make_unique<Sequences>(n, sizes[1]);
            case StructureKind::arborescence: return std::make_unique<Arborescences>(n, sizes[1]);
            case StructureKind::projective: return std::make_unique<ProjectiveTrees>(n, sizes[1]);
            case StructureKind::spanning_tree: return std::make_unique<SpanningTrees>(n, graph, edges);
        }
        return nullptr;
    }
};

struct Batch {
    std::vector<Solution> solutions;

    int64_t total(std::vector<Index> Solution::*list) const {
        int64_t sum = 0;
        for (const Solution& solution : solutions) sum += int64_t((solution.*list).size());
        return sum;
    }
};

// Each thread makes what it works with when it gets its first row.
struct Worker {
    std::unique_ptr<Oracle> oracle;
    std::unique_ptr<Search> search;
};

template <class T>
T* copied(const std::vector<T>& from, T* to) {
    return std::copy(from.begin(), from.end(), to);
}

}  // namespace

extern "C" {

// Structures, packed: [rows, width] counts of ones and weights, [rows] how many there are and where their ones begin.
struct omegamax_packed {
    const int32_t* ones;
    const int32_t* ones_count;
    const double* weights;
    const int64_t* count;
    const int64_t* begin;
    int64_t width;
    int32_t trusted;  // they are known to be structures of the family
};

// scores [rows, n], additional [rows, m]; sizes [3]; graph [2, n] or null; start null where there is none. Marginals
// [rows, n] and [rows, m] are written at once. Returns null where memory ran out.
void* omegamax_structures_solve(int kind, const double* scores, const double* additional, int64_t rows, int64_t n,
                                int64_t m, const int64_t* sizes, const int64_t* graph, const omegamax_packed* start,
                                double tol, int64_t max_iter, int64_t max_tied, double* marginals,
                                double* additional_marginals, int threads) {
    try {
        const Family family{StructureKind(kind), {sizes[0], sizes[1], sizes[2]}, graph, n};
        auto batch = std::make_unique<Batch>(Batch{std::vector<Solution>(rows)});
        std::vector<Worker> workers(std::max(threads, 1));
        std::atomic<bool> failed{false};
        for_each(rows, threads, [&](int64_t row, int thread) {
            if (failed) return;
            try {
                Worker& worker = workers[thread];
                if (!worker.search) {
                    worker.oracle = family.oracle();
                    worker.search = std::make_unique<Search>(*worker.oracle, n, m);
                }
                Start from;
                if (start) {
                    const int64_t first = row * start->width;
                    from = {start->ones + start->begin[row], start->ones_count + first, start->weights + first,
                            std::min(start->count[row], start->width), start->trusted != 0};
                }
                Solution& solution = batch->solutions[row];
                worker.search->run(scores + row * n, additional + row * m, from, {tol, max_iter, max_tied}, solution);
                worker.search->marginals(solution, marginals + row * n, additional_marginals + row * m);
            } catch (const std::bad_alloc&) {
                failed = true;  // an exception must not leave a parallel region
            }
        });
        return failed ? nullptr : batch.release();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// The most structures that a row has, and how many ones they all have among the unary and the additional scores.
void omegamax_structures_measure(const void* handle, int64_t* sizes) {
    const Batch& batch = *static_cast<const Batch*>(handle);
    size_t width = 0;
    for (const Solution& solution : batch.solutions) width = std::max(width, solution.weights.size());
    sizes[0] = int64_t(width);
    sizes[1] = batch.total(&Solution::ones);
    sizes[2] = batch.total(&Solution::extras);
}

// ones, extras: as many as measure() says; their counts and the weights [rows, width], zero beyond a row's count; count,
// iterations, residual [rows].
void omegamax_structures_write(const void* handle, int64_t width, int32_t* ones, int32_t* ones_count, int32_t* extras,
                               int32_t* extras_count, double* weights, int64_t* count, int64_t* iterations,
                               double* residual) {
    for (const Solution& solution : static_cast<const Batch*>(handle)->solutions) {
        ones = copied(solution.ones, ones);
        extras = copied(solution.extras, extras);
        std::fill(copied(solution.ones_count, ones_count), ones_count + width, 0);
        std::fill(copied(solution.extras_count, extras_count), extras_count + width, 0);
        std::fill(copied(solution.weights, weights), weights + width, 0.0);
        ones_count += width, extras_count += width, weights += width;
        *count++ = int64_t(solution.weights.size());
        *iterations++ = solution.iterations;
        *residual++ = solution.residual;
    }
}

void omegamax_structures_release(void* handle) { delete static_cast<Batch*>(handle); }

// [rows, width, width]: how many ones two structures share, zero beyond a row's count. Returns whether there was memory.
int omegamax_structures_overlaps(const int32_t* ones, const int32_t* ones_count, const int64_t* begin, int64_t rows,
                                 int64_t width, int64_t n, double* out, int threads) {
    try {
        std::vector<std::vector<uint8_t>> marks(std::max(threads, 1), std::vector<uint8_t>(n));
        for_each(rows, threads, [&](int64_t row, int thread) {
            uint8_t* mark = marks[thread].data();
            const int32_t *count = ones_count + row * width, *first = ones + begin[row], *mine = first;
            double* table = out + row * width * width;
            for (int64_t a = 0; a < width; mine += count[a++]) {
                for (int32_t i = 0; i < count[a]; i++) mark[mine[i]] = 1;
                const int32_t* its = first;
                for (int64_t b = 0; b <= a; b++) {
                    int32_t both = 0;
                    for (const int32_t* end = its + count[b]; its != end; its++) both += mark[*its];
                    table[a * width + b] = table[b * width + a] = both;
                }
                for (int32_t i = 0; i < count[a]; i++) mark[mine[i]] = 0;
            }
        });
        return 1;
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

// For each row an orthonormal basis of its face, [rows, width - 1, n + m]: the structures less the first, orthogonalised
// in their unary parts; zero beyond a row's count. Returns whether there was memory.
int omegamax_structures_basis(const int32_t* ones, const int32_t* ones_count, const int64_t* begin, const int32_t* extras,
                              const int32_t* extras_count, const int64_t* extras_begin, const int64_t* count,
                              int64_t rows, int64_t width, int64_t n, int64_t m, double* out, int threads) {
    try {
        std::vector<FaceBasis> workers(std::max(threads, 1));
        std::atomic<bool> failed{false};
        for_each(rows, threads, [&](int64_t row, int thread) {
            if (failed) return;
            try {
                const int64_t first = row * width;
                workers[thread].write({ones + begin[row], ones_count + first, extras + extras_begin[row],
                                       extras_count + first, count[row]},
                                      n, m, out + row * (width - 1) * (n + m));
            } catch (const std::bad_alloc&) {
                failed = true;  // an exception must not leave a parallel region
            }
        });
        return !failed;
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

// Marginals [rows, n] of the sequences with k ones in the rows whose relaxation is tight, which `tight` [rows] says, and
// how they move: `groups` [rows, n + n - 1] has for each entry and each pair the group whose value it has, or n where it
// is constant. scores [rows, n], transitions [rows, n - 1]. Returns whether there was memory.
int omegamax_structures_relax(const double* scores, const double* transitions, int64_t rows, int64_t n, int64_t k,
                              int at_most, double* marginals, int64_t* groups, uint8_t* tight, int threads) {
    try {
        struct Pair {
            std::unique_ptr<Relaxation> relaxation;
            Coupling coupling;
        };
        std::vector<Pair> workers(std::max(threads, 1));
        std::atomic<bool> failed{false};
        for_each(rows, threads, [&](int64_t row, int thread) {
            if (failed) return;
            try {
                auto& [relaxation, coupling] = workers[thread];
                if (!relaxation) relaxation = std::make_unique<Relaxation>(n);
                double* p = marginals + row * n;
                int64_t* group = groups + row * (2 * n - 1);
                std::fill_n(p, n, 0);
                std::fill_n(group, 2 * n - 1, n);
                tight[row] = relaxation->solve(scores + row * n, transitions + row * (n - 1), n, k, at_most) &&
                             relaxation->determined() && coupling.exists(relaxation->blocks(), k);
                if (tight[row]) relaxation->write(p, group, n);
            } catch (const std::bad_alloc&) {
                failed = true;  // an exception must not leave a parallel region
            }
        });
        return !failed;
    } catch (const std::bad_alloc&) {
        return 0;
    }
}
}
