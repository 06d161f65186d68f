// Philox4x32-10 counted by call offset and global element index, the very arithmetic of the host's
// kernels (compiled without fused multiply-adds, so that the bits agree).

struct Words {
    u32 w[4];
};
D Words philox(u64 seed, u64 offset, u64 index) {
    u32 c0 = (u32)index, c1 = (u32)(index >> 32), c2 = (u32)offset, c3 = (u32)(offset >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int r = 0; r < 10; r++) {
        const u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Words w = {{c0, c1, c2, c3}};
    return w;
}
// A random call. `drawn`, in captured graphs: the offset to add, the seed that it is for, and the seed in its place.
struct RandomCall {
    u64 seed, offset;
};
D RandomCall random_call(u64 seed, u64 offset, const u64* drawn) {
    const bool moved = drawn && seed == drawn[1];
    RandomCall c = {moved ? drawn[2] : seed, moved ? offset + drawn[0] : offset};
    return c;
}
// The word of an element where four neighbours share a block.
D u32 packed_philox(u64 seed, u64 offset, u64 index) { return philox(seed, offset, index / 4).w[index % 4]; }
D f32 bits_to_float(i32 b) { return __int_as_float(b); }
D f64 uniform_f64(u32 low, u32 high) {
    return (f64)((((u64)high << 32) | low) >> 11) * (1.0 / 9007199254740992.0);
}
// Natural logarithm on (0, 1], normal numbers only.
D f32 ln_f32(f32 x) {
    const i32 b = __float_as_int(x), e = (b - 0x3f3504f3) >> 23;
    const f32 z = bits_to_float(b - (e << 23)) - 1.0f, z2 = z * z;
    f32 p = 7.0376836e-2f;
    p = p * z + -1.151461e-1f;
    p = p * z + 1.1676999e-1f;
    p = p * z + -1.2420141e-1f;
    p = p * z + 1.4249323e-1f;
    p = p * z + -1.6668058e-1f;
    p = p * z + 2.0000715e-1f;
    p = p * z + -2.4999994e-1f;
    p = p * z + 3.333333e-1f;
    const f32 n = (f32)e;
    const f32 tail = z2 * z * p + n * -2.1219444e-4f - 0.5f * z2;
    return z + tail + n * 0.6933594f;
}
// cos(2 pi u / 2^24).
D f32 cos_turns_f32(u32 u) {
    const i32 quarter = (i32)((u + (1u << 21)) >> 22);
    const f32 x = (f32)((i32)u - (quarter << 22)) * (6.2831855f / 16777216.0f), x2 = x * x;
    const f32 cos = 1.0f - 0.5f * x2 + x2 * x2 * (4.1666646e-2f + x2 * (-1.3887316e-3f + x2 * 2.4433157e-5f));
    const f32 sin = x + x * x2 * (-1.6666655e-1f + x2 * (8.332161e-3f + x2 * -1.9515296e-4f));
    const f32 v = (quarter & 1) == 0 ? cos : sin;
    return bits_to_float(__float_as_int(v) ^ (i32)((u32)((quarter + 1) & 2) << 30));
}
D f32 above_zero(u32 w) { return (f32)((i32)(w >> 8) + 1) * (1.0f / 16777216.0f); }
D f32 normal_f32(u32 w0, u32 w1) { return sqrtf(-2.0f * ln_f32(above_zero(w0))) * cos_turns_f32(w1 >> 8); }
