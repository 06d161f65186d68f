// libcusolver and libcublas for the emulator: textbook algorithms in double precision, strict about what the real libraries demand.
// Both are built from this file. What a call may destroy is destroyed.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <numeric>
#include <vector>

#include "answer.h"

typedef int Status;
typedef std::complex<double> Number;
static const int INVALID = 3, FAILED = 6;
static const int R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5;

struct Handle {
    void *stream = nullptr, *workspace = nullptr;
    size_t bytes = 0;
};
static bool is_type(int t) { return t == R_32F || t == R_64F || t == C_32F || t == C_64F; }
static int real_of(int t) { return t == C_32F ? R_32F : t == C_64F ? R_64F : t; }
static size_t width(int t) { return t == R_32F ? 4 : t == C_64F ? 16 : 8; }
static Number get(int t, const void* p, int64_t i) {
    switch (t) {
        case R_32F: return ((const float*)p)[i];
        case R_64F: return ((const double*)p)[i];
        case C_32F: return Number(((const float*)p)[2 * i], ((const float*)p)[2 * i + 1]);
        default: return ((const Number*)p)[i];
    }
}
static void put(int t, void* p, int64_t i, Number v) {
    switch (t) {
        case R_32F: ((float*)p)[i] = (float)v.real(); break;
        case R_64F: ((double*)p)[i] = v.real(); break;
        case C_32F: ((float*)p)[2 * i] = (float)v.real(), ((float*)p)[2 * i + 1] = (float)v.imag(); break;
        default: ((Number*)p)[i] = v;
    }
}
// A matrix, column by column.
struct Matrix {
    int64_t rows, cols;
    std::vector<Number> v;
    Matrix(int64_t r, int64_t c) : rows(r), cols(c), v(r * c) {}
    Number& operator()(int64_t i, int64_t j) { return v[i + j * rows]; }
    static Matrix read(int t, const void* p, int64_t r, int64_t c, int64_t ld) {
        Matrix m(r, c);
        for (int64_t j = 0; j < c; j++)
            for (int64_t i = 0; i < r; i++) m(i, j) = get(t, p, i + j * ld);
        return m;
    }
    void write(int t, void* p, int64_t ld) {
        for (int64_t j = 0; j < cols; j++)
            for (int64_t i = 0; i < rows; i++) put(t, p, i + j * ld, (*this)(i, j));
    }
};
// In the stream's order, like a kernel.
static Status issue(void* stream, std::function<void()> work) {
    typedef int (*Issue)(void*, void (*)(void*), void*, void (*)(void*));
    static const Issue emulator = (Issue)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_issue");
    if (!emulator) return FAILED;
    const auto run = [](void* what) { (*(std::function<void()>*)what)(); };
    const auto free = [](void* what) { delete (std::function<void()>*)what; };
    return emulator(stream, run, new std::function<void()>(std::move(work)), free) ? FAILED : 0;
}
static void spoil(void* p, size_t bytes) { memset(p, 0xCB, bytes); }

