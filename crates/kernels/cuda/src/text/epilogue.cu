// MATMUL's epilogue where cuBLASLt has none: d = act(d + bias) + residual, in place. Operands: d, bias, residual.

D C act(C x) {
#if ACT == 1
    return x > (C)0 || x != x ? x : (C)0;
#elif ACT == 2
    return (C)0.5 * x * ((C)1 + ERF(x * (C)0.7071067811865476));
#elif ACT == 3
    return (C)0.5 * x * ((C)1 + TANH((C)0.7978845608028654 * (x + (C)0.044715 * x * x * x)));
#elif ACT == 4
    return x / ((C)1 + EXP(-x));
#elif ACT == 5
    C t = x + (C)3;
    t = t < (C)0 ? (C)0 : t > (C)6 ? (C)6 : t;
    return x * t / (C)6;
#else
    return x;
#endif
}

extern "C" __global__ void entry(T* d, const T* bias, const T* residual, const __grid_constant__ Geo<3> g) {
    for (i64 i = first_position(); i < g.n; i += position_step()) {
        i64 at[3];
        locate(g, i, at);
        C v = get<C>(d + at[0]);
        if (bias) v += get<C>(bias + at[1]);
        v = act(v);
        if (residual) v += get<C>(residual + at[2]);
        put(d + at[0], v);
    }
}
