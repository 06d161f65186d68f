// CONV and its gradients by tensor cores: a product whose first operand, or in PART 2 second, is gathered from an image, sixteen
// bytes of neighbouring channels at a time. PART 0: rows are positions of the output, columns its channels, sums over taps and
// input channels. PART 1: positions and channels of the input, sums over taps and output channels. PART 2: rows are output
// channels, columns a tap's input channels, sums over positions, in `parts` that are added afterwards. Channels lie side by side
// in image, weight and output, a multiple of eight a group.

#define THREADS 128
#define BM 128
#define BN 64
#define BK 32
#define MT 2
#define STAGES 3
// A tile's rows are what is summed (k) or what is not, as it lies in memory; eight elements more than a row needs, so that the
// eight rows of a matrix lie in different banks.
#if PART == 2
#define A_ROWS BK
#define LA (BM + 8)
#else
#define A_ROWS BM
#define LA (BK + 8)
#endif
#if PART == 0
#define B_ROWS BN
#define LB (BK + 8)
#else
#define B_ROWS BK
#define LB (BN + 8)
#endif

struct Conv {
    i64 n, c, o, groups, parts, bias_stride;
    i64 input[3], output[3], kernel[3], stride[3], padding[3], dilation[3], tap_step[3], out_step[3];
    i64 x[5], w[5], y[5];
    i64 last;
};
struct Stage {
    T a[A_ROWS * LA], b[B_ROWS * LB];
};
extern __shared__ __align__(128) unsigned char dynamic_shared[];

struct Place3 {
    int n, d, h, w;
};
// The image and the position in it of a number among those of all images.
D Place3 split(u32 at, const i64* sizes) {
    Place3 r;
    const u32 w = (u32)sizes[2], h = (u32)sizes[1], d = (u32)sizes[0];
    r.w = (int)(at % w);
    at /= w;
    r.h = (int)(at % h);
    at /= h;
    r.d = (int)(at % d);
    r.n = (int)(at / d);
    return r;
}
// The offset of a tap's input for an output position; false beyond the image.
D bool input_at(const Conv& g, const Place3& out, const Place3& tap, i64& at) {
    const int d = out.d * (int)g.stride[0] - (int)g.padding[0] + tap.d * (int)g.dilation[0];
    const int h = out.h * (int)g.stride[1] - (int)g.padding[1] + tap.h * (int)g.dilation[1];
    const int w = out.w * (int)g.stride[2] - (int)g.padding[2] + tap.w * (int)g.dilation[2];
    at = out.n * g.x[0] + d * g.x[2] + h * g.x[3] + w * g.x[4];
    return d >= 0 && d < g.input[0] && h >= 0 && h < g.input[1] && w >= 0 && w < g.input[2];
}
// Along one dimension, the output that a tap carries an input to.
D bool output_along(int in, int tap, int stride, int padding, int dilation, int size, int& out) {
    const int at = in + padding - tap * dilation;
    out = at / stride;
    return at >= 0 && out * stride == at && out < size;
}
D bool output_at(const Conv& g, const Place3& in, const Place3& tap, i64& at) {
    int d, h, w;
    const bool inside =
        output_along(in.d, tap.d, (int)g.stride[0], (int)g.padding[0], (int)g.dilation[0], (int)g.output[0], d) &
        output_along(in.h, tap.h, (int)g.stride[1], (int)g.padding[1], (int)g.dilation[1], (int)g.output[1], h) &
        output_along(in.w, tap.w, (int)g.stride[2], (int)g.padding[2], (int)g.dilation[2], (int)g.output[2], w);
    at = in.n * g.y[0] + d * g.y[2] + h * g.y[3] + w * g.y[4];
    return inside;
}
D i64 weight_at(const Conv& g, const Place3& tap) { return tap.d * g.w[2] + tap.h * g.w[3] + tap.w * g.w[4]; }

// Two neighbouring numbers.
D void put_pair(T* p, f32 a, f32 b) { *(u32*)p = pack(a, b); }

