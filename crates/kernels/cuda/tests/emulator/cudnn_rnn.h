// The recurrent networks of the emulated libcudnn, by their formulas in double precision. Strict about what the real library demands:
// finished descriptors, sizes of memory, padded sequences only where a flag allows them. Weights of a network with several layers
// lie with gaps between layers, and its reserve is good for one backward, as the real library may have it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

struct TensorDescriptor {
    int type = -1;
    std::vector<int> sizes, strides;
};
struct DropoutDescriptor {
    bool is_set = false;
};
struct SequenceDescriptor {
    int type = -1, layout = 0, steps = 0, batch = 0, width = 0;
    std::vector<int> lengths;
    // The element of a row's step: layouts of steps first, packed, batch first.
    int64_t at(int step, int row) const {
        if (layout == 2) return ((int64_t)row * steps + step) * width;
        if (layout == 0) return ((int64_t)step * batch + row) * width;
        int64_t rows = row;
        for (int n : lengths) rows += std::min(n, step);
        return rows * width;
    }
};
struct NetworkDescriptor {
    int mode = -1, bias = 0, directions = 1, type = 0, math = 0, kind = 0, input = 0, hidden = 0, out = 0, layers = 0;
    unsigned flags = 0;

    int gates() const { return mode == 2 ? 4 : mode == 3 ? 3 : 1; }
    int parts() const { return layers * directions; }
    int width(int part) const { return part < directions ? input : out * directions; }
    int64_t matrices(int part) const {
        return (int64_t)gates() * hidden * (width(part) + out) + (out != hidden ? (int64_t)out * hidden : 0);
    }
    // Elements between the weights of two layers.
    int64_t gap() const { return layers > 1 ? 8 : 0; }
    int64_t begin(int part) const {
        int64_t at = 0;
        for (int p = 0; p < part; p++) at += matrices(p) + gap();
        return at;
    }
    int64_t size() const { return begin(parts()) + (bias ? (int64_t)parts() * 2 * gates() * hidden : 0); }
    // Matrices of the gates for the input, then for h, then the projection; biases by the same numbers.
    int64_t matrix(int part, int id) const {
        const int64_t of_input = (int64_t)hidden * width(part), of_h = (int64_t)hidden * out;
        return begin(part) + std::min(id, gates()) * of_input + std::max(id - gates(), 0) * of_h;
    }
    int64_t bias_at(int part, int id) const { return begin(parts()) + ((int64_t)part * 2 * gates() + id) * hidden; }

    // The reserve: doubles of every part, step and row, behind a word that says what was done.
    int64_t kept() const { return 4 * hidden + 2 * hidden + out + 2 * (int64_t)gates() * hidden + out; }
    int64_t reserved(const SequenceDescriptor& x) const { return 1 + (int64_t)parts() * x.steps * x.batch * kept(); }
};

// A call and where its operands are.
struct NetworkCall {
    NetworkDescriptor n;
    SequenceDescriptor xs, ys;
    const void *x, *y, *hx, *cx, *dy, *dhy, *dcy, *weights;
    void *to_y, *hy, *cy, *dx, *dhx, *dcx, *dweights, *workspace;
    double* reserve;
    // Bytes of the workspace.
    static const size_t WORK = 512;

    typedef std::vector<double> Numbers;

    double number(const void* p, int64_t i) const {
        return load(n.type, p, i);
    }
    double operand(double v) const { return n.type == F32 && n.kind == 0 ? to_tf32(v) : v; }
    double weight(int64_t i) const { return operand(number(weights, i)); }
    double rounded(double v) const {
        double room;
        store(n.type, &room, 0, v);
        return load(n.type, &room, 0);
    }
    double* keep(int part, int step, int row) const {
        return reserve + 1 + (((int64_t)part * xs.steps + step) * xs.batch + row) * n.kept();
    }
    // What is kept of a unit: gates after their activation, the cell, what a projection reads, h, and the gradients of gates and h.
    int cell() const { return 4 * n.hidden; }
    int inner() const { return 5 * n.hidden; }
    int h() const { return 6 * n.hidden; }
    int of_x() const { return h() + n.out; }
    int of_h() const { return of_x() + n.gates() * n.hidden; }
    int dh() const { return of_h() + n.gates() * n.hidden; }
    int step_of(int i, int length, int part) const { return part % n.directions ? length - 1 - i : i; }