// A reflector 1 - tau v v* that maps x, from row `k` of column `j` on, to a real multiple of the first unit vector.
static Number reflector(Matrix& a, int64_t k, int64_t j) {
    double tail = 0;
    for (int64_t i = k + 1; i < a.rows; i++) tail += std::norm(a(i, j));
    const Number alpha = a(k, j);
    if (tail == 0 && alpha.imag() == 0) return 0;
    const double beta = -std::copysign(std::sqrt(std::norm(alpha) + tail), alpha.real());
    const Number tau = (beta - alpha) / beta, scale = 1.0 / (alpha - beta);
    for (int64_t i = k + 1; i < a.rows; i++) a(i, j) *= scale;
    a(k, j) = beta;
    return tau;
}
// Applies 1 - tau v v*, v in column `k` of `from`, to columns of `a` from `first` on.
static void reflect(Matrix& from, int64_t k, Number tau, Matrix& a, int64_t first) {
    for (int64_t j = first; j < a.cols; j++) {
        Number dot = a(k, j);
        for (int64_t i = k + 1; i < a.rows; i++) dot += std::conj(from(i, k)) * a(i, j);
        dot *= tau;
        a(k, j) -= dot;
        for (int64_t i = k + 1; i < a.rows; i++) a(i, j) -= from(i, k) * dot;
    }
}
// Eigenvalues and vectors of a Hermitian matrix by Jacobi's rotations; false where they do not converge.
static bool eigen(Matrix a, std::vector<double>& w, Matrix& v) {
    const int64_t n = a.rows;
    double scale = 0;
    for (Number x : a.v) scale += std::norm(x);
    if (!std::isfinite(scale)) return false;
    for (int64_t i = 0; i < n; i++) v(i, i) = 1;
    for (int sweep = 0;; sweep++) {
        double off = 0;
        for (int64_t q = 1; q < n; q++)
            for (int64_t p = 0; p < q; p++) off += std::norm(a(p, q));
        if (off <= 1e-30 * scale) break;
        if (sweep == 60) return false;
        for (int64_t q = 1; q < n; q++)
            for (int64_t p = 0; p < q; p++) {
                const double size = std::abs(a(p, q));
                if (size == 0) continue;
                const Number phase = a(p, q) / size;
                const double theta = (a(q, q).real() - a(p, p).real()) / (2 * size);
                const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
                const double c = 1 / std::sqrt(t * t + 1), s = t * c;
                for (int64_t i = 0; i < n; i++) {
                    const Number x = a(i, p), y = a(i, q);
                    a(i, p) = c * x - s * std::conj(phase) * y;
                    a(i, q) = s * phase * x + c * y;
                    const Number f = v(i, p), g = v(i, q);
                    v(i, p) = c * f - s * std::conj(phase) * g;
                    v(i, q) = s * phase * f + c * g;
                }
                for (int64_t i = 0; i < n; i++) {
                    const Number x = a(p, i), y = a(q, i);
                    a(p, i) = c * x - s * phase * y;
                    a(q, i) = s * std::conj(phase) * x + c * y;
                }
            }
    }
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return a(x, x).real() < a(y, y).real(); });
    const Matrix found = v;
    for (int64_t j = 0; j < n; j++) {
        w.push_back(a(order[j], order[j]).real());
        for (int64_t i = 0; i < n; i++) v(i, j) = found.v[i + order[j] * n];
    }
    return true;
}
// Columns that complete orthonormal ones.
static void complete(Matrix& u, int64_t from) {
    int64_t next = 0;
    for (int64_t j = from; j < u.cols;) {
        for (int64_t i = 0; i < u.rows; i++) u(i, j) = i == next;
        next++;
        for (int twice = 0; twice < 2; twice++)
            for (int64_t k = 0; k < j; k++) {
                Number dot = 0;
                for (int64_t i = 0; i < u.rows; i++) dot += std::conj(u(i, k)) * u(i, j);
                for (int64_t i = 0; i < u.rows; i++) u(i, j) -= dot * u(i, k);
            }
        double norm = 0;
        for (int64_t i = 0; i < u.rows; i++) norm += std::norm(u(i, j));
        if (norm < 1e-6) continue;
        for (int64_t i = 0; i < u.rows; i++) u(i, j) /= std::sqrt(norm);
        j++;
    }
}
// Singular values by rotations of columns.
static bool singular(Matrix a, std::vector<double>& s, Matrix& u, Matrix& v) {
    const int64_t m = a.rows, n = a.cols;
    for (Number x : a.v)
        if (!std::isfinite(std::norm(x))) return false;
    for (int64_t i = 0; i < n; i++) v(i, i) = 1;
    for (int sweep = 0;; sweep++) {
        if (sweep == 80) return false;
        bool rotated = false;
        for (int64_t q = 1; q < n; q++)
            for (int64_t p = 0; p < q; p++) {
                double x = 0, y = 0;
                Number dot = 0;
                for (int64_t i = 0; i < m; i++) x += std::norm(a(i, p)), y += std::norm(a(i, q)), dot += std::conj(a(i, p)) * a(i, q);
                const double size = std::abs(dot);
                if (size <= 1e-15 * std::sqrt(x * y) || size < 1e-300) continue;
                rotated = true;
                const Number phase = dot / size;
                const double theta = (y - x) / (2 * size);
                const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
                const double c = 1 / std::sqrt(t * t + 1), r = t * c;
                const auto rotate = [&](Matrix& b, int64_t rows) {
                    for (int64_t i = 0; i < rows; i++) {
                        const Number f = b(i, p), g = b(i, q);
                        b(i, p) = c * f - r * std::conj(phase) * g;
                        b(i, q) = r * phase * f + c * g;
                    }
                };
                rotate(a, m);
                rotate(v, n);
            }
        if (!rotated) break;
    }
    std::vector<double> norms(n);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) norms[j] += std::norm(a(i, j));
        norms[j] = std::sqrt(norms[j]);
    }
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return norms[x] > norms[y]; });
    const Matrix right = v;
    int64_t rank = 0;
    for (int64_t j = 0; j < n; j++) {
        const int64_t o = order[j];
        s.push_back(norms[o]);
        for (int64_t i = 0; i < n; i++) v(i, j) = right.v[i + o * n];
        if (norms[o] > 1e-14 * norms[order[0]] && norms[o] > 0) {
            for (int64_t i = 0; i < m; i++) u(i, j) = a(i, o) / norms[o];
            rank = j + 1;
        }
    }
    complete(u, rank);
    return true;
}

