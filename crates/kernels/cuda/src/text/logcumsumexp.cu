// LOGCUMSUMEXP's accumulator: the largest exponent and the sum relative to it, in f64. A sum of zero is of no element.

struct A {
    f64 top, sum;
};
D A fold(A a, A b) {
    if (b.sum == 0) return a;
    if (a.sum == 0) return b;
    A r;
    r.top = greater(a.top, b.top);
    // Equal infinities differ by nothing.
    r.sum = (a.top == r.top ? a.sum : a.sum * exp(a.top - r.top)) + (b.top == r.top ? b.sum : b.sum * exp(b.top - r.top));
    return r;
}
D A read(const T* p) {
    A a;
    a.top = (f64)wide(*p);
    a.sum = 1;
    return a;
}
D f64 result(A a) { return a.top - a.top != 0 ? a.top : a.top + log(a.sum); }
