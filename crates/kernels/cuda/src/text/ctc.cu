// CTC_LOSS and its backward in logarithms. States are the labels of a sample with blanks around them. PART 0: forward variables and
// the loss, a block a sample; its threads are the states, step by step. PART 1: as much from the end, giving for each step the
// logarithm of what passes through each state. PART 2: the gradient, a block a sample and step.

// Element 0 of each operand, and the distances of its elements.
struct Batch {
    const i64* targets;
    i64 down, across, width, padded;
    const i64* times;
    i64 times_step;
    const i64* lengths;
    i64 lengths_step;
    i64 samples, steps, classes, most, blank;
};
struct Sample {
    i64 time, length, stride;
    const i64* labels;
};

// Lengths that do not fit are reported, and the sample has no labels and no steps then.
D Sample sample(const Batch& b, i64 n, Fault* fault) {
    Sample s;
    s.time = b.times[n * b.times_step];
    s.length = b.lengths[n * b.lengths_step];
    s.stride = b.padded ? b.across : b.down;
    i64 before = 0;
    for (i64 k = 0; k < n && !b.padded; k++) {
        const i64 length = b.lengths[k * b.lengths_step];
        before += length > 0 ? length : 0;
    }
    const i64 room = b.padded ? b.width : b.width - before;
    s.labels = b.targets + (b.padded ? n * b.down : before * b.down);
    if (s.time < 0 || s.time > b.steps) {
        report(fault, 9, s.time, 0, b.steps);
        s.time = s.length = 0;
    } else if (s.length < 0 || s.length > room || s.length > b.most) {
        report(fault, 10, s.length, 1, room);
        s.time = s.length = 0;
    }
    return s;
}
D i64 class_of(const Batch& b, const Sample& s, i64 state, Fault* fault) {
    if (state % 2 == 0) return b.blank;
    const i64 label = s.labels[state / 2 * s.stride];
    if (label >= 0 && label < b.classes) return label;
    report(fault, 11, label, 0, b.classes);
    return b.blank;
}
// Whether a path may come to this state over the blank before it.
D bool skips(const Sample& s, i64 state) {
    return state % 2 == 1 && state >= 3 && s.labels[state / 2 * s.stride] != s.labels[(state / 2 - 1) * s.stride];
}
D C log_add(C a, C b, C c) {
    const C most = a > b ? (a > c ? a : c) : (b > c ? b : c);
    return most == LOWEST ? most : most + LN(EXP(a - most) + EXP(b - most) + EXP(c - most));
}

