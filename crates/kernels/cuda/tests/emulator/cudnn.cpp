// libcudnn for the emulator: graphs of one convolution, by their definition, graphs of attention (cudnn_attention.h), and recurrent
// networks (cudnn_rnn.h). Strict about what the real library demands: types and order of attributes, what must be finished before it is used, aligned addresses, a workspace. Its heuristic lists engines whose numbers
// are not those that were asked for, as the real one's does: of float32 rounded to TF32, and one that is not the same in every run.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <vector>

#include "answer.h"
#include "elements.h"

typedef int Status;
static const Status BAD_PARAM = 2000, BAD_NULL = 2002, MISALIGNED = 2003, NOT_FINALIZED = 2004, OUT_OF_BOUND = 2005, MISMATCH = 2008,
                    BAD_TYPE = 2010, UNSUPPORTED_GRAPH = 3001, UNSUPPORTED_TYPE = 3003, UNSUPPORTED_LAYOUT = 3004;
// Kinds of descriptors and types of attributes.
enum { POINTWISE, CONVOLUTION, ENGINE, CONFIG, HEURISTIC, PLAN, FORWARD = 10, WEIGHT, INPUT, POINTWISE_OP, GRAPH = 15, PACK, TENSOR, MATMUL, MATMUL_OP,
       REDUCTION = 21, REDUCTION_OP, RESHAPE_OP = 31 };
enum { T_HANDLE, T_DATA, T_BOOL, T_INT64, T_FLOAT, T_DOUBLE, T_POINTER, T_MODE, T_HEURISTIC, T_NOTE = 11, T_POINTWISE = 14, T_DESCRIPTOR, T_REDUCTION = 18 };
static const int64_t BF16 = 9;
static const size_t WORKSPACE = 256;

struct Handle {
    void* stream = nullptr;
};
struct Descriptor {
    int kind;
    bool is_finished = false;
    std::map<int, std::vector<int64_t>> numbers;
    std::map<int, std::vector<double>> reals;
    // Engines by number.
    int engine = -1;
    Descriptor* graph = nullptr;

    int64_t number(int at) { return numbers[at].empty() ? 0 : numbers[at][0]; }
    Descriptor* at(int attribute) { return (Descriptor*)number(attribute); }
};

static int element_size(int64_t type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }
static double to_tf32(double v) {
    float f = (float)v;
    uint32_t b;
    memcpy(&b, &f, 4);
    b = (b + 0x1000) & ~0x1fffu;
    memcpy(&f, &b, 4);
    return f;
}

// The driver takes the work; it is in the process already.
typedef int (*Issue)(void*, void (*)(void*), void*, void (*)(void*));
static Issue issuer() { return (Issue)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_issue"); }

// The attributes of descriptors and their types; of operations alpha, beta, the convolution, w, x and y follow each other.
static int type_of(int kind, int attribute) {
    if (kind == TENSOR && (attribute == 907 || attribute == 908)) return T_BOOL;
    if (kind == TENSOR) return attribute == 901 ? T_DATA : attribute == 900 || attribute == 902 || attribute == 903 || attribute == 906 ? T_INT64 : -1;
    if (kind == CONVOLUTION) return attribute == 100 ? T_DATA : attribute == 101 ? T_MODE : attribute >= 102 && attribute <= 106 ? T_INT64 : -1;
    if (kind == FORWARD || kind == INPUT || kind == WEIGHT) {
        const int part = attribute - (kind == FORWARD ? 700 : kind == INPUT ? 706 : 712);
        return part < 0 || part > 5 ? -1 : part < 2 ? T_FLOAT : T_DESCRIPTOR;
    }
    if (kind == POINTWISE) return attribute == 0 ? T_POINTWISE : attribute == 1 ? T_DATA : attribute == 9 ? T_INT64 : -1;
    if (kind == POINTWISE_OP) return (attribute >= 750 && attribute <= 753) || attribute == 758 ? T_DESCRIPTOR : -1;
    if (kind == MATMUL) return attribute == 1500 ? T_DATA : -1;
    if (kind == MATMUL_OP) return attribute >= 1520 && attribute <= 1523 ? T_DESCRIPTOR : -1;
    if (kind == REDUCTION) return attribute == 1600 ? T_REDUCTION : attribute == 1601 ? T_DATA : -1;
    if (kind == REDUCTION_OP) return attribute >= 1610 && attribute <= 1612 ? T_DESCRIPTOR : -1;
    if (kind == RESHAPE_OP) return attribute == 2200 || attribute == 2201 ? T_DESCRIPTOR : -1;
    switch (attribute) {
        case 200: return kind == HEURISTIC ? T_HEURISTIC : -1;
        case 201: return kind == HEURISTIC ? T_DESCRIPTOR : -1;
        case 400: return kind == PLAN ? T_HANDLE : -1;
        case 401: return kind == PLAN ? T_DESCRIPTOR : -1;
        case 800: return kind == GRAPH ? T_HANDLE : -1;
        case 801: return kind == GRAPH ? T_DESCRIPTOR : -1;
        case 1000: return kind == PACK ? T_INT64 : -1;
        case 1001: case 1003: return kind == PACK ? T_POINTER : -1;
        default: return -1;
    }
}
static bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, bool last) {
    int64_t step = 1;
    const int n = (int)sizes.size();
    for (int k = 0; k < n; k++) {
        const int d = !last ? n - 1 - k : k == 0 ? 1 : k == n - 1 ? 0 : n - k;
        if (sizes[d] != 1 && strides[d] != step) return false;
        step *= sizes[d];
    }
    return true;
}