    // What a part reads at a step of a row.
    Numbers read(const Numbers& below, int part, int step, int row) const {
        const int w = n.width(part);
        Numbers v(w);
        for (int i = 0; i < w; i++)
            v[i] = part < n.directions ? number(x, xs.at(step, row) + i) : below[((int64_t)step * xs.batch + row) * w + i];
        return v;
    }
    // The outputs of a layer as the reserve has them.
    Numbers outputs(int layer) const {
        const int w = n.out * n.directions;
        Numbers all((int64_t)xs.steps * xs.batch * w);
        for (int row = 0; row < xs.batch; row++)
            for (int step = 0; step < xs.lengths[row]; step++)
                for (int d = 0; d < n.directions; d++)
                    for (int r = 0; r < n.out; r++)
                        all[((int64_t)step * xs.batch + row) * w + d * n.out + r] =
                            keep(layer * n.directions + d, step, row)[h() + r];
        return all;
    }

    void forward() {
        memset(workspace, 0xCB, WORK);
        Numbers own;
        if (!reserve) own.resize(n.reserved(xs)), reserve = own.data();
        reserve[0] = 1;
        const int G = n.gates(), H = n.hidden, R = n.out;
        for (int layer = 0; layer < n.layers; layer++) {
            const Numbers below = layer ? outputs(layer - 1) : Numbers();
            for (int part = layer * n.directions; part < (layer + 1) * n.directions; part++)
                for (int row = 0; row < xs.batch; row++) {
                    Numbers now(R), cells(H);
                    for (int r = 0; r < R; r++) now[r] = number(hx, ((int64_t)part * xs.batch + row) * R + r);
                    for (int u = 0; u < H && n.mode == 2; u++) cells[u] = number(cx, ((int64_t)part * xs.batch + row) * H + u);
                    for (int i = 0; i < xs.lengths[row]; i++) {
                        const int step = step_of(i, xs.lengths[row], part);
                        const Numbers in = read(below, part, step, row);
                        double* k = keep(part, step, row);
                        Numbers of_x(G * H), of_h(G * H);
                        for (int g = 0; g < G; g++)
                            for (int u = 0; u < H; u++) {
                                double a = n.bias ? number(weights, n.bias_at(part, g) + u) : 0;
                                double b = n.bias ? number(weights, n.bias_at(part, G + g) + u) : 0;
                                for (int c = 0; c < n.width(part); c++)
                                    a += weight(n.matrix(part, g) + (int64_t)u * n.width(part) + c) * operand(in[c]);
                                for (int r = 0; r < R; r++) b += weight(n.matrix(part, G + g) + (int64_t)u * R + r) * operand(now[r]);
                                of_x[g * H + u] = a, of_h[g * H + u] = b;
                            }
                        const auto sum = [&](int g, int u) { return of_x[g * H + u] + of_h[g * H + u]; };
                        const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
                        for (int u = 0; u < H; u++) {
                            if (n.mode == 0) {
                                const double v = sum(0, u);
                                k[u] = v > 0 || v != v ? v : 0, k[inner() + u] = k[u];
                            } else if (n.mode == 1) {
                                k[u] = std::tanh(sum(0, u)), k[inner() + u] = k[u];
                            } else if (n.mode == 2) {
                                k[u] = sigmoid(sum(0, u)), k[H + u] = sigmoid(sum(1, u));
                                k[2 * H + u] = std::tanh(sum(2, u)), k[3 * H + u] = sigmoid(sum(3, u));
                                cells[u] = k[H + u] * cells[u] + k[u] * k[2 * H + u];
                                k[cell() + u] = cells[u], k[inner() + u] = k[3 * H + u] * std::tanh(cells[u]);
                            } else {
                                k[u] = sigmoid(sum(0, u)), k[H + u] = sigmoid(sum(1, u)), k[3 * H + u] = of_h[2 * H + u];
                                k[2 * H + u] = std::tanh(of_x[2 * H + u] + k[u] * k[3 * H + u]);
                                k[inner() + u] = (1 - k[H + u]) * k[2 * H + u] + k[H + u] * now[u];
                            }
                        }
                        for (int r = 0; r < R; r++) {
                            double v = R == H ? k[inner() + r] : 0;
                            for (int u = 0; u < H && R != H; u++)
                                v += weight(n.matrix(part, 2 * G) + (int64_t)r * H + u) * operand(k[inner() + u]);
                            now[r] = k[h() + r] = rounded(v);
                        }
                    }
                    for (int r = 0; r < R; r++) store(n.type, hy, ((int64_t)part * xs.batch + row) * R + r, now[r]);
                    for (int u = 0; u < H && n.mode == 2; u++) store(n.type, cy, ((int64_t)part * xs.batch + row) * H + u, cells[u]);
                }
        }
        const Numbers last = outputs(n.layers - 1);
        for (int row = 0; row < xs.batch; row++)
            for (int step = 0; step < xs.lengths[row]; step++)
                for (int i = 0; i < ys.width; i++)
                    store(n.type, to_y, ys.at(step, row) + i, last[((int64_t)step * xs.batch + row) * ys.width + i]);
        if (!own.empty()) reserve = nullptr;
    }

