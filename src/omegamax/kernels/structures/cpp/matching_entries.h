// The C interface of matchings: matrices are shared out among OpenMP threads, each solved by one.
#pragma once

#include <atomic>
#include <new>

#include "../../cpp/threads.h"
#include "matching.h"
#include "matching_jacobian.h"

namespace omegamax {

// Calls work(worker, matrix) for each matrix with the worker of a thread. Returns whether there was memory.
template <class Worker, class Work>
bool for_each_matrix(int64_t count, int threads, Work work) {
    try {
        std::vector<Worker> workers(std::max(threads, 1));
        std::atomic<bool> failed{false};
        for_each(count, threads, [&](int64_t matrix, int thread) {
            if (failed) return;
            try {
                work(workers[thread], matrix);
            } catch (const std::bad_alloc&) {
                failed = true;  // an exception must not leave a parallel region
            }
        });
        return !failed;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

}  // namespace omegamax

extern "C" {

// scores and marginals [count, n, m]; rows [count, n] and columns [count, m] are potentials, which hold some to start from
// if `warm`; iterations and residual [count]. Returns whether there was memory.
int omegamax_matching_project(const double* scores, int64_t count, int64_t n, int64_t m, int warm, double tol,
                              int64_t max_iter, double* marginals, double* rows, double* columns, int64_t* iterations,
                              double* residual, int threads) {
    return omegamax::for_each_matrix<omegamax::Matching>(count, threads, [&](omegamax::Matching& worker, int64_t b) {
        const auto report = worker.project(scores + b * n * m, n, m, warm, tol, max_iter, rows + b * n, columns + b * m,
                                           marginals + b * n * m);
        iterations[b] = report.iterations;
        residual[b] = report.residual;
    });
}

// change, out [count, n, m]; support [count, n, m] and full [count, m] are 0 or 1. Returns whether there was memory.
int omegamax_matching_jacobian(const double* change, const uint8_t* support, const uint8_t* full, int64_t count,
                               int64_t n, int64_t m, double* out, int threads) {
    using Worker = omegamax::MatchingJacobian;
    return omegamax::for_each_matrix<Worker>(count, threads, [&](Worker& worker, int64_t b) {
        worker.apply(change + b * n * m, support + b * n * m, full + b * m, n, m, out + b * n * m);
    });
}
}
