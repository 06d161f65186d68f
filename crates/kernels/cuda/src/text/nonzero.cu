// NONZERO: coordinates of non-zero elements in row-major order. PART 0 counts by tile of 1024, PART 1 writes after the
// counts have been scanned.

D bool nonzero(const T* x, const Geo<1>& g, i64 i) {
    i64 at[1];
    locate(g, i, at);
    return wide(x[at[0]]) != 0;
}

extern "C" __global__ void __launch_bounds__(1024) entry(const T* x, i64* counts, i64 tiles, i64* out, i64 row_stride, i64 stride, i32 nd,
                                 const __grid_constant__ Geo<1> g, const __grid_constant__ Geo<1> shape) {
    __shared__ u32 room[1024];
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const i64 i = tile * 1024 + threadIdx.x;
        const u32 hit = i < g.n && nonzero(x, g, i) ? 1 : 0;
        room[threadIdx.x] = hit;
        __syncthreads();
        for (int s = 1; s < 1024; s <<= 1) {
            const u32 left = threadIdx.x >= s ? room[threadIdx.x - s] : 0;
            __syncthreads();
            room[threadIdx.x] += left;
            __syncthreads();
        }
#if PART == 0
        if (threadIdx.x == 1023) counts[tile] = room[1023];
#else
        if (hit) {
            i64* o = out + (counts[tile] + room[threadIdx.x] - 1) * row_stride;
            i64 rest = i;
            for (int d = nd - 1; d >= 0; d--) {
                o[d * stride] = rest % shape.sizes[d];
                rest /= shape.sizes[d];
            }
        }
#endif
        __syncthreads();
    }
}
