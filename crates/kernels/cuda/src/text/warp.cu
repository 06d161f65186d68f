// What a warp does together, for devices of compute capability 8.0 and up: matrices of tensor cores, copies to shared memory
// that complete later. IS_BF16 says which of the 16-bit floats T is. The emulated device has the same by the same names.

#ifdef __CUDACC_RTC__
D u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Four 8 by 8 matrices: lane 8 m + r brings the address of row r of matrix m; lane 4 g + t gets elements 2 t and 2 t + 1 of
// row g of each, with `trans` those of column g.
D void load_matrices(u32 (&r)[4], const T* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
D void load_matrices_trans(u32 (&r)[4], const T* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// d[16][8] += a[16][16] * b[16][8]. Lane 4 g + t holds of d rows g and g + 8 at columns 2 t and 2 t + 1.
D void multiply(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if IS_BF16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
    asm(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#undef MMA
}

// Two numbers as T, the first in the low half.
D u32 pack(f32 low, f32 high) {
    u32 r;
#if IS_BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#endif
    return r;
}

// Two to the power of x, within two units in the last place.
D f32 exp2_fast(f32 x) {
    f32 r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// Copies sixteen bytes to shared memory, zeros where they are not `inside`; done when it has been waited for.
D void copy_async(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}
D void copy_async8(void* to, const void* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 8 : 0)
                 : "memory");
}
// Ends a group of copies.
D void copies_issued() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for this thread's groups but the last N. Other threads' copies are there after a barrier.
template <int N> D void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
D void load_matrices(u32 (&r)[4], const T* row) { emulator::ldmatrix(r, row, false); }
D void load_matrices_trans(u32 (&r)[4], const T* row) { emulator::ldmatrix(r, row, true); }
D void multiply(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { emulator::mma(d, a, b0, b1, IS_BF16); }
D u32 pack(f32 low, f32 high) {
    T two[2];
    put(two, low);
    put(two + 1, high);
    return two[0].v | (u32)two[1].v << 16;
}
D f32 exp2_fast(f32 x) { return exp2f(x); }
D void copy_async(void* to, const void* from, bool inside) { emulator::cp_async(to, from, 16, inside); }
D void copy_async8(void* to, const void* from, bool inside) { emulator::cp_async(to, from, 8, inside); }
D void copies_issued() { emulator::cp_async_commit(); }
template <int N> D void wait_copies() { emulator::cp_async_wait(N); }
#endif

// Over the four lanes that share a row of d.
D f32 greatest_of_row(f32 v) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
D f32 sum_of_row(f32 v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}