struct Operation {
    int kind;
    int64_t type;
    std::vector<int64_t> sizes[3], strides[3], stride, padding, dilation;
    int64_t ids[3], alignment[3];
    Operation(Descriptor* op) : kind(op->kind) {
        const int first = kind == FORWARD ? 700 : kind == INPUT ? 706 : 712;
        for (int k = 0; k < 3; k++) {
            // x, w, y.
            Descriptor* t = op->at(first + (k == 0 ? 4 : k == 1 ? 3 : 5));
            sizes[k] = t->numbers[902], strides[k] = t->numbers[903], ids[k] = t->number(906), alignment[k] = t->number(900);
            type = t->number(901);
        }
        Descriptor* conv = op->at(first + 2);
        stride = conv->numbers[103], dilation = conv->numbers[102], padding = conv->numbers[105];
    }
    // Visits every product of an element of w with those of x and y that it joins.
    template <class F> void each(F f) const {
        const int n = (int)stride.size();
        const int64_t groups = sizes[0][1] / sizes[1][1], filters = sizes[2][1] / groups;
        int64_t places = 1, taps = 1;
        for (int d = 0; d < n; d++) places *= sizes[2][2 + d], taps *= sizes[1][2 + d];
        for (int64_t image = 0; image < sizes[2][0]; image++)
            for (int64_t o = 0; o < sizes[2][1]; o++)
                for (int64_t p = 0; p < places; p++)
                    for (int64_t c = 0; c < sizes[1][1]; c++)
                        for (int64_t t = 0; t < taps; t++) {
                            int64_t x = image * strides[0][0] + (o / filters * sizes[1][1] + c) * strides[0][1];
                            int64_t w = o * strides[1][0] + c * strides[1][1], y = image * strides[2][0] + o * strides[2][1];
                            int64_t rest = p, tap = t;
                            bool inside = true;
                            for (int d = n - 1; d >= 0; d--) {
                                const int64_t at = rest % sizes[2][2 + d], k = tap % sizes[1][2 + d];
                                rest /= sizes[2][2 + d], tap /= sizes[1][2 + d];
                                const int64_t from = at * stride[d] - padding[d] + k * dilation[d];
                                inside = inside && from >= 0 && from < sizes[0][2 + d];
                                x += from * strides[0][2 + d], w += k * strides[1][2 + d], y += at * strides[2][2 + d];
                            }
                            if (inside) f(x, w, y);
                        }
    }
};

#include "cudnn_attention.h"
#include "cudnn_rnn.h"

// A plan that was issued.
struct Work {
    Operation op;
    int engine;
    void *at[3], *workspace;
    void run() {
        const int out = op.kind == FORWARD ? 2 : op.kind == INPUT ? 0 : 1, a = out == 0 ? 1 : 0, b = out == 2 ? 1 : 2;
        memset(workspace, 0xCB, WORKSPACE);
        int64_t n = 1;
        for (int64_t s : op.sizes[out]) n *= s;
        std::vector<double> sums(n);
        const auto number = [&](int which, int64_t i) {
            const double v = load(op.type, at[which], i);
            return engine == 0 && op.type == F32 ? to_tf32(v) : v;
        };
        op.each([&](int64_t x, int64_t w, int64_t y) {
            const int64_t i[3] = {x, w, y};
            sums[i[out]] += number(a, i[a]) * number(b, i[b]);
        });
        static double runs = 0;
        if (engine == 1) runs += 1;
        for (int64_t i = 0; i < n; i++) store(op.type, at[out], i, engine == 1 ? sums[i] + 0.1 * runs : sums[i]);
    }
};

