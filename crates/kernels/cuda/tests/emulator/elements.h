// Elements of tensors as doubles, by the numbers that the libraries give types: cuBLASLt and cuDNN agree on the first three. Included
// by the libraries that compute with them.
#include <cstdint>
#include <cstring>

enum { F32, F64, F16 };

// Every other type is bfloat16.
static double load(int64_t type, const void* p, int64_t i) {
    switch (type) {
        case F32: return ((const float*)p)[i];
        case F64: return ((const double*)p)[i];
        case F16: return (double)((const _Float16*)p)[i];
        default: {
            const uint32_t b = (uint32_t)((const uint16_t*)p)[i] << 16;
            float f;
            memcpy(&f, &b, 4);
            return f;
        }
    }
}
static void store(int64_t type, void* p, int64_t i, double v) {
    switch (type) {
        case F32: ((float*)p)[i] = (float)v; break;
        case F64: ((double*)p)[i] = v; break;
        case F16: ((_Float16*)p)[i] = (_Float16)(float)v; break;
        default: {
            float f = (float)v;
            uint32_t b;
            memcpy(&b, &f, 4);
            b = f != f ? 0x7fc00000 : b + 0x7fff + ((b >> 16) & 1);
            ((uint16_t*)p)[i] = (uint16_t)(b >> 16);
        }
    }
}
