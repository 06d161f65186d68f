// A sum of numbers that were rounded before: the compiler makes no fused product and sum of it.
#if defined(__CUDACC_RTC__)
D f32 plus(f32 a, f32 b) { return __fadd_rn(a, b); }
D f64 plus(f64 a, f64 b) { return __dadd_rn(a, b); }
#else
template <class A> D A plus(A a, A b) { return a + b; }
#endif
