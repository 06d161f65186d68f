// libcublasLt for the emulator: column-major products by three loops, strict about what the real library refuses.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

#include "answer.h"
#include "elements.h"

typedef int Status;
struct Desc {
    int compute, scale, ta = 0, tb = 0, epilogue = 1, bias_type = 0;
    const void* bias = nullptr;
};
struct Layout {
    int type;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch = 1;
    int64_t stride = 0;
};
struct Preference {
    uint64_t workspace = 0;
    uint32_t alignment[4] = {256, 256, 256, 256};
};
struct Heuristic {
    uint64_t algo[8];
    uint64_t workspace;
    int status;
    float waves;
    int reserved[4];
};
static const int INVALID = 7, UNSUPPORTED = 15;

static int64_t rows(const Layout* l, int transposed) { return transposed ? l->cols : l->rows; }
static int64_t cols(const Layout* l, int transposed) { return transposed ? l->rows : l->cols; }
static Status check(const Desc* d, const Layout* a, const Layout* b, const Layout* c, const Layout* out) {
    for (const Layout* l : {a, b, c, out})
        if (l->ld < (int64_t)l->rows || l->rows == 0 || l->cols == 0 || l->batch != out->batch) return INVALID;
    if (c->rows != out->rows || c->cols != out->cols || c->type != out->type) return INVALID;
    if (rows(a, d->ta) != rows(out, 0) || cols(b, d->tb) != cols(out, 0) || cols(a, d->ta) != rows(b, d->tb)) return INVALID;
    const bool f64 = out->type == 1;
    if (d->compute != (f64 ? 70 : 68) || d->scale != (f64 ? 1 : 0)) return INVALID;
    if (d->epilogue != 1 && f64) return UNSUPPORTED;
    // The sums of B are of one product alone, and of a few columns, or where a test asks, there are none: callers have another way.
    if (d->epilogue & 512 && (out->batch != 1 || out->cols < 4 || getenv("EMULATOR_NO_ROW_SUMS"))) return UNSUPPORTED;
    return 0;
}

// A product that was issued.
struct Product {
    Desc d;
    Layout la, lb, lc, lo;
    const void *a, *b, *c;
    void* out;
    double alpha, beta;
    void run() {
        const int64_t m = lo.rows, n = lo.cols, k = cols(&la, d.ta);
        for (int64_t j = 0; d.epilogue & 512 && j < n; j++) {
            double acc = 0;
            for (int64_t x = 0; x < k; x++) acc += load(lb.type, b, d.tb ? j + x * lb.ld : x + j * lb.ld);
            store(lo.type, (void*)d.bias, j, acc);
        }
        for (int32_t z = 0; z < lo.batch; z++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < m; i++) {
                    double acc = 0;
                    for (int64_t x = 0; x < k; x++)
                        acc += load(la.type, a, z * la.stride + (d.ta ? x + i * la.ld : i + x * la.ld)) *
                               load(lb.type, b, z * lb.stride + (d.tb ? j + x * lb.ld : x + j * lb.ld));
                    acc *= alpha;
                    // Not read where it is multiplied by zero.
                    if (beta != 0) acc += beta * load(lc.type, c, z * lc.stride + i + j * lc.ld);
                    if (d.epilogue & 4) acc += load(lo.type, d.bias, i);
                    if (d.epilogue & 2) acc = acc > 0 || acc != acc ? acc : 0;
                    store(lo.type, out, z * lo.stride + i + j * lo.ld, acc);
                }
    }
};

