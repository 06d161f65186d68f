// Graphs of attention and its backward for the emulated libcudnn: products, pointwise operations and reductions, each computed as it
// is described, in doubles that are rounded to the type of its result. Refused are graphs that the real library does not recognise:
// tensors without memory that nobody makes or reads, sizes that do not fit, types that an operation does not have, layouts of other
// rows, and anything but the products of one attention.
#include <algorithm>
#include <functional>
#include <set>

static const int64_t INT32 = 4, BOOLEAN = 11;
enum { PW_ADD = 0, PW_MUL = 1, PW_DIV = 6, PW_SUB = 9, PW_EXP = 13, PW_LOG = 15, PW_IDENTITY = 21, PW_GE = 303, PW_INDEX = 501, PW_SELECT = 601 };
enum { RED_SUM = 0, RED_MAX = 3 };

static bool is_attention(Descriptor* graph) {
    return ((Descriptor*)graph->numbers[801][0])->kind > INPUT;
}
static std::vector<int> needed(int kind) {
    switch (kind) {
        case POINTWISE: return {0, 1};
        case MATMUL: return {1500};
        case REDUCTION: return {1600, 1601};
        case POINTWISE_OP: return {750, 751, 753};
        case MATMUL_OP: return {1520, 1521, 1522, 1523};
        case REDUCTION_OP: return {1610, 1611, 1612};
        default: return {2200, 2201};
    }
}

typedef std::vector<double> Values;

struct Attention {
    struct Tensor {
        int64_t id = -1, type = 0, alignment = 1;
        std::vector<int64_t> sizes, strides;
        bool is_virtual = false, by_value = false;
        int64_t n() const {
            int64_t n = 1;
            for (int64_t s : sizes) n *= s;
            return n;
        }
        bool is_half() const { return type == F16 || type == BF16; }
    };
    struct Step {
        int kind, mode = 0;
        int64_t compute = 0, axis = -1;
        // x, b and t of pointwise operations, a and b of products; no id where there is none.
        Tensor in[3], y;
    };
    std::vector<Step> steps;
    int products = 0;
    std::map<int64_t, Tensor> tensors;
    std::set<int64_t> made;

    static Tensor tensor(Descriptor* d) {
        Tensor t;
        if (!d) return t;
        t.id = d->number(906), t.type = d->number(901), t.alignment = d->number(900);
        t.sizes = d->numbers[902], t.strides = d->numbers[903];
        t.is_virtual = d->number(907), t.by_value = d->number(908);
        return t;
    }
    explicit Attention(Descriptor* graph) {
        for (int64_t at : graph->numbers[801]) {
            Descriptor* op = (Descriptor*)at;
            Step s{op->kind};
            switch (op->kind) {
                case POINTWISE_OP:
                    s.mode = (int)op->at(750)->number(0), s.compute = op->at(750)->number(1);
                    s.axis = op->at(750)->numbers[9].empty() ? -1 : op->at(750)->number(9);
                    s.in[0] = tensor(op->at(751)), s.in[1] = tensor(op->at(752)), s.in[2] = tensor(op->at(758)), s.y = tensor(op->at(753));
                    break;
                case MATMUL_OP:
                    products++;
                    s.compute = op->at(1523)->number(1500);
                    s.in[0] = tensor(op->at(1520)), s.in[1] = tensor(op->at(1521)), s.y = tensor(op->at(1522));
                    break;
                case REDUCTION_OP:
                    s.mode = (int)op->at(1612)->number(1600), s.compute = op->at(1612)->number(1601);
                    s.in[0] = tensor(op->at(1610)), s.y = tensor(op->at(1611));
                    break;
                case RESHAPE_OP: s.in[0] = tensor(op->at(2200)), s.y = tensor(op->at(2201)); break;
                default: s.kind = -1;
            }
            steps.push_back(s);
        }
    }