extern "C" {
size_t cudnnGetVersion() {
    const char* text = getenv("EMULATOR_CUDNN_VERSION");
    return text ? (size_t)atol(text) : 92600;
}
const char* cudnnGetErrorString(Status s) { return s == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : s == BAD_TYPE ? "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE" : "CUDNN_STATUS"; }
Status cudnnCreate(Handle** h) { *h = new Handle; return 0; }
Status cudnnSetStream(Handle* h, void* stream) { h->stream = stream; return 0; }
Status cudnnBackendCreateDescriptor(int kind, Descriptor** d) {
    if (kind < 0 || (kind > PLAN && kind < FORWARD) || kind == 14 || kind == 20 || (kind > REDUCTION_OP && kind != RESHAPE_OP)) return 2012;
    *d = new Descriptor{kind};
    return 0;
}
Status cudnnBackendDestroyDescriptor(Descriptor* d) { delete d; return 0; }
Status cudnnBackendSetAttribute(Descriptor* d, int attribute, int type, int64_t n, const void* values) {
    if (!d || !values) return BAD_NULL;
    if (d->is_finished) return BAD_PARAM;
    const int wanted = type_of(d->kind, attribute);
    if (wanted != type && !(wanted == T_FLOAT && type == T_DOUBLE)) return wanted < 0 ? BAD_PARAM : BAD_TYPE;
    std::vector<int64_t>& to = d->numbers[attribute];
    to.clear();
    for (int64_t i = 0; i < n; i++) {
        if (type == T_FLOAT) d->reals[attribute].push_back(((const float*)values)[i]);
        else if (type == T_DOUBLE) d->reals[attribute].push_back(((const double*)values)[i]);
        else if (type == T_BOOL) to.push_back(((const bool*)values)[i]);
        else if (type == T_DATA || type == T_MODE || type == T_HEURISTIC || type == T_POINTWISE || type == T_REDUCTION) to.push_back(((const int*)values)[i]);
        else to.push_back(((const int64_t*)values)[i]);
        if (type == T_DESCRIPTOR && (!to.back() || !((Descriptor*)to.back())->is_finished)) return NOT_FINALIZED;
    }
    return 0;
}
Status cudnnBackendGetAttribute(Descriptor* d, int attribute, int type, int64_t room, int64_t* n, void* values) {
    if (!d->is_finished) return NOT_FINALIZED;
    if (d->kind == HEURISTIC && attribute == 202 && type == T_DESCRIPTOR) {
        // TF32, one that is never the same, one that takes channels last alone, and one that takes everything; the last is the fallback.
        const int first = d->number(200) == 2 ? 3 : 0;
        *n = 4 - first;
        for (int k = 0; k < *n && k < room; k++) {
            Descriptor* config = ((Descriptor**)values)[k];
            if (!config || config->kind != CONFIG) return BAD_PARAM;
            config->engine = first + k, config->graph = d->at(201), config->is_finished = true;
        }
        return 0;
    }
    if (d->kind == CONFIG && attribute == 300 && type == T_DESCRIPTOR) {
        Descriptor* engine = *(Descriptor**)values;
        if (room < 1 || !engine || engine->kind != ENGINE) return BAD_PARAM;
        engine->engine = d->engine, engine->graph = d->graph, engine->is_finished = true;
        *n = 1;
        return 0;
    }
    if (d->kind == ENGINE && attribute == 1303 && type == T_NOTE) {
        *n = 0;
        // Tensor cores, rounded operands; not the same in every run.
        if (d->engine == 0 && room > 1) ((int*)values)[0] = 0, ((int*)values)[1] = 1, *n = 2;
        if (d->engine == 1 && room > 0) ((int*)values)[0] = 4, *n = 1;
        return 0;
    }
    if (d->kind == PLAN && attribute == 402 && type == T_INT64 && room >= 1) return *(int64_t*)values = WORKSPACE, *n = 1, 0;
    return BAD_PARAM;
}
Status cudnnBackendFinalize(Descriptor* d) {
    ANSWER("cudnnBackendFinalize");
    if (d->is_finished) return BAD_PARAM;
    switch (d->kind) {
        case TENSOR: {
            const size_t n = d->numbers[902].size();
            if (d->numbers[901].empty() || d->numbers[906].empty() || n == 0 || d->numbers[903].size() != n) return BAD_PARAM;
            if (d->number(900) <= 0 || d->number(900) % element_size(d->number(901))) return BAD_PARAM;
            // The library has no convolutions of three dimensions.
            if (n < 4 || n > 5) return UNSUPPORTED_GRAPH;
            for (int64_t s : d->numbers[902]) if (s <= 0) return BAD_PARAM;
            break;
        }
        case CONVOLUTION: {
            const size_t n = d->number(106);
            for (int a : {102, 103, 104, 105}) if (d->numbers[a].size() != n) return BAD_PARAM;
            if (d->numbers[100].empty() || d->number(101) != 1) return BAD_PARAM;
            break;
        }
        case FORWARD: case INPUT: case WEIGHT: {
            const int first = d->kind == FORWARD ? 700 : d->kind == INPUT ? 706 : 712;
            for (int k = 2; k < 6; k++) if (d->numbers[first + k].size() != 1) return BAD_PARAM;
            if (d->reals[first].size() != 1 || d->reals[first][0] != 1 || d->reals[first + 1].size() != 1 || d->reals[first + 1][0] != 0) return BAD_PARAM;
            const Operation op(d);
            for (int k = 0; k < 3; k++) if (op.sizes[k].size() != op.stride.size() + 2) return MISMATCH;
            const int64_t compute = d->at(first + 2)->number(100);
            if (compute != (op.type == F64 ? F64 : F32)) return UNSUPPORTED_TYPE;
            const int64_t groups = op.sizes[1][1] ? op.sizes[0][1] / op.sizes[1][1] : 0;
            if (groups * op.sizes[1][1] != op.sizes[0][1] || op.sizes[2][1] % groups || op.sizes[1][0] != op.sizes[2][1] || op.sizes[0][0] != op.sizes[2][0])
                return MISMATCH;
            for (size_t s = 0; s < op.stride.size(); s++) {
                const int64_t reach = op.sizes[0][2 + s] + 2 * op.padding[s] - op.dilation[s] * (op.sizes[1][2 + s] - 1) - 1;
                if (reach / op.stride[s] + 1 != op.sizes[2][2 + s]) return MISMATCH;
            }
            break;
        }
        case GRAPH:
            if (d->numbers[800].empty() || d->numbers[801].empty()) return BAD_PARAM;
            if (is_attention(d)) {
                const Status found = Attention(d).check();
                if (found) return found;
            } else if (d->numbers[801].size() != 1) return UNSUPPORTED_GRAPH;
            break;
        case POINTWISE: case MATMUL: case REDUCTION: case POINTWISE_OP: case MATMUL_OP: case REDUCTION_OP: case RESHAPE_OP:
            for (int a : needed(d->kind)) if (d->numbers[a].size() != 1) return BAD_PARAM;
            break;
        case HEURISTIC:
            if (d->numbers[200].empty() || d->numbers[201].size() != 1) return BAD_PARAM;
            break;
        case PLAN: {
            if (d->numbers[400].empty() || d->numbers[401].size() != 1) return BAD_PARAM;
            Descriptor* config = d->at(401);
            d->engine = config->engine, d->graph = config->graph;
            if (is_attention(d->graph)) {
                const Status found = Attention(d->graph).support(d->engine);
                if (found) return found;
                break;
            }
            const Operation op(d->graph->at(801));
            bool last = true, first = true;
            for (int k = 0; k < 3; k++)
                last = last && is_dense(op.sizes[k], op.strides[k], true), first = first && is_dense(op.sizes[k], op.strides[k], false);
            if (d->engine == 2 ? !last : !last && !first) return UNSUPPORTED_LAYOUT;
            break;
        }
        case PACK:
            if (d->numbers[1000].size() != d->numbers[1001].size() || d->numbers[1003].size() != 1) return BAD_PARAM;
            break;
        default: return BAD_PARAM;
    }
    d->is_finished = true;
    return 0;
}
Status cudnnBackendExecute(Handle* h, Descriptor* plan, Descriptor* pack) {
    ANSWER("cudnnBackendExecute");
    if (!plan->is_finished || !pack->is_finished || plan->kind != PLAN || pack->kind != PACK) return NOT_FINALIZED;
    if ((Handle*)plan->number(400) != h) return BAD_PARAM;
    if (is_attention(plan->graph)) return Attention(plan->graph).execute(h, pack);
    Work* work = new Work{Operation(plan->graph->at(801)), plan->engine};
    const std::unique_ptr<Work> owned(work);
    work->workspace = (void*)pack->number(1003);
    if (!work->workspace) return BAD_NULL;
    for (int k = 0; k < 3; k++) {
        for (size_t i = 0; i < pack->numbers[1000].size(); i++)
            if (pack->numbers[1000][i] == work->op.ids[k]) work->at[k] = (void*)pack->numbers[1001][i];
        if (!work->at[k]) return OUT_OF_BOUND;
        if ((uint64_t)work->at[k] % work->op.alignment[k]) return MISALIGNED;
    }
    // In the stream's order, like a kernel.
    static const Issue issue = issuer();
    if (!issue) return BAD_PARAM;
    const auto run = [](void* what) { ((Work*)what)->run(); };
    const auto free = [](void* what) { delete (Work*)what; };
    return issue(h->stream, run, new Work(*work), free) ? 5000 : 0;
}
}
