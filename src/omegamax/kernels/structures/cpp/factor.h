// A Cholesky factor of a matrix that gains and loses rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "wide.h"

namespace omegamax {

// L with L L^T = K, by columns, and z with L z = 1.
class Factor {
   public:
    int64_t size() const { return size_; }
    void clear() { size_ = 0; }

    // K's next row: its part inside K, which becomes that of L, and its end; returns the Schur complement, the square of
    // the end of L's row.
    double border(double* row, double end) const {
        forward(row);
        double schur = end;
        for (int64_t i = 0; i < size_; i++) schur -= row[i] * row[i];
        return schur;
    }

    void push(const double* row, double schur) {
        if (size_ == stride_) grow();
        double sum = 0;
        for (int64_t k = 0; k < size_; k++) {
            column(k)[size_] = row[k];
            sum += row[k] * z_[k];
        }
        const double end = std::sqrt(schur);
        column(size_)[size_] = end;
        z_[size_++] = (1 - sum) / end;
    }

    // Takes row and column j out of K: a sum of squares more in the block below, so nothing is lost to cancellation.
    void erase(int64_t j) {
        double* lost = spare_.data();
        std::copy(column(j) + j + 1, column(j) + size_, lost + j + 1);
        double end = z_[j];
        for (int64_t k = 0; k < j; k++) std::copy(column(k) + j + 1, column(k) + size_, column(k) + j);
        for (int64_t k = j + 1; k < size_; k++) {
            const double* from = column(k);
            double* to = column(k - 1);
            const double r = std::sqrt(from[k] * from[k] + lost[k] * lost[k]), c = from[k] / r, s = lost[k] / r;
            to[k - 1] = r;
            rotate(from, to, lost, k + 1, c, s);
            z_[k - 1] = c * z_[k] + s * end;
            end = c * end - s * z_[k];
        }
        size_--;
    }

    // Leading zeros stay zeros. Four columns at a time: x is read and written once for all of them.
    OMEGAMAX_WIDE void forward(double* x) const {
        int64_t k = 0;
        while (k < size_ && x[k] == 0) k++;
        for (; k + 4 <= size_; k += 4) {
            const double *a = column(k), *b = column(k + 1), *c = column(k + 2), *d = column(k + 3);
            const double p = x[k] /= a[k];
            const double q = x[k + 1] = (x[k + 1] - p * a[k + 1]) / b[k + 1];
            const double r = x[k + 2] = (x[k + 2] - p * a[k + 2] - q * b[k + 2]) / c[k + 2];
            const double s = x[k + 3] = (x[k + 3] - p * a[k + 3] - q * b[k + 3] - r * c[k + 3]) / d[k + 3];
#pragma omp simd  // x is no part of the factor
            for (int64_t i = k + 4; i < size_; i++) x[i] -= p * a[i] + q * b[i] + r * c[i] + s * d[i];
        }
        for (; k < size_; k++) {
            const double* l = column(k);
            const double v = x[k] /= l[k];
            for (int64_t i = k + 1; i < size_; i++) x[i] -= v * l[i];
        }
    }

    OMEGAMAX_WIDE void backward(double* x) const {
        int64_t k = size_ - 1;
        for (; k >= 3; k -= 4) {
            const double *a = column(k), *b = column(k - 1), *c = column(k - 2), *d = column(k - 3);
            double p = 0, q = 0, r = 0, s = 0;
#pragma omp simd reduction(+ : p, q, r, s)
            for (int64_t i = k + 1; i < size_; i++) {
                p += a[i] * x[i];
                q += b[i] * x[i];
                r += c[i] * x[i];
                s += d[i] * x[i];
            }
            x[k] = (x[k] - p) / a[k];
            x[k - 1] = (x[k - 1] - q - b[k] * x[k]) / b[k - 1];
            x[k - 2] = (x[k - 2] - r - c[k] * x[k] - c[k - 1] * x[k - 1]) / c[k - 2];
            x[k - 3] = (x[k - 3] - s - d[k] * x[k] - d[k - 1] * x[k - 1] - d[k - 2] * x[k - 2]) / d[k - 3];
        }
        for (; k >= 0; k--) {
            const double* l = column(k);
            double sum = 0;
            for (int64_t i = k + 1; i < size_; i++) sum += l[i] * x[i];
            x[k] = (x[k] - sum) / l[k];
        }
    }

    // x becomes the solution of K x = b - t 1 with the t for which it sums to zero.
    void solve_centred(double* x) const {
        forward(x);
        double along = 0, norm = 0;
        for (int64_t k = 0; k < size_; k++) {
            along += z_[k] * x[k];
            norm += z_[k] * z_[k];
        }
        for (int64_t k = 0; k < size_; k++) x[k] -= along / norm * z_[k];
        backward(x);
    }

   private:
    int64_t size_ = 0, stride_ = 0;
    std::vector<double> l_, z_, spare_;

    double* column(int64_t k) { return l_.data() + k * stride_; }
    const double* column(int64_t k) const { return l_.data() + k * stride_; }

    OMEGAMAX_WIDE void rotate(const double* from, double* to, double* lost, int64_t begin, double c, double s) {
#pragma omp simd  // columns do not overlap
        for (int64_t i = begin; i < size_; i++) {
            const double a = from[i], b = lost[i];
            to[i - 1] = c * a + s * b;
            lost[i] = c * b - s * a;
        }
    }

    void grow() {
        const int64_t stride = std::max<int64_t>(32, 2 * stride_) + 8;  // no power of two: columns share no cache sets
        std::vector<double> l(stride * stride);
        for (int64_t k = 0; k < size_; k++) std::copy(column(k) + k, column(k) + size_, l.data() + k * stride + k);
        l_.swap(l);
        stride_ = stride;
        z_.resize(stride);
        spare_.resize(stride);
    }
};

}  // namespace omegamax