    // Another backward than the first finds no numbers.
    double expect(double done) {
        const bool right = reserve[0] == done;
        reserve[0] = done + 1;
        memset(workspace, 0xCB, WORK);
        return right ? 0 : NAN;
    }

    void backward_data() {
        const double fault = expect(1);
        const int G = n.gates(), H = n.hidden, R = n.out;
        Numbers above((int64_t)xs.steps * xs.batch * ys.width);
        for (int row = 0; row < xs.batch; row++)
            for (int step = 0; step < xs.lengths[row]; step++)
                for (int i = 0; i < ys.width; i++)
                    above[((int64_t)step * xs.batch + row) * ys.width + i] = number(dy, ys.at(step, row) + i) + fault;
        for (int layer = n.layers - 1; layer >= 0; layer--) {
            const int w = n.width(layer * n.directions);
            Numbers below((int64_t)xs.steps * xs.batch * w);
            for (int part = layer * n.directions; part < (layer + 1) * n.directions; part++)
                for (int row = 0; row < xs.batch; row++) {
                    const int64_t state = (int64_t)part * xs.batch + row;
                    Numbers d(R), dc(H);
                    for (int r = 0; r < R; r++) d[r] = number(dhy, state * R + r);
                    for (int u = 0; u < H && n.mode == 2; u++) dc[u] = number(dcy, state * H + u);
                    for (int i = xs.lengths[row] - 1; i >= 0; i--) {
                        const int step = step_of(i, xs.lengths[row], part);
                        double* k = keep(part, step, row);
                        double* before = i ? keep(part, step_of(i - 1, xs.lengths[row], part), row) : nullptr;
                        const int64_t place = (int64_t)step * xs.batch + row;
                        for (int r = 0; r < R; r++)
                            k[dh() + r] = d[r] += above[place * ys.width + part % n.directions * R + r];
                        double *gx = k + of_x(), *gh = k + of_h();
                        Numbers next(R);
                        for (int u = 0; u < H; u++) {
                            double v = R == H ? d[u] : 0;
                            for (int r = 0; r < R && R != H; r++) v += weight(n.matrix(part, 2 * G) + (int64_t)r * H + u) * d[r];
                            if (n.mode == 0) gx[u] = gh[u] = k[u] > 0 ? v : 0;
                            else if (n.mode == 1) gx[u] = gh[u] = v * (1 - k[u] * k[u]);
                            else if (n.mode == 2) {
                                const double in = k[u], forget = k[H + u], c = k[2 * H + u], out = k[3 * H + u], t = std::tanh(k[cell() + u]);
                                const double all = v * out * (1 - t * t) + dc[u];
                                const double was = before ? before[cell() + u] : number(cx, state * H + u);
                                gx[u] = gh[u] = all * c * in * (1 - in), gx[H + u] = gh[H + u] = all * was * forget * (1 - forget);
                                gx[2 * H + u] = gh[2 * H + u] = all * in * (1 - c * c);
                                gx[3 * H + u] = gh[3 * H + u] = v * t * out * (1 - out);
                                dc[u] = all * forget;
                            } else {
                                const double reset = k[u], update = k[H + u], c = k[2 * H + u], of_new = k[3 * H + u];
                                const double was = before ? before[h() + u] : number(hx, state * R + u);
                                gx[2 * H + u] = v * (1 - update) * (1 - c * c), gh[2 * H + u] = gx[2 * H + u] * reset;
                                gx[H + u] = gh[H + u] = v * (was - c) * update * (1 - update);
                                gx[u] = gh[u] = gx[2 * H + u] * of_new * reset * (1 - reset);
                                next[u] = v * update;
                            }
                        }
                        for (int g = 0; g < G; g++)
                            for (int u = 0; u < H; u++) {
                                for (int c = 0; c < w; c++)
                                    below[place * w + c] += weight(n.matrix(part, g) + (int64_t)u * w + c) * gx[g * H + u];
                                for (int r = 0; r < R; r++) next[r] += weight(n.matrix(part, G + g) + (int64_t)u * R + r) * gh[g * H + u];
                            }
                        d = next;
                    }
                    for (int r = 0; r < R; r++) store(n.type, dhx, state * R + r, d[r]);
                    for (int u = 0; u < H && n.mode == 2; u++) store(n.type, dcx, state * H + u, dc[u]);
                }
            above = below;
        }
        for (int row = 0; row < xs.batch; row++)
            for (int step = 0; step < xs.lengths[row]; step++)
                for (int i = 0; i < xs.width; i++)
                    store(n.type, dx, xs.at(step, row) + i, above[((int64_t)step * xs.batch + row) * xs.width + i]);
    }

