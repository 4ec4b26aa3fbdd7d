// Rows shared out among OpenMP threads; a row's result does not depend on which thread, or how many.
#pragma once

#include <algorithm>

#include "../../cpp/threads.h"
#include "layout.h"

namespace omegamax {

constexpr int64_t GRAIN = 16384;  // entries that are worth another thread

// Rows are handed out in pieces of complete tiles, so that a row meets the same neighbours however many threads there
// are: 16 rows each (a multiple of every tile's), cut short at the end of an outer index where there is a stride.
constexpr int64_t PIECE = 16;

struct Pieces {
    Shape shape;
    int64_t group, each;  // rows that belong together, and pieces they make
    explicit Pieces(Shape s)
        : shape(s), group(s.inner == 1 ? s.rows() : s.inner), each((group + PIECE - 1) / PIECE) {}
    int64_t count() const { return shape.rows() / group * each; }
    int64_t start(int64_t piece) const { return piece / each * group + piece % each * PIECE; }
};

template <class Work>
void share(Shape shape, int threads, Work work) {
    if (shape.rows() == 0) return;
    const Pieces pieces(shape);
    const int64_t team = std::min<int64_t>({threads, shape.rows() * shape.K / GRAIN, pieces.count()});
    if (team <= 1 || must_run_serially()) return work(0, shape.rows());
#pragma omp parallel num_threads(int(team))
    {
        const int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
        const int64_t begin = pieces.start(pieces.count() * me / all);
        const int64_t end = me + 1 == all ? shape.rows() : pieces.start(pieces.count() * (me + 1) / all);
        if (begin < end) work(begin, end);
    }
}

}  // namespace omegamax
