// The C interface of the CPU kernels. No torch headers: tensors arrive as pointers and sizes, one library serves every
// torch. Rows are shared out among OpenMP threads; a row's result does not depend on which thread, or how many.
#include <algorithm>

#include "../../contour/cpp/contour.h"
#include "family.h"
#include "../../bounds/cpp/subsets.h"
#include "../../cpp/threads.h"
#include "vjp.h"

namespace {

using namespace omegamax;

constexpr int64_t GRAIN = 16384;  // entries worth waking a thread for

// Rows are handed out in pieces that are whole tiles, so that a row meets the same neighbours whatever the number of
// threads: 16 rows each (a multiple of every tile's), cut short at the end of an outer index where there is a stride.
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
    if (team <= 1 || alone()) return work(0, shape.rows());
#pragma omp parallel num_threads(int(team))
    {
        const int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
        const int64_t begin = pieces.start(pieces.count() * me / all);
        const int64_t end = me + 1 == all ? shape.rows() : pieces.start(pieces.count() * (me + 1) / all);
        if (begin < end) work(begin, end);
    }
}

// `rows` holds the parameter of each row; where it is null, they share `value`.
template <class T>
void forward(int kind, const T* z, T* p, double value, const double* rows, Shape s, int threads) {
    const bool shared = rows == nullptr, norm = Kind(kind) == Kind::normmax;
    const double* parameter = shared ? &value : rows;
    share(s, threads, [&](int64_t begin, int64_t end) {
        if (Kind(kind) == Kind::subsets) subsets_range<T>(z, p, parameter, shared, s, begin, end);
        else if (shared && forward_in_float(value, norm, s)) family_range<T>(z, p, parameter, true, norm, s, begin, end);
        else family_range<double>(z, p, parameter, shared, norm, s, begin, end);
    });
}

template <class T>
void backward(int kind, const T* p, const T* g, T* out, double value, const double* rows, Shape s, int threads) {
    const bool shared = rows == nullptr, norm = Kind(kind) == Kind::normmax;
    const double* parameter = shared ? &value : rows;
    // k-subsets and alpha = 1.75 are plain sums and square roots; see tame() for the rest.
    const bool plain = Kind(kind) == Kind::subsets || (shared && (value == 1.75 || tame(value, norm)));
    share(s, threads, [&](int64_t begin, int64_t end) {
        if (plain) vjp_range<T>(Kind(kind), p, g, out, parameter, shared, s, begin, end);
        else vjp_range<double>(Kind(kind), p, g, out, parameter, shared, s, begin, end);
    });
}

// Pairs, which cost about a microsecond each, are handed out in whole vectors.
void contour(const Pairs& pairs, int threads) {
    const int64_t count = pairs.rows * pairs.functions;
    auto work = [&](int64_t begin, int64_t end) {
        if (pairs.n == 1) contour_range<1>(pairs, begin, end);
        else if (pairs.n == 2) contour_range<2>(pairs, begin, end);
        else if (pairs.n == 3) contour_range<3>(pairs, begin, end);
        else contour_range<0>(pairs, begin, end);
    };
    const int64_t pieces = (count + PIECE - 1) / PIECE;
    const int64_t team = std::min<int64_t>(threads, pieces / 2);
    if (team <= 1 || alone()) return work(0, count);
#pragma omp parallel for num_threads(int(team)) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) work(piece * PIECE, std::min(count, (piece + 1) * PIECE));
}

}  // namespace

extern "C" {

void omegamax_contour(const double* size, const double* height, const double* log_scale, const double* digamma_gap,
                      const double* diagonal, const double* delta, const double* spread, double* out, int64_t rows,
                      int64_t functions, int n, int one_diagonal, int one_spread, int nodes, double step, int threads) {
    contour({rows, functions, n, one_diagonal != 0, one_spread != 0, size, height, log_scale, digamma_gap, diagonal, delta,
             spread, nodes, step, out},
            threads);
}

void omegamax_forward_f32(int kind, const float* z, float* p, double value, const double* rows, int64_t outer, int64_t K,
                          int64_t inner, int threads) {
    forward<float>(kind, z, p, value, rows, {outer, K, inner}, threads);
}

void omegamax_forward_f64(int kind, const double* z, double* p, double value, const double* rows, int64_t outer,
                          int64_t K, int64_t inner, int threads) {
    forward<double>(kind, z, p, value, rows, {outer, K, inner}, threads);
}

void omegamax_backward_f32(int kind, const float* p, const float* g, float* out, double value, const double* rows,
                           int64_t outer, int64_t K, int64_t inner, int threads) {
    backward<float>(kind, p, g, out, value, rows, {outer, K, inner}, threads);
}

void omegamax_backward_f64(int kind, const double* p, const double* g, double* out, double value, const double* rows,
                           int64_t outer, int64_t K, int64_t inner, int threads) {
    backward<double>(kind, p, g, out, value, rows, {outer, K, inner}, threads);
}
}