extern "C" {
#ifdef BLAS
Status cublasCreate_v2(Handle** h) { *h = new Handle; return 0; }
// As in the real library, another stream means the workspace of the handle itself.
Status cublasSetStream_v2(Handle* h, void* s) { h->stream = s; h->workspace = nullptr; return 0; }
Status cublasSetWorkspace_v2(Handle* h, void* w, size_t bytes) {
    if ((uintptr_t)w % 256) return 7;
    h->workspace = w;
    h->bytes = bytes;
    return 0;
}
static Status trsm(int t, Handle* h, int side, int uplo, int trans, int diag, int m, int n, const void* alpha, const void* a, int lda,
                   void* b, int ldb) {
    if (side || trans || uplo < 0 || uplo > 1 || diag < 0 || diag > 1 || m < 0 || n < 0 || lda < std::max(m, 1) || ldb < std::max(m, 1)) return 7;
    if (!h->workspace || !h->bytes) return 7;
    const Number one = get(t, alpha, 0);
    void* const workspace = h->workspace;
    const size_t bytes = h->bytes;
    return issue(h->stream, [=] {
        spoil(workspace, bytes);
        Matrix l = Matrix::read(t, a, m, m, lda), x = Matrix::read(t, b, m, n, ldb);
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < m; k++) {
                const int64_t i = uplo ? m - 1 - k : k;
                Number sum = one * x(i, j);
                for (int64_t c = uplo ? i + 1 : 0; c < (uplo ? m : i); c++) sum -= l(i, c) * x(c, j);
                x(i, j) = diag ? sum : sum / l(i, i);
            }
        x.write(t, b, ldb);
    });
}
#define TRSM(NAME, T)                                                                                                          \
    Status NAME(Handle* h, int side, int uplo, int trans, int diag, int m, int n, const void* alpha, const void* a, int lda,   \
                void* b, int ldb) {                                                                                            \
        return trsm(T, h, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb);                                               \
    }
TRSM(cublasStrsm_v2, R_32F)
TRSM(cublasDtrsm_v2, R_64F)
TRSM(cublasCtrsm_v2, C_32F)
TRSM(cublasZtrsm_v2, C_64F)
#else
static const size_t DEVICE = 512, HOST = 64;
struct Space {
    void* device;
    size_t device_bytes;
    void* host;
    size_t host_bytes;
    bool fits() const { return device && device_bytes >= DEVICE && host && host_bytes >= HOST; }
};
static Status sizes(bool valid, size_t* device, size_t* host) {
    if (!valid) return INVALID;
    *device = DEVICE;
    *host = HOST;
    return 0;
}
// The host's workspace is used during the call, the device's when the stream comes to it.
static Status decompose(Handle* h, const Space& w, std::function<void()> work) {
    if (!w.fits()) return INVALID;
    spoil(w.host, w.host_bytes);
    return issue(h->stream, [=] {
        spoil(w.device, w.device_bytes);
        work();
    });
}

Status cusolverGetVersion(int* v) {
    const char* text = getenv("EMULATOR_CUSOLVER_VERSION");
    *v = text ? atoi(text) : 12000;
    return 0;
}
Status cusolverDnCreate(Handle** h) { *h = new Handle; return 0; }
Status cusolverDnCreateParams(void** p) { *p = new int(0); return 0; }
Status cusolverDnSetStream(Handle* h, void* s) { h->stream = s; return 0; }

