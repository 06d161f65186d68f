// LOGCUMSUMEXP: as SCAN, of pairs of the largest exponent and the sum relative to it, in f64.

struct Sum {
    f64 top, sum;
};
D Sum join(Sum a, Sum b) {
    if (b.sum == 0) return a;
    if (a.sum == 0) return b;
    Sum r;
    r.top = greater(a.top, b.top);
    // Equal infinities differ by nothing.
    r.sum = (a.top == r.top ? a.sum : a.sum * exp(a.top - r.top)) + (b.top == r.top ? b.sum : b.sum * exp(b.top - r.top));
    return r;
}

extern "C" __global__ void __launch_bounds__(1024) entry(i32 by_x, const T* x, T* out, i64 n, i64 out_stride, i64 x_stride,
                                 const __grid_constant__ Geo<2> kept) {
    __shared__ Sum room[1024];
    const Place p = place(by_x);
    for (i64 block = blockIdx.x; block * p.rows < kept.n; block += gridDim.x) {
        const i64 row = block * p.rows + p.row;
        const bool live = row < kept.n;
        i64 at[2];
        locate(kept, live ? row : 0, at);
        Sum carry;
        carry.top = __longlong_as_double(0xfff0000000000000ll);
        carry.sum = 0;
        for (i64 base = 0; base < n; base += p.across) {
            const i64 i = base + p.i;
            const bool inside = live && i < n;
            Sum v;
            v.top = inside ? (f64)wide(x[at[1] + i * x_stride]) : 0;
            v.sum = inside ? 1 : 0;
            room[p.i * p.rows + p.row] = v;
            __syncthreads();
            for (int s = 1; s < p.across; s <<= 1) {
                Sum left = v;
                if (p.i >= s) left = room[(p.i - s) * p.rows + p.row];
                __syncthreads();
                if (p.i >= s) room[p.i * p.rows + p.row] = v = join(left, v);
                __syncthreads();
            }
            v = join(carry, v);
            if (inside)
                put(out + at[0] + i * out_stride, v.sum == 0 || v.top - v.top != 0 ? v.top : v.top + log(v.sum));
            carry = join(carry, room[(p.across - 1) * p.rows + p.row]);
            __syncthreads();
        }
    }
}
