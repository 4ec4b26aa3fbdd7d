// The C interface of SparseMAP. No torch headers: tensors arrive as pointers and sizes. Rows are shared out among OpenMP
// threads; a row's result does not depend on which thread, or how many.
//
// How many structures a row will have is not known before: solve() keeps the answers and returns a handle, write() copies
// them to tensors of the width that width() gives, release() frees them.
#include <atomic>
#include <memory>
#include <new>

#include "active_set.h"
#include "arborescence.h"
#include "eisner.h"
#include "spanning.h"
#include "subsets_dp.h"
#include "threads.h"
#include "viterbi.h"

namespace {

using namespace omegamax;

enum class Kind { subsets, sequential_subsets, sequence, arborescence, projective, spanning_tree };  // as in Python

struct Family {
    Kind kind;
    int64_t sizes[3];
    const int64_t* graph;  // [2, edges]
    int64_t edges;

    std::unique_ptr<Oracle> oracle() const {
        const int64_t n = sizes[0];
        switch (kind) {
            case Kind::subsets: return std::make_unique<Subsets>(n, sizes[1], sizes[2]);
            case Kind::sequential_subsets: return std::make_unique<SequentialSubsets>(n, sizes[1], sizes[2]);
            case Kind::sequence: return std::make_unique<Sequences>(n, sizes[1]);
            case Kind::arborescence: return std::make_unique<Arborescences>(n, sizes[1]);
            case Kind::projective: return std::make_unique<ProjectiveTrees>(n, sizes[1]);
            case Kind::spanning_tree: return std::make_unique<SpanningTrees>(n, graph, edges);
        }
        return nullptr;
    }
};

struct Batch {
    int64_t n, m;
    std::vector<Answer> answers;
};

// Each thread makes what it works with when it gets its first row.
struct Worker {
    std::unique_ptr<Oracle> oracle;
    std::unique_ptr<Search> search;
};

// Structures that follow one another in `ones` as rows of 0 and 1; `additional` may be no scores at all.
void scatter(const std::vector<Index>& ones, const std::vector<Index>& count, int64_t width, int64_t n, double* out) {
    if (n == 0) return;
    std::fill_n(out, width * n, 0.0);
    const Index* at = ones.data();
    for (Index size : count) {
        for (Index i = 0; i < size; i++) out[at[i]] = 1;
        at += size;
        out += n;
    }
}

}  // namespace

extern "C" {

// scores [rows, n], additional [rows, m]; sizes [3]; graph [2, n] or null; the start, if there is one: [rows, width, n],
// [rows, width], [rows]. Null where memory ran out.
void* omegamax_structures_solve(int kind, const double* scores, const double* additional, int64_t rows, int64_t n,
                                int64_t m, const int64_t* sizes, const int64_t* graph, const double* start_unary,
                                const double* start_weights, const int64_t* start_count, int64_t start_width, double tol,
                                int64_t max_iter, int threads) {
    try {
        const Family family{Kind(kind), {sizes[0], sizes[1], sizes[2]}, graph, n};
        auto batch = std::make_unique<Batch>(Batch{n, m, std::vector<Answer>(rows)});
        std::vector<Worker> workers(std::max(threads, 1));
        std::atomic<bool> failed{false};
        each(rows, threads, [&](int64_t row, int thread) {
            if (failed) return;
            try {
                Worker& worker = workers[thread];
                if (!worker.search) {
                    worker.oracle = family.oracle();
                    worker.search = std::make_unique<Search>(*worker.oracle, n);
                }
                Start start;
                if (start_unary)
                    start = {start_unary + row * start_width * n, start_weights + row * start_width, start_count[row]};
                worker.search->run(scores + row * n, m ? additional + row * m : nullptr, start, {tol, max_iter},
                                   batch->answers[row]);
            } catch (const std::bad_alloc&) {
                failed = true;  // an exception must not leave a parallel region
            }
        });
        return failed ? nullptr : batch.release();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// The most structures that a row has.
int64_t omegamax_structures_width(const void* handle) {
    size_t width = 0;
    for (const Answer& answer : static_cast<const Batch*>(handle)->answers) width = std::max(width, answer.weights.size());
    return int64_t(width);
}

// unary [rows, width, n], additional [rows, width, m], weights [rows, width], count, iterations, residual [rows]. What lies
// beyond a row's count becomes zero.
void omegamax_structures_write(const void* handle, int64_t width, double* unary, double* additional, double* weights,
                               int64_t* count, int64_t* iterations, double* residual, int threads) {
    const Batch& batch = *static_cast<const Batch*>(handle);
    const int64_t n = batch.n, m = batch.m, rows = int64_t(batch.answers.size());
    each(rows, threads, [&](int64_t row, int) {
        const Answer& answer = batch.answers[row];
        const int64_t held = int64_t(answer.weights.size());
        double* w = weights + row * width;
        std::copy(answer.weights.begin(), answer.weights.end(), w);
        std::fill(w + held, w + width, 0.0);
        scatter(answer.ones, answer.ones_count, width, n, unary + row * width * n);
        scatter(answer.extras, answer.extras_count, width, m, additional + row * width * m);
        count[row] = held;
        iterations[row] = answer.iterations;
        residual[row] = answer.residual;
    });
}

void omegamax_structures_release(void* handle) { delete static_cast<Batch*>(handle); }
}
