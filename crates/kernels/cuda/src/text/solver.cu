// Around decompositions by a library. Matrices lie column by column, one behind the other.

#if PART == 0
// Zeros in the triangle that a factor does not have. An element has `words` words.
extern "C" __global__ void entry(u32* x, i64 total, i64 n, i32 words, i32 upper) {
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 k = (i64)blockIdx.x * blockDim.x + threadIdx.x; k < total; k += step) {
        const i64 i = k % n, j = k / n % n;
        if (upper ? i > j : i < j)
            for (int w = 0; w < words; w++) x[k * words + w] = 0;
    }
}
#elif PART == 1
// The order of rows that exchanges bring about: a thread an item.
extern "C" __global__ void entry(const i32* pivots, i64* out, i64 count, i64 k, i64 m, Fault* fault) {
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 b = (i64)blockIdx.x * blockDim.x + threadIdx.x; b < count; b += step) {
        i64* rows = out + b * m;
        for (i64 i = 0; i < m; i++) rows[i] = i;
        for (i64 i = 0; i < k; i++) {
            const i64 row = (i64)pivots[b * k + i] - 1;
            if (row < 0 || row >= m || i >= m) {
                report(fault, 6, row + 1, i, m);
                break;
            }
            const i64 x = rows[i];
            rows[i] = rows[row];
            rows[row] = x;
        }
    }
}
#elif PART == 2
// Reports the first item that was not solved.
extern "C" __global__ void entry(const i32* info, i64 count, i64 kind, i64 size, Fault* fault) {
    for (i64 b = 0; b < count; b++)
        if (info[b]) {
            report(fault, kind, b, count, size);
            break;
        }
}
#else
// Pivots of a factorisation that exchanges no rows.
extern "C" __global__ void entry(i64* pivots, i64 total, i64 k) {
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) pivots[i] = i % k + 1;
}
#endif