    bool know(const Tensor& t) {
        if (t.sizes.size() != 4) return false;
        const auto known = tensors.find(t.id);
        if (known == tensors.end()) return tensors[t.id] = t, true;
        return known->second.sizes == t.sizes && known->second.strides == t.strides && known->second.type == t.type;
    }
    // Every dimension is that of `y`, or one that is repeated.
    static bool repeats(const Tensor& x, const Tensor& y) {
        for (int d = 0; d < 4; d++) if (x.sizes[d] != y.sizes[d] && x.sizes[d] != 1) return false;
        return true;
    }

    Status check() {
        std::set<int64_t> read;
        int highest = 0, sums = 0, exponentials = 0;
        for (const Step& s : steps) {
            if (s.kind < 0) return UNSUPPORTED_GRAPH;
            for (const Tensor& t : s.in) {
                if (t.id < 0) continue;
                if (!know(t) || (t.by_value && (t.n() != 1 || t.type != F32))) return BAD_PARAM;
                if (t.is_virtual && !made.count(t.id)) return BAD_PARAM;
                read.insert(t.id);
            }
            if (!know(s.y) || s.y.by_value || !made.insert(s.y.id).second) return BAD_PARAM;
            const Tensor &x = s.in[0], &b = s.in[1], &t = s.in[2], &y = s.y;
            if (s.kind == POINTWISE_OP) {
                const bool two = s.mode == PW_ADD || s.mode == PW_MUL || s.mode == PW_DIV || s.mode == PW_SUB || s.mode == PW_GE || s.mode == PW_SELECT;
                if (two != (b.id >= 0) || (s.mode == PW_SELECT) != (t.id >= 0) || (s.mode == PW_INDEX) != (s.axis >= 0)) return BAD_PARAM;
                for (const Tensor& in : s.in) if (in.id >= 0 && !repeats(in, y)) return MISMATCH;
                if (s.mode == PW_INDEX && (y.type != INT32 || s.compute != INT32 || s.axis > 3)) return UNSUPPORTED_TYPE;
                if (s.mode == PW_GE && (y.type != BOOLEAN || s.compute != BOOLEAN || x.type != INT32 || b.type != INT32)) return UNSUPPORTED_TYPE;
                if (s.mode == PW_SELECT && t.type != BOOLEAN) return UNSUPPORTED_TYPE;
                if (s.mode != PW_INDEX && s.mode != PW_GE && s.compute != F32) return UNSUPPORTED_TYPE;
                exponentials += s.mode == PW_EXP;
            } else if (s.kind == MATMUL_OP) {
                // Tensor cores multiply halves, and add in float32.
                if (!x.is_half() || x.type != b.type || s.compute != F32) return UNSUPPORTED_TYPE;
                if (x.sizes[0] != y.sizes[0] || b.sizes[0] != y.sizes[0] || x.sizes[1] != y.sizes[1] || y.sizes[1] % b.sizes[1]) return MISMATCH;
                if (x.sizes[3] != b.sizes[2] || x.sizes[2] != y.sizes[2] || b.sizes[3] != y.sizes[3]) return MISMATCH;
            } else if (s.kind == REDUCTION_OP) {
                for (int d = 0; d < 4; d++) if (x.sizes[d] % y.sizes[d]) return MISMATCH;
                if (s.compute != F32 || (s.mode != RED_SUM && s.mode != RED_MAX)) return UNSUPPORTED_TYPE;
                highest += s.mode == RED_MAX, sums += s.mode == RED_SUM;
            } else {
                std::vector<int64_t> from = x.sizes, to = y.sizes;
                std::sort(from.begin(), from.end()), std::sort(to.begin(), to.end());
                if (from != to) return MISMATCH;
            }
        }
        for (const auto& t : tensors) if (t.second.is_virtual && !read.count(t.first)) return BAD_PARAM;
        const bool forward = products == 2 && highest == 1 && sums == 1 && exponentials == 1;
        const bool backward = products == 5 && highest == 0 && exponentials == 1;
        return forward || backward ? 0 : UNSUPPORTED_GRAPH;
    }

