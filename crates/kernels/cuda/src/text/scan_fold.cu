// SCAN's accumulator: a number.

D A fold(A a, A b) {
#if KIND == 0
    return a + b;
#elif KIND == 1
    return a * b;
#elif KIND == 2
    return greater(a, b);
#else
    return smaller(a, b);
#endif
}

D A read(const T* p) { return get<A>(p); }
D A result(A a) { return a; }
