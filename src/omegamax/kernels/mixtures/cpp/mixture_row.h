// One row of weighted points on a line or in the plane: all iterations of expectation-maximisation at once, and the
// gradient through all of them. The components are Gaussians, the responsibilities those of Bayes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "../../cpp/simd.h"
#include "component.h"

namespace omegamax {

struct MixtureData {
    const double *x;  // [examples, N, L], coordinate after coordinate, `x_stride` apart: 0 if all share their points
    const double *weights;  // [examples, L]
    const int64_t *labels;  // [rows, L], the component of each point at the start; row r is of example r % examples
    const double *floor;  // [examples]
    const double *spread;  // [examples, N]
    int64_t x_stride, examples, rows, length, components, iterations;
};

// What one thread computes of a row, of whose points the last vector is filled up by some without weight.
template <int N>
class MixtureRow {
    typedef Vec<double> V;
    typedef Component<N> C;
    static constexpr int W = Simd<double>::W, F = C::F;

    const MixtureData &data;
    const int64_t K, vectors;
    std::vector<V> x, weights, by_weight;  // [vectors, N], [vectors], [vectors]
    std::vector<V> shares, scores, totals;  // [vectors, K], [K], [K, F]
    const std::vector<double> origin;  // [K, F]: where the centre of each component is 0
    std::vector<double> theta, sums, raw;  // [K, F]
    const int64_t *labels = nullptr;
    double floor = 0;
    const double *spread = nullptr;

   public:
    explicit MixtureRow(const MixtureData &given)
        : data(given), K(given.components), vectors((given.length + W - 1) / W), x(vectors * N), weights(vectors),
          by_weight(vectors), shares(vectors * K), scores(K), totals(K * F), origin(K * F), theta(K * F), sums(K * F),
          raw(K * F) {}

    // Writes the states at the start and after each iteration, [iterations + 1, rows, K, F]; returns J at the end.
    double fit(int64_t row, double *states) {
        open(row);
        double whole[F];
        fit_one(whole);
        const int64_t step = data.rows * K * F;
        double *state = states + row * K * F;
        gather_members();
        maximise(origin.data(), whole, state);
        for (int64_t t = 0; t < data.iterations; t++, state += step) {
            score(state);
            gather<false>(state);
            maximise(state, whole, state + step);
        }
        score(state);
        return value(state);
    }

    // Writes the gradient by the weights, [L], of <gradient, last state>; `gradient` [K, F] is written over.
    void differentiate(int64_t row, const double *states, double *gradient, double *out) {
        open(row);
        std::fill(by_weight.begin(), by_weight.end(), splat<double>(0));
        for (int64_t t = data.iterations; t > 0; t--) {
            const double *state = states + ((t - 1) * data.rows + row) * K * F;
            score(state);
            gather<true>(state);
            maximise_vjp(state, gradient);
            gather_vjp(state, gradient);
            for (int64_t k = 0; k < K; k++) C::score_vjp(state + k * F, spread, &sums[k * F], gradient + k * F);
        }
        gather_members();
        maximise_vjp(origin.data(), gradient);
        for (int64_t v = 0; v < vectors; v++) {
            combine(gradient, v);
            for (int64_t l = v * W; l < std::min((v + 1) * W, data.length); l++)
                out[l] = by_weight[v][l % W] + (is_member(l) ? scores[labels[l]][l % W] : 0);
        }
    }

   private:
    void open(int64_t row) {
        const int64_t example = row % data.examples, L = data.length;
        labels = data.labels + row * L, floor = data.floor[example], spread = data.spread + example * N;
        for (int64_t v = 0; v < vectors; v++) {
            for (int i = 0; i < N; i++) x[v * N + i] = load_vector(data.x + example * data.x_stride + i * L, v);
            weights[v] = load_vector(data.weights + example * L, v);
        }
    }

    V load_vector(const double *from, int64_t v) const {
        const int64_t left = data.length - v * W;
        return left >= W ? load<double>(from + v * W) : load_some<double>(from + v * W, int(left), 0.0);
    }

    // A point may be a member of none.
    bool is_member(int64_t l) const { return labels[l] >= 0 && labels[l] < K; }

    // Adds to sums about a centre.
    template <class T>
    static MEMBER void add_up(T *total, T mass, const T *d) {
        total[0] += mass;
        for (int i = 0, k = 1 + N; i < N; i++) {
            const T along = mass * d[i];
            total[1 + i] += along;
            for (int j = 0; j <= i; j++) total[k++] += along * d[j];
        }
    }

    // How far a vector of points is from a centre.
    MEMBER void subtract(int64_t v, const double *centre, V *d) const {
        for (int i = 0; i < N; i++) d[i] = x[v * N + i] - centre[i];
    }

    // Mean and covariance of all points, in the place that a state has for them.
    void fit_one(double *whole) const {
        V total[F]{};
        for (int64_t v = 0; v < vectors; v++) add_up(total, weights[v], &x[v * N]);
        double all[F];
        for (int j = 0; j < F; j++) all[j] = across_sum<double>(total[j])[0];
        C::moments(all, origin.data(), spread, whole);
        C::hold(whole + 1 + N, floor, whole + 1 + N);
    }

