// A tiled matrix product for what cuBLASLt does not take: integers, odd strides. D = alpha * A @ B, batch in blockIdx.z.
// Operands of the batch: d, a, b.

#define TILE 16

extern "C" __global__ void entry(const T* a, const T* b, T* d, i64 m, i64 n, i64 k, i64 a_row, i64 a_col, i64 b_row,
                                 i64 b_col, i64 d_row, i64 d_col, C alpha, const __grid_constant__ Geo<3> batch) {
    __shared__ C left[TILE][TILE + 1], right[TILE][TILE + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const i64 columns = (n + TILE - 1) / TILE;
    for (i64 z = blockIdx.z; z < batch.n; z += gridDim.z) {
        i64 at[3];
        locate(batch, z, at);
        for (i64 tile = blockIdx.x; tile < columns * ((m + TILE - 1) / TILE); tile += gridDim.x) {
            const i64 row = tile / columns * TILE + y, col = tile % columns * TILE + x;
            C acc = (C)0;
            for (i64 base = 0; base < k; base += TILE) {
                left[y][x] = row < m && base + x < k ? get<C>(a + at[1] + row * a_row + (base + x) * a_col) : (C)0;
                right[y][x] = col < n && base + y < k ? get<C>(b + at[2] + (base + y) * b_row + col * b_col) : (C)0;
                __syncthreads();
#pragma unroll
                for (int i = 0; i < TILE; i++) acc += left[y][i] * right[i][x];
                __syncthreads();
            }
            if (row < m && col < n) put(d + at[0] + row * d_row + col * d_col, alpha * acc);
        }
    }
}