    // Engine 0 takes rows side by side (heads behind them), 3 everything; the others are those of convolutions.
    Status support(int engine) {
        if (engine == 1 || engine == 2) return UNSUPPORTED_GRAPH;
        for (const Step& s : steps) {
            if (s.kind != MATMUL_OP) continue;
            for (const Tensor* t : {&s.in[0], &s.in[1], &s.y}) {
                if (t->is_virtual || !t->is_half()) continue;
                // Rows or, of keys, columns: one of both is dense, and the other starts at multiples of sixteen bytes.
                const int inner = t->strides[3] == 1 ? 3 : 2;
                if (t->strides[inner] != 1) return UNSUPPORTED_LAYOUT;
                const int64_t width = t->sizes[inner];
                if (width % 8 || width > 128) return UNSUPPORTED_GRAPH;
                for (int d = 0; d < 4; d++) if (d != inner && (t->strides[d] <= 0 || t->strides[d] % 8)) return UNSUPPORTED_LAYOUT;
                if (engine == 0 && t->sizes[1] > 1 && t->strides[1] > t->strides[5 - inner]) return UNSUPPORTED_LAYOUT;
                if (t->alignment < 16) return MISALIGNED;
            }
        }
        return 0;
    }

    // --- running ---
    std::map<int64_t, void*> places;
    void* workspace = nullptr;

