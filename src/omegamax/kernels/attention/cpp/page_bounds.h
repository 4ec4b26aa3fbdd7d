// How large and how small the largest score of a query in each page of keys can be, from a copy of the keys in bytes; see
// ../reference.py, the same in torch, for the formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../cpp/threads.h"

namespace omegamax {

constexpr int64_t CHUNK = 256;  // pages of a text that one thread goes through

template <class T>
struct PageBounds {
    const T *q;  // [texts, rows, depth]
    const uint8_t *codes;  // [texts, pages, depth, page], a text `codes_stride` apart from the next
    const T *low, *high;  // [texts, pages, depth], likewise
    const int64_t *limits;  // [texts, rows], keys that are seen
    const double *reach;  // [texts, rows], the threshold is no further below the largest score
    T *upper, *least, *rounding;  // [texts, rows, pages]
    int64_t rows, depth, size, page, pages, codes_stride, extremes_stride;
    T floor, eps;

    struct Sums {
        T base, box, error, reach;
    };

    // Writes q times the step of a code; returns <q, low>, the bound by the box, what a code may be off by, and the most
    // that a sum can be of.
    Sums prepare(const T *query, const T *l, const T *h, T *steps) const {
        T base = 0, box = 0, error = 0, most = 0;
#pragma omp simd reduction(+ : base, box, error, most)
        for (int64_t d = 0; d < depth; d++) {
            const T spread = h[d] - l[d], size = std::abs(query[d]);
            const bool coded = spread > floor;
            const T step = coded ? spread / 255 : T(0);
            steps[d] = query[d] * step;
            base += query[d] * l[d];
            // A product of zero and an infinity is NaN, which says nothing of the page.
            box += (query[d] > 0 ? query[d] : T(0)) * h[d] + (query[d] < 0 ? query[d] : T(0)) * l[d];
            error += size * (coded ? T(0.501) * step : spread);
            most += size * std::max(std::abs(l[d]), std::abs(h[d]));
        }
        return {base, box, error, most};
    }

    // The largest sum over d of steps[d] * code[d] among LANES keys, of which the first `count` are seen.
    template <int LANES>
    T largest(const T *steps, const uint8_t *code, int64_t count) const {
        T sums[LANES] = {};
        for (int64_t d = 0; d < depth; d++) {
            const uint8_t *column = code + d * page;
#pragma omp simd
            for (int j = 0; j < LANES; j++) sums[j] += steps[d] * T(column[j]);
        }
        T best = -std::numeric_limits<T>::infinity();
        for (int j = 0; j < std::min<int64_t>(LANES, count); j++)
            best = sums[j] > best || sums[j] != sums[j] ? sums[j] : best;
        return best;
    }

    T largest(const T *steps, const uint8_t *code, int64_t count) const {
        T best = -std::numeric_limits<T>::infinity();
        auto add = [&](T sum) { best = sum > best || sum != sum ? sum : best; };
        int64_t j = 0;
        for (; j < count && j + 64 <= page; j += 64) add(largest<64>(steps, code + j, count - j));
        for (; j < count && j + 16 <= page; j += 16) add(largest<16>(steps, code + j, count - j));
        for (; j < count; j++) add(largest<1>(steps, code + j, 1));
        return best;
    }

    // Pages from `first` to `last` of a text for one of its queries. A page whose box is too low for any weight needs no
    // codes.
    void run(int64_t text, int64_t row, int64_t first, int64_t last, T *steps) const {
        const T infinity = std::numeric_limits<T>::infinity();
        const int64_t at = text * rows + row;
        const T below = T(reach[at]);
        T best = -infinity;
        for (int64_t p = first; p < last; p++) {
            const int64_t out = at * pages + p, seen = std::min(page, std::min(limits[at], size) - p * page);
            const int64_t extremes = text * extremes_stride + p * depth;
            const Sums sums = prepare(q + at * depth, low + extremes, high + extremes, steps);
            const T off = T(depth + 4) * eps * sums.reach, slack = 6 * off;
            rounding[out] = off == off ? off : infinity;
            least[out] = -infinity;
            if (seen <= 0) {
                upper[out] = -infinity;
                continue;
            }
            const T box = sums.box + slack;
            upper[out] = box == box ? box : infinity;
            if (box <= best - below - 4 * eps * (std::abs(best) + below)) continue;
            const T top = sums.base + largest(steps, codes + text * codes_stride + p * depth * page, seen);
            if (top + sums.error + slack < upper[out]) upper[out] = top + sums.error + slack;
            const T lower = top - sums.error - slack;
            if (std::isfinite(lower)) least[out] = lower;
            best = std::max(best, least[out]);
        }
    }
};

template <class T>
void bound_pages(const PageBounds<T> &bounds, int64_t texts, int threads) {
    const int64_t chunks = (bounds.pages + CHUNK - 1) / CHUNK;
    for_each(texts * chunks, threads, [&](int64_t item, int) {
        std::vector<T> steps(bounds.depth);
        const int64_t first = item % chunks * CHUNK, last = std::min(first + CHUNK, bounds.pages);
        for (int64_t row = 0; row < bounds.rows; row++) bounds.run(item / chunks, row, first, last, steps.data());
    });
}

}  // namespace omegamax

#define OMEGAMAX_PAGE_BOUNDS(suffix, T)                                                                               \
    extern "C" void omegamax_page_bounds_##suffix(                                                                    \
        const T *q, const uint8_t *codes, const T *low, const T *high, const int64_t *limits, const double *reach,    \
        T *upper, T *least, T *rounding, int64_t texts, int64_t rows, int64_t depth, int64_t size, int64_t page,      \
        int64_t pages, int64_t codes_stride, int64_t extremes_stride, double floor, double eps, int threads) {        \
        omegamax::bound_pages<T>({q, codes, low, high, limits, reach, upper, least, rounding, rows, depth, size,      \
                                  page, pages, codes_stride, extremes_stride, T(floor), T(eps)},                      \
                                 texts, threads);                                                                     \
    }
OMEGAMAX_PAGE_BOUNDS(f32, float)
OMEGAMAX_PAGE_BOUNDS(f64, double)
