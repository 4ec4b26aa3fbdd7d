// Groups read off a solution of total variation: neighbours of equal value, joined.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace omegamax {

// A forest over the nodes in which every parent has a lower index.
class Groups {
public:
    void start(int64_t n) {
        parent.resize(size_t(n));
        for (int64_t i = 0; i < n; i++) parent[size_t(i)] = int32_t(i);
    }

    void join(int32_t i, int32_t j) {
        i = root(i), j = root(j);
        if (i < j) parent[size_t(j)] = i;
        else parent[size_t(i)] = j;
    }

    // out[i] becomes the mean of g over the group of i; 0 where w is absent.
    template <class T, class Given>
    void mean(const T* w, Given g, int64_t n, T* out) {
        sum.resize(size_t(n)), count.resize(size_t(n));
        for (int64_t i = 0; i < n; i++) {
            const size_t r = size_t(parent[size_t(i)] = parent[size_t(parent[size_t(i)])]);
            if (r == size_t(i)) sum[r] = 0, count[r] = 0;
            sum[r] += g(i), count[r]++;
        }
        for (int64_t i = 0; i < n; i++) {
            const size_t r = size_t(parent[size_t(i)]);
            const bool absent = w[i] == -std::numeric_limits<T>::infinity();
            out[i] = absent ? T(0) : count[r] == 1 ? T(sum[r]) : T(sum[r] / count[r]);
        }
    }

private:
    std::vector<int32_t> parent, count;
    std::vector<double> sum;

    int32_t root(int32_t i) {
        while (parent[size_t(i)] != i) i = parent[size_t(i)] = parent[size_t(parent[size_t(i)])];
        return i;
    }
};

// 1 where w falls from i to j, -1 where it rises, 0 where it does neither or one of them is absent.
template <class T>
double fall(T i, T j) {
    const T absent = -std::numeric_limits<T>::infinity();
    return i == absent || j == absent ? 0.0 : i > j ? 1.0 : i < j ? -1.0 : i == j ? 0.0 : double(NAN);
}

}  // namespace omegamax