    static double rounded(int64_t type, double v) {
        if (type == INT32 || type == BOOLEAN) return v;
        char room[8];
        store(type, room, 0, v);
        return load(type, room, 0);
    }
    // Where an element of `y` is in `t`, by whose sizes it is repeated or shared.
    template <class F> static void each(const std::vector<int64_t>& sizes, F f) {
        int64_t i[4];
        for (i[0] = 0; i[0] < sizes[0]; i[0]++)
            for (i[1] = 0; i[1] < sizes[1]; i[1]++)
                for (i[2] = 0; i[2] < sizes[2]; i[2]++)
                    for (i[3] = 0; i[3] < sizes[3]; i[3]++) f(i);
    }
    static int64_t at(const Tensor& t, const int64_t* i) {
        int64_t place = 0;
        for (int d = 0; d < 4; d++) place = place * t.sizes[d] + (t.sizes[d] == 1 ? 0 : i[d]);
        return place;
    }
    // The part of a reduced tensor that an element goes to: neighbouring heads share one.
    static int64_t part(const Tensor& x, const Tensor& y, const int64_t* i) {
        int64_t place = 0;
        for (int d = 0; d < 4; d++) place = place * y.sizes[d] + i[d] / (x.sizes[d] / y.sizes[d]);
        return place;
    }
    static int64_t offset(const Tensor& t, const int64_t* i) {
        int64_t o = 0;
        for (int d = 0; d < 4; d++) o += i[d] * t.strides[d];
        return o;
    }
    Values& read(std::map<int64_t, Values>& all, const Tensor& t) {
        const auto known = all.find(t.id);
        if (known != all.end()) return known->second;
        Values& v = all[t.id];
        v.resize(t.n());
        each(t.sizes, [&](const int64_t* i) { v[at(t, i)] = load(t.type, places[t.id], offset(t, i)); });
        return v;
    }
    static double point(const Step& s, double x, double b, double t, const int64_t* i) {
        switch (s.mode) {
            case PW_ADD: return x + b;
            case PW_MUL: return x * b;
            case PW_DIV: return x / b;
            case PW_SUB: return x - b;
            case PW_EXP: return std::exp(x);
            case PW_LOG: return std::log(x);
            case PW_GE: return x >= b;
            case PW_INDEX: return (double)i[s.axis];
            case PW_SELECT: return t != 0 ? x : b;
            default: return x;
        }
    }
    void run() {
        memset(workspace, 0xCB, WORKSPACE);
        std::map<int64_t, Values> all = by_value;
        for (const Step& s : steps) {
            const Tensor& y = s.y;
            Values out(y.n(), s.kind == REDUCTION_OP && s.mode == RED_MAX ? -INFINITY : 0);
            if (s.kind == POINTWISE_OP) {
                const Values* in[3] = {};
                for (int k = 0; k < 3; k++) if (s.in[k].id >= 0) in[k] = &read(all, s.in[k]);
                each(y.sizes, [&](const int64_t* i) {
                    double v[3] = {};
                    for (int k = 0; k < 3; k++) if (in[k]) v[k] = (*in[k])[at(s.in[k], i)];
                    out[at(y, i)] = point(s, v[0], v[1], v[2], i);
                });
            } else if (s.kind == MATMUL_OP) {
                const Tensor &ta = s.in[0], &tb = s.in[1];
                const Values &a = read(all, ta), &b = read(all, tb);
                const int64_t group = y.sizes[1] / tb.sizes[1], n = ta.sizes[3], columns = tb.sizes[3];
                each(y.sizes, [&](const int64_t* i) {
                    const double* row = &a[((i[0] * ta.sizes[1] + i[1]) * ta.sizes[2] + i[2]) * n];
                    const double* column = &b[(i[0] * tb.sizes[1] + i[1] / group) * n * columns + i[3]];
                    double sum = 0;
                    for (int64_t k = 0; k < n; k++) sum += row[k] * column[k * columns];
                    out[at(y, i)] = sum;
                });
            } else if (s.kind == REDUCTION_OP) {
                const Values& x = read(all, s.in[0]);
                each(s.in[0].sizes, [&](const int64_t* i) {
                    double& to = out[part(s.in[0], y, i)];
                    const double v = x[at(s.in[0], i)];
                    to = s.mode == RED_SUM ? to + v : v != v || to != to ? NAN : std::max(to, v);
                });
            } else {
                // The same element by the place that its strides give it; those of a tensor without memory are as if it had some.
                const Tensor& tx = s.in[0];
                const Values& x = read(all, tx);
                std::map<int64_t, double> lying;
                each(tx.sizes, [&](const int64_t* i) { lying[offset(tx, i)] = x[at(tx, i)]; });
                each(y.sizes, [&](const int64_t* i) { out[at(y, i)] = lying.at(offset(y, i)); });
            }
            for (double& v : out) v = rounded(y.type, v);
            if (!y.is_virtual) each(y.sizes, [&](const int64_t* i) { store(y.type, places[y.id], offset(y, i), out[at(y, i)]); });
            all[y.id] = out;
        }
    }
    std::map<int64_t, Values> by_value;

    Status execute(Handle* h, Descriptor* pack) {
        check();
        workspace = (void*)pack->number(1003);
        if (!workspace) return BAD_NULL;
        for (const auto& known : tensors) {
            const Tensor& t = known.second;
            if (t.is_virtual) continue;
            void* place = nullptr;
            for (size_t i = 0; i < pack->numbers[1000].size(); i++) if (pack->numbers[1000][i] == t.id) place = (void*)pack->numbers[1001][i];
            if (!place) return OUT_OF_BOUND;
            // Values on the host are read now.
            if (t.by_value) by_value[t.id] = {*(const float*)place};
            else if ((uint64_t)place % t.alignment) return MISALIGNED;
            else places[t.id] = place;
        }
        for (int64_t id : pack->numbers[1000]) if (!tensors.count(id) || tensors[id].is_virtual) return BAD_PARAM;
        static const Issue issue = issuer();
        if (!issue) return BAD_PARAM;
        const auto run = [](void* what) { ((Attention*)what)->run(); };
        const auto free = [](void* what) { delete (Attention*)what; };
        return issue(h->stream, run, new Attention(*this), free) ? 5000 : 0;
    }
};