Status cusolverDnXpotrf_bufferSize(Handle*, void* p, int uplo, int64_t n, int t, const void*, int64_t lda, int c, size_t* d, size_t* h) {
    return sizes(p && uplo >= 0 && uplo <= 1 && n > 0 && lda >= n && is_type(t) && c == t, d, h);
}
Status cusolverDnXpotrf(Handle* h, void*, int uplo, int64_t n, int t, void* p, int64_t lda, int c, void* w, size_t nw, void* hw,
                        size_t nh, int* info) {
    ANSWER("cusolverDnXpotrf");
    if (c != t || lda < n) return INVALID;
    return decompose(h, Space{w, nw, hw, nh}, [=] {
        Matrix a = Matrix::read(t, p, n, n, lda);
        *info = 0;
        // Of an upper triangle, the rows are the columns of the lower one.
        const auto at = [&](int64_t i, int64_t j) -> Number { return uplo ? std::conj(a(j, i)) : a(i, j); };
        const auto set = [&](int64_t i, int64_t j, Number v) { (uplo ? a(j, i) : a(i, j)) = uplo ? std::conj(v) : v; };
        for (int64_t j = 0; j < n && !*info; j++) {
            double d = at(j, j).real();
            for (int64_t k = 0; k < j; k++) d -= std::norm(at(j, k));
            if (!(d > 0)) {
                *info = (int)j + 1;
                break;
            }
            set(j, j, std::sqrt(d));
            for (int64_t i = j + 1; i < n; i++) {
                Number s = at(i, j);
                for (int64_t k = 0; k < j; k++) s -= at(i, k) * std::conj(at(j, k));
                set(i, j, s / std::sqrt(d));
            }
        }
        a.write(t, p, lda);
    });
}
Status cusolverDnXgetrf_bufferSize(Handle*, void* p, int64_t m, int64_t n, int t, const void*, int64_t lda, int c, size_t* d, size_t* h) {
    return sizes(p && m > 0 && n > 0 && lda >= m && is_type(t) && c == t, d, h);
}
Status cusolverDnXgetrf(Handle* h, void*, int64_t m, int64_t n, int t, void* p, int64_t lda, int64_t* pivots, int c, void* w, size_t nw,
                        void* hw, size_t nh, int* info) {
    if (c != t || lda < m) return INVALID;
    return decompose(h, Space{w, nw, hw, nh}, [=] {
        Matrix a = Matrix::read(t, p, m, n, lda);
        *info = 0;
        for (int64_t k = 0; k < std::min(m, n); k++) {
            int64_t best = k;
            const auto size = [&](int64_t i) { return std::abs(a(i, k).real()) + std::abs(a(i, k).imag()); };
            for (int64_t i = k + 1; i < m && pivots; i++)
                if (size(i) > size(best)) best = i;
            if (pivots) pivots[k] = best + 1;
            for (int64_t j = 0; j < n && best != k; j++) std::swap(a(k, j), a(best, j));
            if (a(k, k) == 0.0) {
                if (!*info) *info = (int)k + 1;
                continue;
            }
            for (int64_t i = k + 1; i < m; i++) {
                a(i, k) /= a(k, k);
                for (int64_t j = k + 1; j < n; j++) a(i, j) -= a(i, k) * a(k, j);
            }
        }
        a.write(t, p, lda);
    });
}
Status cusolverDnXgeqrf_bufferSize(Handle*, void* p, int64_t m, int64_t n, int t, const void*, int64_t lda, int tt, const void*, int c,
                                   size_t* d, size_t* h) {
    return sizes(p && m > 0 && n > 0 && lda >= m && is_type(t) && tt == t && c == t, d, h);
}
Status cusolverDnXgeqrf(Handle* h, void*, int64_t m, int64_t n, int t, void* p, int64_t lda, int, void* tau, int, void* w, size_t nw,
                        void* hw, size_t nh, int* info) {
    if (lda < m) return INVALID;
    return decompose(h, Space{w, nw, hw, nh}, [=] {
        Matrix a = Matrix::read(t, p, m, n, lda);
        for (int64_t k = 0; k < std::min(m, n); k++) {
            const Number found = reflector(a, k, k);
            put(t, tau, k, found);
            reflect(a, k, std::conj(found), a, k + 1);
        }
        a.write(t, p, lda);
        *info = 0;
    });
}
static Status orgqr_size(int m, int n, int k, int lda, int* n_elements) {
    if (m < n || n < k || k < 0 || lda < m) return INVALID;
    *n_elements = 64;
    return 0;
}
static Status orgqr(int t, Handle* h, int m, int n, int k, void* p, int lda, const void* tau, void* w, int nw, int* info) {
    if (m < n || n < k || k < 0 || lda < m || nw < 64 || !w) return INVALID;
    return issue(h->stream, [=] {
        spoil(w, nw * width(t));
        Matrix v = Matrix::read(t, p, m, n, lda), q(m, n);
        for (int64_t j = 0; j < n; j++) q(j, j) = 1;
        for (int64_t i = k; i-- > 0;) reflect(v, i, get(t, tau, i), q, 0);
        q.write(t, p, lda);
        *info = 0;
    });
}
#define ORGQR(NAME, T)                                                                                                 \
    Status NAME##_bufferSize(Handle*, int m, int n, int k, const void*, int lda, const void*, int* w) {               \
        return orgqr_size(m, n, k, lda, w);                                                                            \
    }                                                                                                                  \
    Status NAME(Handle* h, int m, int n, int k, void* a, int lda, const void* tau, void* w, int nw, int* info) {       \
        return orgqr(T, h, m, n, k, a, lda, tau, w, nw, info);                                                         \
    }
