// x[i] *= even or odd, by the position: complex numbers scaled, and conjugated where the two differ in their signs.

extern "C" __global__ void entry(T* x, i64 n, T even, T odd) {
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) x[i] *= i & 1 ? odd : even;
}
