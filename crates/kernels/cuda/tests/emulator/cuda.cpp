// libcuda for the emulator: one device whose memory is the host's, everything done at once. Device memory is poisoned when
// it is handed out, so that a kernel which reads what nobody wrote shows.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

typedef int Result;
typedef uint64_t Ptr;
static thread_local void* context;
static std::mutex lock;
static std::map<Ptr, size_t> memory;
static size_t in_use;
static const size_t TOTAL = (size_t)4 << 30;
static char stream_place[64];
static std::atomic<long> launches;
// After as many launches as EMULATOR_FAILS_AFTER says, everything fails until the process ends, as after an illegal address.
static bool broken() {
    static const char* limit = getenv("EMULATOR_FAILS_AFTER");
    return limit && launches >= atol(limit);
}
static const int ILLEGAL_ADDRESS = 700;

struct Module {
    void* handle;
};

extern "C" {
Result cuInit(unsigned) { return 0; }
Result cuDriverGetVersion(int* v) { *v = 13000; return 0; }
Result cuDeviceGetCount(int* n) { *n = 1; return 0; }
Result cuDeviceGet(int* d, int i) { *d = i; return i == 0 ? 0 : 101; }
Result cuDeviceGetName(char* out, int n, int) { snprintf(out, n, "emulated device"); return 0; }
Result cuDeviceTotalMem_v2(size_t* n, int) { *n = TOTAL; return 0; }
Result cuDeviceGetAttribute(int* v, int attribute, int) {
    switch (attribute) {
        case 75: *v = 8; return 0;   // compute capability, major
        case 76: *v = 0; return 0;   // minor
        case 16: *v = 4; return 0;   // multiprocessors
        default: *v = 0; return 0;
    }
}
Result cuDevicePrimaryCtxRetain(void** c, int) { *c = stream_place; return 0; }
Result cuDevicePrimaryCtxRelease_v2(int) { return 0; }
Result cuCtxGetCurrent(void** c) { *c = context; return 0; }
Result cuCtxSetCurrent(void* c) { context = c; return 0; }
Result cuCtxSynchronize() { return broken() ? ILLEGAL_ADDRESS : 0; }
Result cuStreamCreate(void** s, unsigned) { *s = malloc(64); return 0; }
Result cuStreamSynchronize(void*) { return broken() ? ILLEGAL_ADDRESS : 0; }
Result cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
Result cuEventCreate(void** e, unsigned) { *e = malloc(8); return 0; }
Result cuEventRecord(void*, void*) { return 0; }
Result cuEventQuery(void*) { return 0; }
Result cuEventSynchronize(void*) { return 0; }
Result cuEventDestroy_v2(void* e) { free(e); return 0; }
Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    std::lock_guard<std::mutex> _(lock);
    *free = TOTAL - in_use;
    *total = TOTAL;
    return 0;
}
Result cuMemAlloc_v2(Ptr* p, size_t n) {
    if (!context) return 201;
    std::lock_guard<std::mutex> _(lock);
    if (n == 0) return 1;
    if (in_use + n > TOTAL) return 2;
    void* m = nullptr;
    if (posix_memalign(&m, 512, n)) return 2;
    memset(m, 0xCB, n);
    *p = (Ptr)m;
    memory[*p] = n;
    in_use += n;
    return 0;
}
Result cuMemFree_v2(Ptr p) {
    std::lock_guard<std::mutex> _(lock);
    auto at = memory.find(p);
    if (at == memory.end()) return 1;
    in_use -= at->second;
    memory.erase(at);
    free((void*)p);
    return 0;
}
Result cuMemHostAlloc(void** p, size_t n, unsigned) { *p = calloc(1, n); return 0; }
Result cuMemHostGetDevicePointer_v2(Ptr* d, void* h, unsigned) { *d = (Ptr)h; return 0; }
// Whether a range lies inside one allocation of the device.
static bool on_device(Ptr p, size_t n) {
    std::lock_guard<std::mutex> _(lock);
    auto at = memory.upper_bound(p);
    if (at == memory.begin()) return false;
    --at;
    return p + n <= at->first + at->second;
}
Result cuMemcpyHtoDAsync_v2(Ptr d, const void* s, size_t n, void*) {
    if (broken()) return ILLEGAL_ADDRESS;
    if (!on_device(d, n) || on_device((Ptr)s, 1)) return 1;
    memcpy((void*)d, s, n);
    return 0;
}
Result cuMemcpyDtoHAsync_v2(void* d, Ptr s, size_t n, void*) {
    if (broken()) return ILLEGAL_ADDRESS;
    if (!on_device(s, n) || on_device((Ptr)d, 1)) return 1;
    memcpy(d, (void*)s, n);
    return 0;
}
Result cuMemcpyAsync(Ptr d, Ptr s, size_t n, void*) {
    if (broken()) return ILLEGAL_ADDRESS;
    if (!on_device(s, n) || !on_device(d, n)) return 1;
    memmove((void*)d, (void*)s, n);
    return 0;
}
Result cuMemsetD8Async(Ptr d, unsigned char v, size_t n, void*) {
    if (broken()) return ILLEGAL_ADDRESS;
    if (!on_device(d, n)) return 1;
    memset((void*)d, v, n);
    return 0;
}
Result cuPointerGetAttribute(void*, int, Ptr) { return 1; }

Result cuModuleLoadData(void** out, const void* image) {
    const Elf64_Ehdr* h = (const Elf64_Ehdr*)image;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return 200;
    const size_t n = h->e_shoff + (size_t)h->e_shnum * h->e_shentsize;
    const int fd = memfd_create("kernel", 0);
    for (size_t done = 0; done < n;) {
        const ssize_t w = write(fd, (const char*)image + done, n - done);
        if (w <= 0) return 999;
        done += w;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "emulator: %s\n", dlerror());
        return 209;
    }
    *out = new Module{handle};
    return 0;
}
Result cuModuleGetFunction(void** f, void* module, const char*) {
    *f = dlsym(((Module*)module)->handle, "emulated_launch");
    return *f ? 0 : 500;
}
Result cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned,
                      void*, void** params, void**) {
    typedef int (*Launch)(const unsigned*, const unsigned*, void**);
    if (!context) return 201;
    if (broken()) return ILLEGAL_ADDRESS;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    // The shim keeps a launch's state in globals.
    static std::mutex one;
    std::lock_guard<std::mutex> _(one);
    launches++;
    switch (((Launch)f)(grid, block, params)) {
        case 0: return 0;
        case 1: return 1;
        default: return 719;
    }
}
long emulator_launches() { return launches; }
Result cuGetErrorName(int code, const char** s) {
    static thread_local char text[32];
    snprintf(text, sizeof text, "emulated error %d", code);
    *s = text;
    return 0;
}
Result cuGetErrorString(int code, const char** s) { return cuGetErrorName(code, s); }
}
