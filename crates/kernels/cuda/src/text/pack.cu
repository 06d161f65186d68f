// V neighbouring elements, read and written in accesses of at most sixteen bytes.

template <class T> struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Pack {
    T v[V];
};
// Those at p; where an operand has one number for all of them, that.
template <class T> D Pack<T> load_pack(const T* p, bool along) {
    if (along) return *(const Pack<T>*)p;
    Pack<T> r;
#pragma unroll
    for (int j = 0; j < V; j++) r.v[j] = *p;
    return r;
}
