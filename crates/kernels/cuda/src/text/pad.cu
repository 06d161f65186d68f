// PAD (PART 0) and its adjoint (PART 1). MODE: 0 constant, 1 reflect, 2 replicate, 3 circular, 4 roll.
// Operands of the geometry, whose sizes are the written tensor's: out, in, the other side's size, the elements before.

#if PART == 0
extern "C" __global__ void entry(const U* in, U* out, u64 low, u64 high, const __grid_constant__ Geo<4> geo) {
    const u64 words[2] = {low, high};
    U value;
    memcpy(&value, words, sizeof(U));
    for (i64 i = first_position(); i < geo.n; i += position_step()) {
        i64 rest = i, to = 0, from = 0;
        bool inside = true;
        for (int d = geo.nd - 1; d >= 0; d--) {
            const i64 size = geo.sizes[d], up = rest / size, at = rest - up * size;
            const i64 n = geo.strides[2][d], before = geo.strides[3][d];
            i64 j = at - before;
            rest = up;
            if (j < 0 || j >= n) {
#if MODE == 0
                inside = false;
#elif MODE == 1
                j = j < 0 ? -j : 2 * (n - 1) - j;
#elif MODE == 2
                j = j < 0 ? 0 : n - 1;
#elif MODE == 3
                // A side that is cut wraps to what is left.
                const i64 after = size - n - before;
                j = j < 0 ? n + (after < 0 ? after : 0) + j : (before < 0 ? -before : 0) + j - n;
#else
                j += n;
#endif
            }
            to += at * geo.strides[0][d];
            from += j * geo.strides[1][d];
        }
        out[to] = inside ? in[from] : value;
    }
}
#else
// Where an element of a dimension was put: a range, and at most two places elsewhere.
struct Copies {
    i64 first, range, n, others[2];
    __device__ __forceinline__ i64 at(i64 k) const { return k < range ? first + k : others[k - range]; }
};

D Copies copies(i64 j, i64 n, i64 before, i64 padded) {
    const i64 kept = j + before;
    Copies c;
    c.first = kept;
    c.range = kept >= 0 && kept < padded;
    c.n = c.range;
#if MODE == 2
    i64 first = j == 0 ? 0 : kept, last = j == n - 1 ? padded - 1 : kept;
    first = first < 0 ? 0 : first;
    last = last >= padded ? padded - 1 : last;
    c.first = first;
    c.n = c.range = last >= first ? last - first + 1 : 0;
#else
#if MODE == 1
    const i64 left = before - j, right = before + 2 * (n - 1) - j;
    const bool is_left = j > 0, is_right = j < n - 1;
#else
    const i64 after = padded - n - before;
    const i64 left = j + before - n - (after < 0 ? after : 0), right = j + before + n - (before < 0 ? -before : 0);
    const bool is_left = true, is_right = true;
#endif
    // Left of the elements that were kept, and right of them.
    if (is_left && left >= 0 && left < before) c.others[c.n++ - c.range] = left;
    if (is_right && right >= n + before && right < padded) c.others[c.n++ - c.range] = right;
#endif
    return c;
}

extern "C" __global__ void entry(const T* in, T* out, u32 moved, const __grid_constant__ Geo<4> geo) {
    for (i64 i = first_position(); i < geo.n; i += position_step()) {
        i64 rest = i, to = 0, from = 0;
        // Of the dimensions in the mask `moved`, at most three.
        Copies along[3];
        i64 steps[3] = {0, 0, 0};
        for (int k = 0; k < 3; k++) {
            along[k].first = 0;
            along[k].range = along[k].n = 1;
        }
        int k = 0;
        for (int d = geo.nd - 1; d >= 0; d--) {
            const i64 size = geo.sizes[d], up = rest / size, at = rest - up * size;
            rest = up;
            to += at * geo.strides[0][d];
            if (moved >> d & 1 && k < 3) {
                along[k] = copies(at, size, geo.strides[3][d], geo.strides[2][d]);
                steps[k++] = geo.strides[1][d];
            } else {
                from += at * geo.strides[1][d];
            }
        }
        C sum = (C)0;
        for (i64 a = 0; a < along[2].n; a++)
            for (i64 b = 0; b < along[1].n; b++)
                for (i64 c = 0; c < along[0].n; c++)
                    sum += get<C>(in + from + along[2].at(a) * steps[2] + along[1].at(b) * steps[1] + along[0].at(c) * steps[0]);
        put(out + to, sum);
    }
}
#endif
