// libcufft for the emulator: transforms by their definition, strict about what the real library demands: a workspace, and that a
// transform to real numbers overwrites what it reads.
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <vector>

#include "answer.h"

typedef int Result;
typedef std::complex<double> Number;
static const int INVALID_PLAN = 1, INVALID_TYPE = 3, INVALID_VALUE = 4, INVALID_SIZE = 8, NO_WORKSPACE = 13;
static const int R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5;

struct Plan {
    std::vector<int64_t> sizes;
    int64_t count = 0;
    int from = 0, to = 0;
    bool allocates = true, is_made = false;
    void *stream = nullptr, *workspace = nullptr;
    size_t bytes = 0;
};
static std::mutex& lock() { static auto* m = new std::mutex; return *m; }
static std::map<int, Plan>& plans() { static auto* m = new std::map<int, Plan>; return *m; }

static bool is_complex(int type) { return type >= C_32F; }
static Number get(int type, const void* p, int64_t i) {
    switch (type) {
        case R_32F: return ((const float*)p)[i];
        case R_64F: return ((const double*)p)[i];
        case C_32F: return Number(((const float*)p)[2 * i], ((const float*)p)[2 * i + 1]);
        default: return ((const Number*)p)[i];
    }
}
static void put(int type, void* p, int64_t i, Number v) {
    switch (type) {
        case R_32F: ((float*)p)[i] = (float)v.real(); break;
        case R_64F: ((double*)p)[i] = v.real(); break;
        case C_32F: ((float*)p)[2 * i] = (float)v.real(), ((float*)p)[2 * i + 1] = (float)v.imag(); break;
        default: ((Number*)p)[i] = v;
    }
}
// One dimension of a whole signal.
static void along(std::vector<Number>& x, const std::vector<int64_t>& sizes, size_t dim, int sign) {
    int64_t inner = 1;
    for (size_t d = dim + 1; d < sizes.size(); d++) inner *= sizes[d];
    const int64_t n = sizes[dim], lines = (int64_t)x.size() / n;
    std::vector<Number> line(n);
    for (int64_t l = 0; l < lines; l++) {
        Number* first = &x[l / inner * inner * n + l % inner];
        for (int64_t k = 0; k < n; k++) {
            line[k] = 0;
            for (int64_t j = 0; j < n; j++) line[k] += first[j * inner] * std::polar(1.0, sign * 2 * M_PI * (double)(j * k % n) / n);
        }
        for (int64_t k = 0; k < n; k++) first[k * inner] = line[k];
    }
}

struct Work {
    Plan plan;
    void *from, *to;
    int sign;
    void run() {
        const std::vector<int64_t>& sizes = plan.sizes;
        const int64_t last = sizes.back(), half = last / 2 + 1;
        int64_t n = 1, rows = 1;
        for (int64_t s : sizes) n *= s;
        rows = n / last;
        const bool to_real = !is_complex(plan.to), from_real = !is_complex(plan.from);
        // Whatever the workspace held is gone.
        memset(plan.workspace, 0xCB, plan.bytes);
        for (int64_t b = 0; b < plan.count; b++) {
            std::vector<Number> x(n);
            if (to_real) {
                // The other half is that of conjugate numbers, at the mirrored place of all dimensions.
                for (int64_t r = 0; r < rows; r++) {
                    int64_t mirrored = 0, rest = r, place = 1;
                    for (size_t d = sizes.size() - 1; d-- > 0;) {
                        const int64_t c = rest % sizes[d];
                        rest /= sizes[d];
                        mirrored += (sizes[d] - c) % sizes[d] * place;
                        place *= sizes[d];
                    }
                    for (int64_t k = 0; k < last; k++)
                        x[r * last + k] = k < half ? get(plan.from, from, (b * rows + r) * half + k)
                                                   : std::conj(get(plan.from, from, (b * rows + mirrored) * half + last - k));
                }
            } else {
                for (int64_t i = 0; i < n; i++) x[i] = get(plan.from, from, b * n + i);
            }
            for (size_t d = 0; d < sizes.size(); d++) along(x, sizes, d, to_real ? 1 : from_real ? -1 : sign);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = 0; k < (from_real ? half : last); k++)
                    put(plan.to, to, (b * rows + r) * (from_real ? half : last) + k, x[r * last + k]);
        }
        if (to_real) memset(from, 0xCB, plan.count * rows * half * (plan.from == C_32F ? 8 : 16));
    }
};