    void backward_weights() {
        const double fault = expect(2);
        const int G = n.gates(), H = n.hidden, R = n.out;
        Numbers sums(n.size());
        for (int layer = 0; layer < n.layers; layer++) {
            const Numbers below = layer ? outputs(layer - 1) : Numbers();
            for (int part = layer * n.directions; part < (layer + 1) * n.directions; part++)
                for (int row = 0; row < xs.batch; row++)
                    for (int i = 0; i < xs.lengths[row]; i++) {
                        const int step = step_of(i, xs.lengths[row], part);
                        const Numbers in = read(below, part, step, row);
                        const double* k = keep(part, step, row);
                        const double* before = i ? keep(part, step_of(i - 1, xs.lengths[row], part), row) : nullptr;
                        for (int g = 0; g < G; g++)
                            for (int u = 0; u < H; u++) {
                                const double gx = k[of_x() + g * H + u] + fault, gh = k[of_h() + g * H + u];
                                for (int c = 0; c < n.width(part); c++)
                                    sums[n.matrix(part, g) + (int64_t)u * n.width(part) + c] += gx * in[c];
                                for (int r = 0; r < R; r++)
                                    sums[n.matrix(part, G + g) + (int64_t)u * R + r] +=
                                        gh * (before ? before[h() + r] : number(hx, ((int64_t)part * xs.batch + row) * R + r));
                                if (n.bias) sums[n.bias_at(part, g) + u] += gx, sums[n.bias_at(part, G + g) + u] += gh;
                            }
                        for (int r = 0; r < R && R != H; r++)
                            for (int u = 0; u < H; u++)
                                sums[n.matrix(part, 2 * G) + (int64_t)r * H + u] += k[dh() + r] * k[inner() + u];
                    }
        }
        for (int64_t i = 0; i < n.size(); i++) store(n.type, dweights, i, sums[i] + number(dweights, i));
    }

    // In the stream's order, like a kernel.
    template <void (NetworkCall::*F)()> Status issue(Handle* h) const {
        static const Issue to = issuer();
        if (!to) return BAD_PARAM;
        const auto run = [](void* what) { (((NetworkCall*)what)->*F)(); };
        const auto free = [](void* what) { delete (NetworkCall*)what; };
        return to(h->stream, run, new NetworkCall(*this), free) ? 5000 : 0;
    }
    // What every call demands.
    Status check(const SequenceDescriptor* x, const SequenceDescriptor* y, const TensorDescriptor* h, const TensorDescriptor* c,
                 size_t weight_bytes, size_t work_bytes) const {
        const std::vector<int> states = {n.parts(), x->batch, n.out}, cells = {n.parts(), x->batch, n.hidden};
        if (n.mode < 0 || x->type != n.type || y->type != n.type || x->layout != y->layout || x->lengths != y->lengths) return BAD_PARAM;
        if (x->width != n.input || y->width != n.out * n.directions || h->sizes != states || h->type != n.type) return BAD_PARAM;
        if (n.mode == 2 && (c->sizes != cells || c->type != n.type)) return BAD_PARAM;
        if (x->layout != 1 && !(n.flags & 1)) return BAD_PARAM;
        if (weight_bytes != n.size() * element_size(n.type) || work_bytes < WORK || !workspace) return BAD_PARAM;
        return 0;
    }
};

