// A stable sort of (key, value) pairs of 64 bits by four bits a pass: count digits a tile, scan the counts, scatter.
// A tile is 256 threads of 8 consecutive items each, so that the order within a tile is the order of threads.

#define ITEMS 8
#define THREADS 256

#if PART == 0
extern "C" __global__ void __launch_bounds__(1024) entry(const u64* keys, i64 n, i32 shift, i64* counts, i64 tiles) {
    __shared__ u32 local[16];
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        if (threadIdx.x < 16) local[threadIdx.x] = 0;
        __syncthreads();
        const i64 first = tile * (ITEMS * THREADS);
        for (i64 i = first + threadIdx.x; i < first + ITEMS * THREADS && i < n; i += THREADS)
            atomicAdd(&local[(keys[i] >> shift) & 15], 1u);
        __syncthreads();
        // Digit-major, so that one scan gives every (digit, tile) its place.
        if (threadIdx.x < 16) counts[threadIdx.x * tiles + tile] = local[threadIdx.x];
        __syncthreads();
    }
}
#elif PART == 1
// Exclusive scan of n counts in place, by one block.
extern "C" __global__ void __launch_bounds__(1024) entry(i64* counts, i64 n) {
    __shared__ i64 room[1024];
    i64 carry = 0;
    for (i64 base = 0; base < n; base += 1024) {
        const i64 i = base + threadIdx.x;
        const i64 v = i < n ? counts[i] : 0;
        room[threadIdx.x] = v;
        __syncthreads();
        for (int s = 1; s < 1024; s <<= 1) {
            const i64 left = threadIdx.x >= s ? room[threadIdx.x - s] : 0;
            __syncthreads();
            room[threadIdx.x] += left;
            __syncthreads();
        }
        if (i < n) counts[i] = carry + room[threadIdx.x] - v;
        carry += room[1023];
        __syncthreads();
    }
}
#else
extern "C" __global__ void __launch_bounds__(1024) entry(const u64* keys, const u64* values, u64* keys_out, u64* values_out, i64 n, i32 shift,
                                 const i64* places, i64 tiles) {
    // Counts of each digit by thread, then their exclusive scan over threads.
    __shared__ u32 local[16][THREADS + 1];
    const u32 t = threadIdx.x;
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int d = 0; d < 16; d++) local[d][t] = 0;
        const i64 first = tile * (ITEMS * THREADS) + (i64)t * ITEMS;
        u64 k[ITEMS];
#pragma unroll
        for (int j = 0; j < ITEMS; j++)
            if (first + j < n) {
                k[j] = keys[first + j];
                local[(k[j] >> shift) & 15][t]++;
            }
        __syncthreads();
        for (int s = 1; s < THREADS; s <<= 1) {
            u32 left[16];
#pragma unroll
            for (int d = 0; d < 16; d++) left[d] = t >= s ? local[d][t - s] : 0;
            __syncthreads();
#pragma unroll
            for (int d = 0; d < 16; d++) local[d][t] += left[d];
            __syncthreads();
        }
        // Inclusive scans: a thread's items of a digit end at local[d][t].
#pragma unroll
        for (int j = ITEMS - 1; j >= 0; j--)
            if (first + j < n) {
                const u32 d = (u32)(k[j] >> shift) & 15;
                const i64 place = places[d * tiles + tile] + --local[d][t];
                keys_out[place] = k[j];
                values_out[place] = values[first + j];
            }
        __syncthreads();
    }
}
#endif