extern "C" {
Result cufftGetVersion(int* v) {
    const char* text = getenv("EMULATOR_CUFFT_VERSION");
    *v = text ? atoi(text) : 12000;
    return 0;
}
Result cufftCreate(int* plan) {
    std::lock_guard<std::mutex> _(lock());
    static int next = 1;
    plans()[*plan = next++];
    return 0;
}
Result cufftDestroy(int plan) {
    std::lock_guard<std::mutex> _(lock());
    return plans().erase(plan) ? 0 : INVALID_PLAN;
}
Result cufftSetAutoAllocation(int plan, int on) {
    std::lock_guard<std::mutex> _(lock());
    const auto at = plans().find(plan);
    if (at == plans().end() || at->second.is_made) return INVALID_PLAN;
    at->second.allocates = on;
    return 0;
}
Result cufftSetStream(int plan, void* stream) {
    std::lock_guard<std::mutex> _(lock());
    const auto at = plans().find(plan);
    if (at == plans().end()) return INVALID_PLAN;
    at->second.stream = stream;
    return 0;
}
Result cufftSetWorkArea(int plan, void* area) {
    std::lock_guard<std::mutex> _(lock());
    const auto at = plans().find(plan);
    if (at == plans().end()) return INVALID_PLAN;
    at->second.workspace = area;
    return 0;
}
Result cufftXtMakePlanMany(int plan, int rank, long long* sizes, long long* in, long long in_stride, long long, int from,
                           long long* out, long long out_stride, long long, int to, long long count, size_t* bytes, int exec) {
    std::lock_guard<std::mutex> _(lock());
    const auto at = plans().find(plan);
    if (at == plans().end() || at->second.is_made) return INVALID_PLAN;
    Plan& p = at->second;
    if (rank < 1 || rank > 3 || count < 1) return INVALID_SIZE;
    if (in || out || in_stride != 1 || out_stride != 1 || p.allocates) return INVALID_VALUE;
    const bool wide = from == R_64F || from == C_64F;
    if ((!is_complex(from) && !is_complex(to)) || wide != (to == R_64F || to == C_64F) || exec != (wide ? C_64F : C_32F)) return INVALID_TYPE;
    p.sizes.assign(sizes, sizes + rank);
    for (int64_t s : p.sizes)
        if (s < 1) return INVALID_SIZE;
    p.count = count;
    p.from = from;
    p.to = to;
    p.is_made = true;
    *bytes = p.bytes = 256;
    return 0;
}
Result cufftXtExec(int plan, void* from, void* to, int direction) {
    ANSWER("cufftXtExec");
    Plan p;
    {
        std::lock_guard<std::mutex> _(lock());
        const auto at = plans().find(plan);
        if (at == plans().end() || !at->second.is_made) return INVALID_PLAN;
        p = at->second;
    }
    if (!p.workspace) return NO_WORKSPACE;
    if (is_complex(p.from) && is_complex(p.to) && direction != 1 && direction != -1) return INVALID_VALUE;
    const size_t width = p.from == C_64F || p.from == R_64F ? 8 : 4;
    if ((uintptr_t)from % (is_complex(p.from) ? 2 * width : width) || (uintptr_t)to % (is_complex(p.to) ? 2 * width : width)) return INVALID_VALUE;
    typedef int (*Issue)(void*, void (*)(void*), void*, void (*)(void*));
    static const Issue issue = (Issue)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_issue");
    if (!issue) return 6;
    const auto run = [](void* what) { ((Work*)what)->run(); };
    const auto free = [](void* what) { delete (Work*)what; };
    return issue(p.stream, run, new Work{p, from, to, direction}, free) ? 6 : 0;
}
}