extern "C" {
Status cudnnCreateTensorDescriptor(TensorDescriptor** d) { *d = new TensorDescriptor; return 0; }
Status cudnnDestroyTensorDescriptor(TensorDescriptor* d) { delete d; return 0; }
Status cudnnSetTensorNdDescriptor(TensorDescriptor* d, int type, int n, const int* sizes, const int* strides) {
    if (n < 3 || n > 8) return BAD_PARAM;
    d->type = type, d->sizes.assign(sizes, sizes + n), d->strides.assign(strides, strides + n);
    for (int k = 0, step = 1; k < n; step *= sizes[n - 1 - k], k++)
        if (sizes[n - 1 - k] <= 0 || strides[n - 1 - k] != step) return BAD_PARAM;
    return 0;
}
Status cudnnGetTensorNdDescriptor(TensorDescriptor* d, int room, int* type, int* n, int* sizes, int* strides) {
    *type = d->type, *n = (int)d->sizes.size();
    for (int k = 0; k < room && k < *n; k++) sizes[k] = d->sizes[k], strides[k] = d->strides[k];
    return 0;
}
Status cudnnCreateDropoutDescriptor(DropoutDescriptor** d) { *d = new DropoutDescriptor; return 0; }
Status cudnnDestroyDropoutDescriptor(DropoutDescriptor* d) { delete d; return 0; }
Status cudnnSetDropoutDescriptor(DropoutDescriptor* d, Handle* h, float p, void* states, size_t bytes, unsigned long long) {
    if (!h || p != 0 || states || bytes) return BAD_PARAM;
    d->is_set = true;
    return 0;
}
Status cudnnCreateRNNDataDescriptor(SequenceDescriptor** d) { *d = new SequenceDescriptor; return 0; }
Status cudnnDestroyRNNDataDescriptor(SequenceDescriptor* d) { delete d; return 0; }
Status cudnnSetRNNDataDescriptor(SequenceDescriptor* d, int type, int layout, int steps, int batch, int width, const int* lengths, void* fill) {
    if (layout < 0 || layout > 2 || steps <= 0 || batch <= 0 || width <= 0 || fill) return BAD_PARAM;
    d->type = type, d->layout = layout, d->steps = steps, d->batch = batch, d->width = width;
    d->lengths.assign(lengths, lengths + batch);
    for (int k = 0; k < batch; k++)
        if (lengths[k] <= 0 || lengths[k] > steps || (layout == 1 && k && lengths[k] > lengths[k - 1])) return BAD_PARAM;
    return 0;
}
Status cudnnCreateRNNDescriptor(NetworkDescriptor** d) { *d = new NetworkDescriptor; return 0; }
Status cudnnDestroyRNNDescriptor(NetworkDescriptor* d) { delete d; return 0; }
Status cudnnSetRNNDescriptor_v8(NetworkDescriptor* d, int algorithm, int mode, int bias, int direction, int input_mode, int type, int math,
                                int kind, int32_t input, int32_t hidden, int32_t out, int32_t layers, DropoutDescriptor* dropout, uint32_t flags) {
    if (mode < 0 || mode > 3 || direction < 0 || direction > 1 || input <= 0 || hidden <= 0 || out <= 0 || layers <= 0) return BAD_PARAM;
    if (!dropout || !dropout->is_set || (bias != 0 && bias != 2) || input_mode != 0 || flags > 1) return BAD_PARAM;
    const bool is_half = type == F16 || type == BF16;
    if (math != (type == F64 ? F64 : F32) || kind < 0 || kind > 3 || (is_half && kind == 3)) return BAD_PARAM;
    if (algorithm != 0 || out > hidden || (out < hidden && mode != 2)) return UNSUPPORTED_GRAPH;
    // A network that is not taken; one of 78 units is, and refused when it runs.
    if (hidden == 77) return UNSUPPORTED_GRAPH;
    *d = NetworkDescriptor{mode, bias, direction + 1, type, math, kind, input, hidden, out, layers, flags};
    return 0;
}
Status cudnnGetRNNWeightSpaceSize(Handle* h, NetworkDescriptor* d, size_t* bytes) {
    if (!h || d->mode < 0) return BAD_PARAM;
    *bytes = d->size() * element_size(d->type);
    return 0;
}
Status cudnnGetRNNTempSpaceSizes(Handle* h, NetworkDescriptor* d, int mode, SequenceDescriptor* x, size_t* work, size_t* reserve) {
    if (!h || d->mode < 0 || x->type != d->type || x->width != d->input) return BAD_PARAM;
    if (work) *work = NetworkCall::WORK;
    if (reserve) *reserve = mode == 1 ? d->reserved(*x) * 8 : 0;
    return 0;
}
Status cudnnGetRNNWeightParams(Handle* h, NetworkDescriptor* d, int32_t part, size_t bytes, const void* space, int32_t id,
                               TensorDescriptor* m, void** m_at, TensorDescriptor* b, void** b_at) {
    if (!h || !space || part < 0 || part >= d->parts() || id < 0 || id > 2 * d->gates()) return BAD_PARAM;
    if (bytes != d->size() * element_size(d->type)) return BAD_PARAM;
    const bool is_projection = id == 2 * d->gates(), has_bias = d->bias && !is_projection;
    *m = *b = TensorDescriptor(), *m_at = *b_at = nullptr;
    const auto set = [&](TensorDescriptor* t, void** at, int64_t place, int rows, int columns) {
        *at = (char*)space + place * element_size(d->type);
        *t = TensorDescriptor{d->type, {1, rows, columns}, {rows * columns, columns, 1}};
    };
    if (!is_projection) set(m, m_at, d->matrix(part, id), d->hidden, id < d->gates() ? d->width(part) : d->out);
    else if (d->out != d->hidden) set(m, m_at, d->matrix(part, id), d->out, d->hidden);
    if (has_bias) set(b, b_at, d->bias_at(part, id), d->hidden, 1);
    return 0;
}
Status cudnnRNNForward(Handle* handle, NetworkDescriptor* d, int mode, const int32_t*, SequenceDescriptor* xd, const void* x,
                       SequenceDescriptor* yd, void* y, TensorDescriptor* hd, const void* hx, void* hy, TensorDescriptor* cd, const void* cx,
                       void* cy, size_t weight_bytes, const void* weights, size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    NetworkCall c = {*d, *xd, *yd, x, y, hx, cx};
    c.weights = weights, c.to_y = y, c.hy = hy, c.cy = cy, c.workspace = work, c.reserve = mode == 1 ? (double*)reserve : nullptr;
    if (Status s = c.check(xd, yd, hd, cd, weight_bytes, work_bytes)) return s;
    if (!x || !y || !hx || !hy || !weights || (d->mode == 2) != (cx && cy)) return BAD_NULL;
    if (mode == 1 ? !reserve || reserve_bytes < (size_t)d->reserved(*xd) * 8 : mode != 0) return BAD_PARAM;
    if (d->hidden == 78) return UNSUPPORTED_GRAPH;
    return c.issue<&NetworkCall::forward>(handle);
}
Status cudnnRNNBackwardData_v8(Handle* handle, NetworkDescriptor* d, const int32_t*, SequenceDescriptor* yd, const void* y, const void* dy,
                               SequenceDescriptor* xd, void* dx, TensorDescriptor* hd, const void* hx, const void* dhy, void* dhx,
                               TensorDescriptor* cd, const void* cx, const void* dcy, void* dcx, size_t weight_bytes, const void* weights,
                               size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    NetworkCall c = {*d, *xd, *yd, nullptr, y, hx, cx, dy, dhy, dcy, weights};
    c.dx = dx, c.dhx = dhx, c.dcx = dcx, c.workspace = work, c.reserve = (double*)reserve;
    if (Status s = c.check(xd, yd, hd, cd, weight_bytes, work_bytes)) return s;
    if (!y || !dy || !dx || !hx || !dhy || !dhx || !weights || !reserve || (d->mode == 2) != (cx && dcy && dcx)) return BAD_NULL;
    if (reserve_bytes < (size_t)d->reserved(*xd) * 8) return BAD_PARAM;
    return c.issue<&NetworkCall::backward_data>(handle);
}
Status cudnnRNNBackwardWeights_v8(Handle* handle, NetworkDescriptor* d, int add, const int32_t*, SequenceDescriptor* xd, const void* x,
                                  TensorDescriptor* hd, const void* hx, SequenceDescriptor* yd, const void* y, size_t weight_bytes,
                                  void* dweights, size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    NetworkCall c = {*d, *xd, *yd, x, y, hx};
    c.dweights = dweights, c.workspace = work, c.reserve = (double*)reserve;
    TensorDescriptor cells = {d->type, {d->parts(), xd->batch, d->hidden}};
    if (Status s = c.check(xd, yd, hd, &cells, weight_bytes, work_bytes)) return s;
    if (!x || !hx || !y || !dweights || !reserve) return BAD_NULL;
    // Setting gradients is not implemented there.
    if (add != 0) return UNSUPPORTED_GRAPH;
    if (reserve_bytes < (size_t)d->reserved(*xd) * 8) return BAD_PARAM;
    return c.issue<&NetworkCall::backward_weights>(handle);
}
}
