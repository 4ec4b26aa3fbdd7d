// Work shared out among OpenMP threads.
#pragma once

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace omegamax {

// GNU OpenMP's threads do not survive a fork: a child of a process that has started them, here or in torch, which shares
// the runtime, would wait for them for ever. So a forked child computes on the thread that calls.
inline std::atomic<bool> forked{false};

struct AtFork {
    AtFork() {
        pthread_atfork(nullptr, nullptr, [] { forked = true; });
    }
};
static AtFork at_fork;

inline bool must_run_serially() { return forked || omp_in_parallel(); }

// Calls work(item, thread) for items of uneven cost, one at a time for whichever thread is free.
template <class Work>
void for_each(int64_t count, int threads, Work work) {
    const int team = int(std::min<int64_t>(threads, count));
    if (team <= 1 || must_run_serially()) {
        for (int64_t i = 0; i < count; i++) work(i, 0);
        return;
    }
#pragma omp parallel for num_threads(team) schedule(dynamic)
    for (int64_t i = 0; i < count; i++) work(i, omp_get_thread_num());
}

}  // namespace omegamax
