// RNN and its backward, what is done to each unit between two products: PART 0 the gates of a step, 1 the gradient that reaches h,
// 2 the gradients of the gates. MODE: 0 tanh, 1 relu, 2 LSTM, 3 GRU. States are [batch, width] without gaps; sequences are given by
// the first row of the step and the distance of rows.

D T sigmoid(T x) { return (T)1 / ((T)1 + EXP(-x)); }

#if PART == 0
extern "C" __global__ void entry(const T* x, i64 x_row, const T* product, const T* bias, i64 bias_step, T* h, T* c, T* out,
                                 i64 out_row, T* gates, i64 gates_row, T* cells, i64 cells_row, i64 rows, i64 n, i32 projected) {
    for (i64 i = first_position(); i < rows * n; i += position_step()) {
        const i64 row = i / n, u = i % n;
        const T* of_x = x + row * x_row + u;
        T* keep = gates + row * gates_row + u;
        T hidden[4];
        const int n_gates = MODE == 2 ? 4 : MODE == 3 ? 3 : 1;
        for (int g = 0; g < n_gates; g++)
            hidden[g] = product[row * n_gates * n + g * n + u] + (bias ? bias[(g * n + u) * bias_step] : (T)0);
        T v;
#if MODE == 0
        v = TANH(of_x[0] + hidden[0]);
        keep[0] = v;
#elif MODE == 1
        v = of_x[0] + hidden[0];
        v = v > (T)0 || v != v ? v : (T)0;
        keep[0] = v;
#elif MODE == 2
        const T input = sigmoid(of_x[0] + hidden[0]), forget = sigmoid(of_x[n] + hidden[1]);
        const T cell = TANH(of_x[2 * n] + hidden[2]), output = sigmoid(of_x[3 * n] + hidden[3]);
        const T state = forget * c[i] + input * cell;
        c[i] = state;
        if (cells) cells[row * cells_row + u] = state;
        keep[0] = input;
        keep[n] = forget;
        keep[2 * n] = cell;
        keep[3 * n] = output;
        v = output * TANH(state);
#else
        const T reset = sigmoid(of_x[0] + hidden[0]), update = sigmoid(of_x[n] + hidden[1]);
        const T next = TANH(reset * hidden[2] + of_x[2 * n]);
        keep[0] = reset;
        keep[n] = update;
        keep[2 * n] = next;
        keep[3 * n] = hidden[2];
        v = ((T)1 - update) * next + update * h[i];
#endif
        out[row * out_row + u] = v;
        // What is projected becomes h later.
        if (!projected) h[i] = v;
    }
}
#elif PART == 1
extern "C" __global__ void entry(T* dh, const T* grad, i64 grad_row, i64 grad_step, T* out, i64 out_row, i64 rows, i64 width) {
    for (i64 i = first_position(); i < rows * width; i += position_step()) {
        const i64 row = i / width, u = i % width;
        if (grad) dh[i] += grad[row * grad_row + u * grad_step];
        if (out) out[row * out_row + u] = dh[i];
    }
}
#else
// Rows of a state: those of a step where it has so many, behind them a first state of any strides.
struct Before {
    const T* step;
    i64 row, rows;
    const T* first;
    i64 first_row, first_step;
};
D T read(const Before& b, i64 row, i64 u) {
    return row < b.rows ? b.step[row * b.row + u] : b.first[row * b.first_row + u * b.first_step];
}
// `d`: the gradient of the units' outputs. GRU's own part of the gradient of h goes to `own`.
extern "C" __global__ void entry(const T* d, T* dc, const T* gates, i64 gates_row, const T* cells, i64 cells_row, T* to, i64 to_row,
                                 T* to_h, i64 to_h_row, T* projected, i64 projected_row, T* own, i64 rows, i64 n,
                                 const __grid_constant__ Before before) {
    for (i64 i = first_position(); i < rows * n; i += position_step()) {
        const i64 row = i / n, u = i % n;
        const T* gate = gates + row * gates_row + u;
        T* put = to + row * to_row + u;
        const T v = d[i];
#if MODE == 0
        put[0] = v * ((T)1 - gate[0] * gate[0]);
#elif MODE == 1
        put[0] = gate[0] > (T)0 ? v : (T)0;
#elif MODE == 2
        const T input = gate[0], forget = gate[n], cell = gate[2 * n], output = gate[3 * n];
        const T t = cells ? TANH(cells[row * cells_row + u]) : (T)0;
        const T now = v * output * ((T)1 - t * t) + dc[i];
        put[0] = now * cell * input * ((T)1 - input);
        put[n] = now * read(before, row, u) * forget * ((T)1 - forget);
        put[2 * n] = now * input * ((T)1 - cell * cell);
        put[3 * n] = v * t * output * ((T)1 - output);
        dc[i] = now * forget;
        if (projected) projected[row * projected_row + u] = output * t;
#else
        const T reset = gate[0], update = gate[n], next = gate[2 * n], of_new = gate[3 * n];
        const T d_new = v * ((T)1 - update) * ((T)1 - next * next);
        const T d_update = v * (read(before, row, u) - next) * update * ((T)1 - update);
        const T d_reset = d_new * of_new * reset * ((T)1 - reset);
        put[0] = d_reset;
        put[n] = d_update;
        put[2 * n] = d_new;
        T* put_h = to_h + row * to_h_row + u;
        put_h[0] = d_reset;
        put_h[n] = d_update;
        put_h[2 * n] = d_new * reset;
        own[i] = v * update;
#endif
    }
}
#endif