#if PART == 0
extern "C" __global__ void entry(const C* x, i64 xt, i64 xn, i64 xc, C* alpha, i64 an, i64 at, i64 as, C* loss, i64 loss_step,
                                 Fault* fault, const __grid_constant__ Batch b) {
    __shared__ Sample s;
    const i64 n = blockIdx.x, all = 2 * b.most + 1;
    if (threadIdx.x == 0) s = sample(b, n, fault);
    __syncthreads();
    const i64 states = 2 * s.length + 1;
    C* mine = alpha + n * an;
    for (i64 t = 0; t < b.steps; t++) {
        for (i64 k = threadIdx.x; k < all; k += blockDim.x) {
            C v = LOWEST;
            if (t < s.time && k < states) {
                const C p = x[t * xt + n * xn + class_of(b, s, k, fault) * xc];
                const C* before = mine + (t - 1) * at;
                if (t > 0)
                    v = log_add(before[k * as], k > 0 ? before[(k - 1) * as] : LOWEST,
                                skips(s, k) ? before[(k - 2) * as] : LOWEST) + p;
                else if (k < 2)
                    v = p;
            }
            mine[t * at + k * as] = v;
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    C v = states == 1 ? (C)0 : LOWEST;
    if (s.time > 0) {
        const C* last = mine + (s.time - 1) * at;
        v = states == 1 ? last[0] : log_add(last[(states - 1) * as], last[(states - 2) * as], LOWEST);
    }
    loss[n * loss_step] = -v;
}
#elif PART == 1
// `beta`: two rows of states a sample. `through`: [n, t, states], by every state of the longest sample.
extern "C" __global__ void entry(const C* x, i64 xt, i64 xn, i64 xc, const C* alpha, i64 an, i64 at, i64 as, C* beta, C* through,
                                 Fault* fault, const __grid_constant__ Batch b) {
    __shared__ Sample s;
    const i64 n = blockIdx.x, all = 2 * b.most + 1;
    if (threadIdx.x == 0) s = sample(b, n, fault);
    __syncthreads();
    const i64 states = 2 * s.length + 1;
    for (i64 t = s.time - 1; t >= 0; t--) {
        C* now = beta + (2 * n + t % 2) * all;
        const C* after = beta + (2 * n + (t + 1) % 2) * all;
        for (i64 k = threadIdx.x; k < states; k += blockDim.x) {
            const C p = x[t * xt + n * xn + class_of(b, s, k, fault) * xc];
            C v = LOWEST;
            if (t + 1 < s.time)
                v = log_add(after[k], k + 1 < states ? after[k + 1] : LOWEST,
                            k + 2 < states && skips(s, k + 2) ? after[k + 2] : LOWEST) + p;
            else if (k + 2 >= states)
                v = p;
            now[k] = v;
            through[(n * b.steps + t) * all + k] = v + alpha[n * an + t * at + k * as];
        }
        __syncthreads();
    }
}
#else
D C joined(C a, C b) { return log_add(a, b, LOWEST); }
extern "C" __global__ void entry(const C* x, i64 xt, i64 xn, i64 xc, const C* through, const C* grad, i64 grad_step, const C* loss,
                                 i64 loss_step, C* out, i64 gt, i64 gn, i64 gc, i32 zero_infinity, Fault* fault,
                                 const __grid_constant__ Batch b) {
    __shared__ Sample s;
    __shared__ C room[256];
    const i64 n = blockIdx.x / b.steps, t = blockIdx.x % b.steps, all = 2 * b.most + 1;
    if (threadIdx.x == 0) s = sample(b, n, fault);
    __syncthreads();
    const C g = grad[n * grad_step], nll = loss[n * loss_step];
    const bool is_zero = t >= s.time || (zero_infinity && nll == HIGHEST);
    const C* at = x + t * xt + n * xn;
    C* to = out + t * gt + n * gn;
    const C* pass = through + (n * b.steps + t) * all;
    for (i64 c = threadIdx.x; c < b.classes; c += blockDim.x) {
        const C lp = at[c * xc];
        to[c * gc] = is_zero ? (C)0 : g * (EXP(lp) - EXP(LOWEST + nll - lp));
    }
    if (is_zero) return;
    __syncthreads();
    // A class is its first label's, and all states of blanks are summed by the block.
    C blank = LOWEST;
    const i64 states = 2 * s.length + 1;
    for (i64 k = threadIdx.x; k < states; k += blockDim.x) {
        const i64 c = class_of(b, s, k, fault);
        if (c == b.blank) {
            blank = joined(blank, pass[k]);
            continue;
        }
        bool is_first = true;
        for (i64 j = 1; j < k && is_first; j += 2) is_first = class_of(b, s, j, fault) != c;
        if (!is_first) continue;
        C sum = pass[k];
        for (i64 j = k + 2; j < states; j += 2)
            if (class_of(b, s, j, fault) == c) sum = joined(sum, pass[j]);
        const C lp = at[c * xc];
        to[c * gc] = g * (EXP(lp) - EXP(sum + nll - lp));
    }
    room[threadIdx.x] = blank;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) room[threadIdx.x] = joined(room[threadIdx.x], room[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const C lp = at[b.blank * xc];
        to[b.blank * gc] = g * (EXP(lp) - EXP(room[0] + nll - lp));
    }
}
#endif