extern "C" __global__ void __launch_bounds__(THREADS, 2) entry(const T* first, const T* second, const T* bias, void* to,
                                                               const __grid_constant__ Conv g) {
    Stage* const stages = (Stage*)dynamic_shared;
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    // Of a tile whose rows have four or more chunks of eight elements: a thread's row and chunk.
    const int row = tid / 4, quarter = tid % 4;
    const int channels = (int)(g.c / g.groups), filters = (int)(g.o / g.groups);
    const int taps = (int)(g.kernel[0] * g.kernel[1] * g.kernel[2]);
    const u32 in_places = (u32)(g.n * g.input[0] * g.input[1] * g.input[2]);
    const u32 out_places = (u32)(g.n * g.output[0] * g.output[1] * g.output[2]);
    const u32 n_rows = PART == 0 ? out_places : PART == 1 ? in_places : (u32)filters;
    // Of PART 2, column tiles of one tap after those of another.
    const int columns = PART == 0 ? filters : channels, a_tap = (columns + BN - 1) / BN;
    const u32 row_tiles = (n_rows + BM - 1) / BM, column_tiles = (u32)a_tap * (PART == 2 ? taps : 1);
    for (u32 unit = blockIdx.x; unit < row_tiles * column_tiles * (u32)g.parts; unit += gridDim.x)
        for (int group = blockIdx.z; group < g.groups; group += gridDim.z) {
            // Neighbours in time share rows.
            const u32 tile = unit / (u32)g.parts;
            const int column0 = (int)(tile % column_tiles) % a_tap * BN;
            const u32 row0 = tile / column_tiles * BM;
#if PART == 2
            const T* const y = first + group * filters;
            const T* const x = second + group * channels;
            const int own_tap = (int)(tile % column_tiles) / a_tap;
            const Place3 tap = split((u32)own_tap, g.kernel);
            // Positions of this part.
            const u32 part = unit % (u32)g.parts, share = (out_places + (u32)g.parts - 1) / (u32)g.parts;
            const u32 begin = part * share, end = begin + share < out_places ? begin + share : out_places;
            const int steps = end > begin ? (int)((end - begin + BK - 1) / BK) : 0;
#else
            const T* const w = first + group * filters * g.w[0];
            const T* const image = second + group * (PART == 0 ? channels : filters);
            // What is summed: of every tap, so many.
            const int depth = PART == 0 ? channels : filters, steps = (taps * depth + BK - 1) / BK;
            Place3 mine[BM / 32];
#pragma unroll
            for (int i = 0; i < BM / 32; i++) mine[i] = split(row0 + row + 32 * i, PART == 0 ? g.output : g.input);
#endif
            const auto bring = [&](int step) {
                Stage& s = stages[step % STAGES];
#if PART == 2
                const u32 at = begin + step * BK + row;
                const bool live = at < end;
                const Place3 out = split(live ? at : 0, g.output);
                const i64 y_at = out.n * g.y[0] + out.d * g.y[2] + out.h * g.y[3] + out.w * g.y[4];
                i64 x_at;
                const bool inside = input_at(g, out, tap, x_at) & live;
#pragma unroll
                for (int i = 0; i < BM / 32; i++) {
                    const int k = (quarter + 4 * i) * 8, o = (int)row0 + k;
                    const bool ok = live & (o < filters);
                    copy_async(s.a + row * LA + k, y + (ok ? y_at + o : 0), ok);
                }
#pragma unroll
                for (int i = 0; i < BN / 32; i++) {
                    const int k = (quarter + 4 * i) * 8, c = column0 + k;
                    const bool ok = inside & (c < channels);
                    copy_async(s.b + row * LB + k, x + (ok ? x_at + c : 0), ok);
                }
#else
                const int k = step * BK + quarter * 8, tap_idx = k / depth, channel = k - tap_idx * depth;
                const Place3 tap = split((u32)tap_idx, g.kernel);
#pragma unroll
                for (int i = 0; i < BM / 32; i++) {
                    i64 at;
                    const bool inside = PART == 0 ? input_at(g, mine[i], tap, at) : output_at(g, mine[i], tap, at);
                    const bool ok = inside & (tap_idx < taps) & (row0 + row + 32 * i < n_rows);
                    copy_async(s.a + (row + 32 * i) * LA + quarter * 8, image + (ok ? at + channel : 0), ok);
                }
#if PART == 0
                const i64 w_at = weight_at(g, tap) + channel;
#pragma unroll
                for (int i = 0; i < BN / 32; i++) {
                    const int o = column0 + row + 32 * i;
                    const bool ok = (o < filters) & (tap_idx < taps);
                    copy_async(s.b + (row + 32 * i) * LB + quarter * 8, w + (ok ? o * g.w[0] + w_at : 0), ok);
                }
#else
                const int own = step * BK + row, own_tap = own / depth, o = own - own_tap * depth;
                const i64 w_at = weight_at(g, split((u32)own_tap, g.kernel)) + o * g.w[0];
#pragma unroll
                for (int i = 0; i < BN / 32; i++) {
                    const int c = column0 + (quarter + 4 * i) * 8;
                    const bool ok = (c < channels) & (own_tap < taps);
                    copy_async(s.b + row * LB + (quarter + 4 * i) * 8, w + (ok ? w_at + c : 0), ok);
                }
#endif
#endif
            };
            f32 acc[MT][BN / 8][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < BN / 8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) acc[m][j][i] = 0.0f;
            // Lanes' places in matrices: rows by rows, or two of them side by side first.
            const int down_first = lane % 16, right_first = lane / 16 * 8;
            const int down_second = lane % 8 + lane / 16 * 8, right_second = lane / 8 % 2 * 8;
#pragma unroll
            for (int s = 0; s < STAGES - 1; s++) {
                if (s < steps) bring(s);
                copies_issued();
            }
            for (int step = 0; step < steps; step++) {
                wait_copies<STAGES - 2>();
                // Of all threads; and nobody reads the stage any more that is written next.
                __syncthreads();
                if (step + STAGES - 1 < steps) bring(step + STAGES - 1);
                copies_issued();
                const Stage& s = stages[step % STAGES];
#pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    u32 left[MT][4];
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        const int at = warp * 16 * MT + m * 16;
#if PART == 2
                        load_matrices_trans(left[m], s.a + (k + down_second) * LA + at + right_second);
#else
                        load_matrices(left[m], s.a + (at + down_first) * LA + k + right_first);
#endif
                    }
#pragma unroll
                    for (int j = 0; j < BN / 16; j++) {
                        u32 right[4];
#if PART == 0
                        load_matrices(right, s.b + (j * 16 + down_second) * LB + k + right_second);
#else
                        load_matrices_trans(right, s.b + (k + down_first) * LB + j * 16 + right_first);
#endif
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply(acc[m][2 * j], left[m], right[0], right[1]);
                            multiply(acc[m][2 * j + 1], left[m], right[2], right[3]);
                        }
                    }
                }
            }
            wait_copies<0>();
            __syncthreads();
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const u32 r = row0 + warp * 16 * MT + m * 16 + half * 8 + lane / 4;
                    if (r >= n_rows) continue;
#if PART == 2
                    f32* const out = (f32*)to + (((i64)part * g.o + group * filters + r) * channels) * taps + own_tap;
#else
                    const Place3 at = split(r, PART == 0 ? g.output : g.input);
                    const i64* const s = PART == 0 ? g.y : g.x;
                    T* const out = (T*)to + at.n * s[0] + at.d * s[2] + at.h * s[3] + at.w * s[4] + group * columns;
#endif
#pragma unroll
                    for (int j = 0; j < BN / 8; j++) {
                        const int c = column0 + j * 8 + lane % 4 * 2;
                        if (c >= columns) continue;
                        f32 a = acc[m][j][2 * half], b = acc[m][j][2 * half + 1];
#if PART == 2
                        out[(i64)c * taps] = a;
                        out[(i64)(c + 1) * taps] = b;
#else
                        // Channels from `last` on only fill the last eight up.
                        const i64 channel = group * columns + c;
                        if (bias && channel < g.last) a += get<f32>(bias + channel * g.bias_stride);
                        if (bias && channel + 1 < g.last) b += get<f32>(bias + (channel + 1) * g.bias_stride);
                        put_pair(out + c, a, b);
#endif
                    }
                }
        }
}
