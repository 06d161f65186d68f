// Virtual memory of the emulated driver: addresses are reserved apart from the memory that is mapped there. Unmapping waits for
// nobody, as with the real one: work that still uses the addresses then ends the process. Included by cuda.cpp.

struct Allocation {
    size_t bytes;
    int device;
};
static const size_t GRANULARITY = (size_t)2 << 20;
// Reserved addresses, and what is mapped where.
static std::map<Ptr, size_t>& reserved() { static auto* m = new std::map<Ptr, size_t>; return *m; }
static std::map<Ptr, Allocation*>& mapped() { static auto* m = new std::map<Ptr, Allocation*>; return *m; }

// Ranges of one device that lie side by side are one: tensors may lie across.
static void add_range(Ptr p, size_t bytes, int device) {
    auto next = memory().lower_bound(p);
    if (next != memory().begin()) {
        auto before = std::prev(next);
        if (before->second.mapped == 0 && before->first + before->second.bytes == p && before->second.device == device) {
            before->second.bytes += bytes;
            return;
        }
    }
    memory()[p] = Range{bytes, 0, device};
}

extern "C" {
Result cuMemGetAllocationGranularity(size_t* n, const void*, int) { *n = GRANULARITY; return 0; }
Result cuMemAddressReserve(Ptr* p, size_t n, size_t, Ptr, unsigned long long) {
    LOCKED;
    if (n == 0 || n % GRANULARITY) return INVALID;
    void* m = mmap(nullptr, n + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return NO_MEMORY;
    *p = ((Ptr)m + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    reserved()[*p] = n;
    return 0;
}
Result cuMemAddressFree(Ptr p, size_t n) {
    LOCKED;
    auto at = reserved().find(p);
    if (at == reserved().end() || at->second != n) return INVALID;
    munmap((void*)p, n);
    reserved().erase(at);
    return 0;
}
// Of the properties: the type (of a pinned device allocation), then handle types, then where it lies.
Result cuMemCreate(Allocation** out, size_t n, const int* properties, unsigned long long) {
    LOCKED;
    const int device = properties[3];
    if (n == 0 || n % GRANULARITY || properties[0] != 1 || properties[2] != 1 || device < 0 || device >= n_devices()) return INVALID;
    if (Result r = unsafe_call()) return r;
    if (devices()[device].in_use + n > TOTAL) return NO_MEMORY;
    devices()[device].in_use += n;
    *out = new Allocation{n, device};
    return 0;
}
Result cuMemRelease(Allocation* a) {
    LOCKED;
    for (const auto& m : mapped())
        if (m.second == a) return INVALID;
    devices()[a->device].in_use -= a->bytes;
    delete a;
    return 0;
}
Result cuMemMap(Ptr p, size_t n, size_t offset, Allocation* a, unsigned long long) {
    LOCKED;
    auto at = reserved().upper_bound(p);
    if (at == reserved().begin() || offset || n != a->bytes || p % GRANULARITY) return INVALID;
    --at;
    if (p + n > at->first + at->second || mapped().count(p) || range_of(p, 1)) return INVALID;
    mapped()[p] = a;
    return 0;
}
Result cuMemSetAccess(Ptr p, size_t n, const int* where, size_t count) {
    LOCKED;
    auto at = mapped().find(p);
    if (at == mapped().end() || at->second->bytes != n || count != 1 || where[1] != at->second->device) return INVALID;
    if (mprotect((void*)p, n, PROT_READ | PROT_WRITE)) return NO_MEMORY;
    if (!is_idle()) memset((void*)p, 0xCB, n);
    add_range(p, n, at->second->device);
    return 0;
}
Result cuMemUnmap(Ptr p, size_t n) {
    LOCKED;
    auto at = mapped().find(p);
    if (at == mapped().end() || at->second->bytes != n) return INVALID;
    if (Result r = unsafe_call()) return r;
    mapped().erase(at);
    // Gives the pages back, and leaves the addresses without any.
    mmap((void*)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    auto range = memory().upper_bound(p);
    if (range == memory().begin()) return 0;
    --range;
    const Ptr start = range->first, end = start + range->second.bytes;
    const int device = range->second.device;
    if (p >= end) return 0;
    memory().erase(range);
    if (start < p) memory()[start] = Range{p - start, 0, device};
    if (p + n < end) memory()[p + n] = Range{end - (p + n), 0, device};
    return 0;
}
}