    // Sums over the members of each component at the start.
    void gather_members() {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t l = 0; l < data.length; l++) {
            if (!is_member(l)) continue;
            double d[N];
            for (int i = 0; i < N; i++) d[i] = x[l / W * N + i][l % W];
            add_up<double>(&sums[labels[l] * F], weights[l / W][l % W], d);
        }
    }

    void score(const double *state) {
        for (int64_t k = 0; k < K; k++) C::score(state + k * F, spread, &theta[k * F]);
    }

    // Writes exponentials of the scores of a vector of points, the largest as 1; returns its score, and their sum.
    MEMBER std::pair<V, V> score_points(const double *state, int64_t v) {
        V top = splat<double>(-INF), total{};
        for (int64_t k = 0; k < K; k++) {
            const double *t = &theta[k * F];
            V d[N];
            subtract(v, state + k * F + 1, d);
            scores[k] = t[0] + t[1] * d[0] * d[0];
            if constexpr (N == 2) {
                const V across = d[1] - t[2] * d[0];
                scores[k] += t[3] * across * across;
            }
            top = maximum<double>(top, scores[k]);
        }
        for (int64_t k = 0; k < K; k++) total += scores[k] = exponential<double>(scores[k] - top);
        return {top, total};
    }

    // Writes what these coefficients [K, F], about the means in `raw`, say of a vector of points to `scores`.
    MEMBER void combine(const double *coefficients, int64_t v) {
        for (int64_t k = 0; k < K; k++) {
            const double *c = coefficients + k * F;
            V d[N], score = splat<double>(c[0]);
            subtract(v, &raw[k * F + 1], d);
            for (int i = 0, n = 1 + N; i < N; i++) {
                V slope = splat<double>(c[1 + i]);
                for (int j = 0; j <= i; j++) slope += c[n++] * d[j];
                score += slope * d[i];
            }
            scores[k] = score;
        }
    }

    MEMBER void add_to_totals(int64_t v, int64_t k, V mass, const double *state) {
        V d[N];
        subtract(v, state + k * F + 1, d);
        add_up(&totals[k * F], mass, d);
    }

    void add_across() {
        for (int64_t i = 0; i < K * F; i++) sums[i] = across_sum<double>(totals[i])[0];
    }

    // Sums over all points with their responsibilities, which are kept where they are needed once more.
    template <bool KEEP>
    void gather(const double *state) {
        std::fill(totals.begin(), totals.end(), splat<double>(0));
        for (int64_t v = 0; v < vectors; v++) {
            const V over = 1.0 / score_points(state, v).second;
            for (int64_t k = 0; k < K; k++) {
                const V share = scores[k] * over;
                if constexpr (KEEP) shares[v * K + k] = share;
                add_to_totals(v, k, share * weights[v], state);
            }
        }
        add_across();
    }

    // Adds the gradient by the weights; leaves that by the scores, summed about the means of the state, in `sums`.
    void gather_vjp(const double *state, const double *gradient) {
        std::fill(totals.begin(), totals.end(), splat<double>(0));
        for (int64_t v = 0; v < vectors; v++) {
            const V *share = &shares[v * K];
            combine(gradient, v);
            V mean{};
            for (int64_t k = 0; k < K; k++) mean += share[k] * scores[k];
            by_weight[v] += mean;
            for (int64_t k = 0; k < K; k++)
                add_to_totals(v, k, weights[v] * share[k] * (scores[k] - mean), state);
        }
        add_across();
    }

    double value(const double *state) {
        V sum{};
        for (int64_t v = 0; v < vectors; v++) {
            const auto [top, total] = score_points(state, v);
            sum += weights[v] * (top + logarithm<double>(total));
        }
        return across_sum<double>(sum)[0];
    }

    // Takes away masses of which nothing can be seen; returns the sum of the others.
    double total_mass() {
        double total = 0;
        for (int64_t k = 0; k < K; k++) {
            if (!(sums[k * F] > LEAST_MASS)) sums[k * F] = 0;
            total += sums[k * F];
        }
        return total;
    }

    // From sums about the means of the state before to a state. A component without mass has weight 0 from then on, and
    // the moments of all points.
    void maximise(const double *before, const double *whole, double *state) {
        const double total = total_mass();
        for (int64_t k = 0; k < K; k++, state += F) {
            const double *s = &sums[k * F];
            if (s[0] > 0) C::moments(s, before + k * F + 1, spread, state);
            else std::copy(whole + 1, whole + F, state + 1);
            state[0] = s[0] / total;
            C::hold(state + 1 + N, floor, state + 1 + N);
        }
    }

    // From the gradient by a state to what it says of the weight of each point in a component: coefficients about the
    // means, which are left in `raw`.
    void maximise_vjp(const double *before, double *gradient) {
        const double total = total_mass();
        double mean = 0;
        for (int64_t k = 0; k < K; k++) mean += gradient[k * F] * sums[k * F] / total;
        for (int64_t k = 0; k < K; k++, gradient += F) {
            const double *s = &sums[k * F];
            double *r = &raw[k * F];
            if (s[0] > 0) {
                C::moments(s, before + k * F + 1, spread, r);
                gradient[0] = (gradient[0] - mean) / total;
                C::hold_vjp(r + 1 + N, floor, gradient + 1 + N);
                C::moments_vjp(r, spread, s[0], gradient);
            } else {
                std::fill(gradient, gradient + F, 0.0);
                std::fill(r, r + F, 0.0);
            }
        }
    }
};

}  // namespace omegamax