extern "C" {
Status cublasLtCreate(void** h) { *h = new int(0); return 0; }
const char* cublasLtGetStatusString(Status s) { return s == INVALID ? "invalid value" : "status"; }
Status cublasLtMatmulDescCreate(Desc** d, int compute, int scale) { *d = new Desc{compute, scale}; return 0; }
Status cublasLtMatmulDescDestroy(Desc* d) { delete d; return 0; }
Status cublasLtMatmulDescSetAttribute(Desc* d, int a, const void* v, size_t n) {
    if (n != (a == 8 ? 8u : 4u)) return INVALID;
    switch (a) {
        case 3: memcpy(&d->ta, v, n); return 0;
        case 4: memcpy(&d->tb, v, n); return 0;
        case 7: memcpy(&d->epilogue, v, n); return 0;
        case 8: memcpy(&d->bias, v, n); return 0;
        case 26: memcpy(&d->bias_type, v, n); return 0;
        default: return INVALID;
    }
}
Status cublasLtMatrixLayoutCreate(Layout** l, int type, uint64_t r, uint64_t c, int64_t ld) {
    *l = new Layout{type, r, c, ld};
    return 0;
}
Status cublasLtMatrixLayoutDestroy(Layout* l) { delete l; return 0; }
Status cublasLtMatrixLayoutSetAttribute(Layout* l, int a, const void* v, size_t n) {
    if (a == 5 && n == 4) memcpy(&l->batch, v, n);
    else if (a == 6 && n == 8) memcpy(&l->stride, v, n);
    else return INVALID;
    return 0;
}
Status cublasLtMatmulPreferenceCreate(Preference** p) { *p = new Preference; return 0; }
Status cublasLtMatmulPreferenceDestroy(Preference* p) { delete p; return 0; }
Status cublasLtMatmulPreferenceSetAttribute(Preference* p, int a, const void* v, size_t n) {
    if (a == 1 && n == 8) memcpy(&p->workspace, v, n);
    else if (a >= 5 && a <= 8 && n == 4) memcpy(&p->alignment[a - 5], v, n);
    else return INVALID;
    return 0;
}
Status cublasLtMatmulAlgoGetHeuristic(void*, Desc* d, Layout* a, Layout* b, Layout* c, Layout* out, Preference* p, int n,
                                      Heuristic* h, int* found) {
    ANSWER("cublasLtMatmulAlgoGetHeuristic");
    *found = 0;
    if (n < 1 || p->workspace == 0) return INVALID;
    if (Status s = check(d, a, b, c, out)) return s;
    memset(h, 0, sizeof *h);
    // What the algorithm was chosen for: the product must keep to it.
    for (int i = 0; i < 4; i++) h->algo[i] = p->alignment[i];
    *found = 1;
    return 0;
}
Status cublasLtMatmul(void*, Desc* d, const void* alpha, const void* a, Layout* la, const void* b, Layout* lb,
                      const void* beta, const void* c, Layout* lc, void* out, Layout* lo, const uint64_t* algo, void*, size_t,
                      void* stream) {
    ANSWER("cublasLtMatmul");
    if (Status s = check(d, la, lb, lc, lo)) return s;
    const uint64_t places[4] = {(uint64_t)a, (uint64_t)b, (uint64_t)c, (uint64_t)out};
    for (int i = 0; i < 4; i++)
        if (places[i] % algo[i] != 0) return INVALID;
    const bool f64 = lo->type == 1;
    const double s = f64 ? *(const double*)alpha : *(const float*)alpha;
    const double t = f64 ? *(const double*)beta : *(const float*)beta;
    // In place the two have one layout.
    if (c == out && (lc->ld != lo->ld || lc->stride != lo->stride)) return INVALID;
    if (d->epilogue & (4 | 512) && (!d->bias || d->bias_type != lo->type)) return INVALID;
    // In the stream's order, like a kernel. The driver is in the process already.
    typedef int (*Issue)(void*, void (*)(void*), void*, void (*)(void*));
    static const Issue issue = (Issue)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_issue");
    if (!issue) return INVALID;
    const auto run = [](void* what) { ((Product*)what)->run(); };
    const auto free = [](void* what) { delete (Product*)what; };
    return issue(stream, run, new Product{*d, *la, *lb, *lc, *lo, a, b, c, out, s, t}, free) ? INVALID : 0;
}
}