ORGQR(cusolverDnSorgqr, R_32F)
ORGQR(cusolverDnDorgqr, R_64F)
ORGQR(cusolverDnCungqr, C_32F)
ORGQR(cusolverDnZungqr, C_64F)
Status cusolverDnXsyevd_bufferSize(Handle*, void* p, int job, int uplo, int64_t n, int t, const void*, int64_t lda, int tw, const void*,
                                   int c, size_t* d, size_t* h) {
    return sizes(p && job >= 0 && job <= 1 && uplo >= 0 && uplo <= 1 && n > 0 && lda >= n && is_type(t) && tw == real_of(t) && c == t, d, h);
}
Status cusolverDnXsyevd(Handle* h, void*, int job, int uplo, int64_t n, int t, void* p, int64_t lda, int tw, void* out, int, void* w,
                        size_t nw, void* hw, size_t nh, int* info) {
    if (tw != real_of(t) || lda < n) return INVALID;
    return decompose(h, Space{w, nw, hw, nh}, [=] {
        Matrix a = Matrix::read(t, p, n, n, lda), v(n, n);
        for (int64_t j = 0; j < n; j++) {
            a(j, j) = a(j, j).real();
            for (int64_t i = 0; i < j; i++) uplo ? (a(j, i) = std::conj(a(i, j))) : (a(i, j) = std::conj(a(j, i)));
        }
        std::vector<double> values;
        spoil(p, lda * n * width(t));
        *info = !eigen(a, values, v);
        for (size_t i = 0; i < values.size(); i++) put(tw, out, i, values[i]);
        if (job && !*info) v.write(t, p, lda);
    });
}
Status cusolverDnXgesvd_bufferSize(Handle*, void* p, signed char ju, signed char jv, int64_t m, int64_t n, int t, const void*,
                                   int64_t lda, int ts, const void*, int tu, const void*, int64_t ldu, int tv, const void*, int64_t ldv,
                                   int c, size_t* d, size_t* h) {
    const bool jobs = ju == jv && (ju == 'A' || ju == 'S' || ju == 'N');
    return sizes(p && jobs && m >= n && n > 0 && lda >= m && ldu >= m && ldv >= n && is_type(t) && tu == t && tv == t && ts == real_of(t) && c == t, d, h);
}
Status cusolverDnXgesvd(Handle* h, void*, signed char ju, signed char, int64_t m, int64_t n, int t, void* p, int64_t lda, int ts, void* s,
                        int, void* u, int64_t ldu, int, void* vt, int64_t ldv, int, void* w, size_t nw, void* hw, size_t nh, int* info) {
    if (m < n || lda < m || ldu < m || ldv < n) return INVALID;
    return decompose(h, Space{w, nw, hw, nh}, [=] {
        Matrix a = Matrix::read(t, p, m, n, lda), left(m, ju == 'A' ? m : n), v(n, n);
        spoil(p, lda * n * width(t));
        std::vector<double> values;
        *info = !singular(a, values, left, v);
        for (size_t i = 0; i < values.size(); i++) put(ts, s, i, values[i]);
        if (ju == 'N' || *info) return;
        left.write(t, u, ldu);
        Matrix vh(n, n);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < n; i++) vh(i, j) = std::conj(v(j, i));
        vh.write(t, vt, ldv);
    });
}
#endif
}
