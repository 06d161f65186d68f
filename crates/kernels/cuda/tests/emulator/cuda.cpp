// libcuda for the emulator: devices whose memory is the host's. Work is not done when it is issued: a stream keeps it until
// somebody waits, and in what order streams go on says EMULATOR_SEED, so that what depends on an order that nobody asked for
// shows. Device memory is poisoned when it is handed out, ends at a guard page and is unmapped when it is given back.
// EMULATOR_DEVICES: how many devices (1). EMULATOR_SEED 0: everything is done at once. EMULATOR_IDLE=1: nothing is done at all, on a
// device of many multiprocessors whose memory nobody touches: for counts of what real sizes would issue. EMULATOR_IDLE=2: launches are
// not even looked at: for the time that the host takes to issue them. Work of a captured stream is a graph's: its
// nodes run in any order that their dependencies allow, and calls that a capture forbids end it (capture.h).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <elf.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "answer.h"

typedef int Result;
typedef uint64_t Ptr;
static const int INVALID = 1, NO_MEMORY = 2, NO_CONTEXT = 201, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719;
static const int INVALID_HANDLE = 400, OUT_OF_RESOURCES = 701, MISALIGNED_ADDRESS = 716;
static int idleness() {
    static const int level = getenv("EMULATOR_IDLE") ? atoi(getenv("EMULATOR_IDLE")) : 0;
    return level;
}
static bool is_idle() { return idleness() > 0; }
static const size_t TOTAL = (size_t)(is_idle() ? 80 : 4) << 30;

// A point in a stream's work: `reached` counts the records that were executed, `recorded` those that were issued.
struct Point {
    uint64_t recorded = 0, reached = 0;
    std::chrono::steady_clock::time_point at;
};
struct Capture;
struct Event {
    int device;
    bool timed;
    std::shared_ptr<Point> point = std::make_shared<Point>();
    // Where it was recorded in a capture.
    std::shared_ptr<Capture> capture;
    std::set<size_t> nodes;
};
struct Work {
    // What it waits for; then what it does.
    std::shared_ptr<Point> after;
    uint64_t count;
    std::function<Result()> run;
    // Of work that waits for other processes: tried until it returns true.
    std::function<bool()> advance;
    bool is_record = false;
};
struct Stream {
    int device;
    std::deque<Work> queue;
    // The capture that it takes part in, and what its next work comes after there.
    std::shared_ptr<Capture> capture;
    std::set<size_t> last;
};
struct Device {
    int index;
    size_t in_use = 0;
};
struct Range {
    size_t bytes, mapped;
    int device;
};
struct Module {
    void* handle;
    int device;
};
struct Function {
    int (*launch)(const unsigned*, const unsigned*, unsigned, void**);
    void** (*copy)(void**);
    void (*free)(void**);
    void (*words)(void**, void (*)(void*, Ptr), void*);
    // The most threads of a launch, and the device whose code it is.
    unsigned threads;
    int device;
    unsigned shared;
    std::string name;
};

// One lock for everything; work runs with it held. Nothing here is destroyed: threads may outlive the process' end.
static std::recursive_mutex& lock() { static auto* m = new std::recursive_mutex; return *m; }
#define LOCKED std::lock_guard<std::recursive_mutex> _(lock())
static std::map<Ptr, Range>& memory() { static auto* m = new std::map<Ptr, Range>; return *m; }
static std::vector<Stream*>& streams() { static auto* v = new std::vector<Stream*>; return *v; }
static std::map<Ptr, size_t>& pinned_bytes() { static auto* v = new std::map<Ptr, size_t>; return *v; }
static thread_local Device* context;
static std::atomic<long> launches, shared_bytes;
static Result sticky;
// Names of the work that was issued, a line each, since somebody began to ask for them.
static bool names_are_kept;
static std::string& names() { static auto* s = new std::string; return *s; }
static void note(const std::string& name) {
    if (names_are_kept) names() += name + "\n";
}

static long number(const char* name, long otherwise) {
    const char* text = getenv(name);
    return text ? atol(text) : otherwise;
}
static int n_devices() { static const int n = (int)number("EMULATOR_DEVICES", 1); return n; }
static long& seed() { static long n = number("EMULATOR_SEED", 1); return n; }
static Device* devices() {
    static Device* all = [] {
        Device* d = new Device[n_devices()];
        for (int i = 0; i < n_devices(); i++) d[i].index = i;
        return d;
    }();
    return all;
}
// A start for `draw`: neighbouring seeds have nothing in common (SplitMix64).
static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) | 1;
}
static uint64_t& noise() { static uint64_t x = mixed(seed()); return x; }
static uint64_t draw() {
    uint64_t& x = noise();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x >> 16;
}
// After as many launches as EMULATOR_FAILS_AFTER says, everything fails until the process ends, as after an illegal address.
static Result failed() {
    static const char* limit = getenv("EMULATOR_FAILS_AFTER");
    if (limit && launches >= atol(limit)) return ILLEGAL_ADDRESS;
    return sticky;
}

#include "capture.h"

static bool is_free(const Stream* s) {
    const Work& w = s->queue.front();
    return !w.after || w.after->reached >= w.count;
}
// Returns false where the work waits for another process.
static bool step(Stream* s) {
    if (s->queue.front().advance && !s->queue.front().advance()) return false;
    Work w = std::move(s->queue.front());
    s->queue.pop_front();
    const Result r = w.run && (w.is_record || !is_idle()) ? w.run() : 0;
    if (r && !sticky) sticky = r;
    return true;
}
// Does work until `done`, of streams in an order of the seed's: `want` first, or anybody. Returns false where nobody can go on,
// or where all that could wait for other processes and the caller does not.
static bool run_until(Stream* want, const std::function<bool()>& done, bool waits) {
    const bool last = draw() & 1;
    std::set<Stream*> waiting;
    while (!done()) {
        std::vector<Stream*> able;
        for (Stream* s : streams())
            if (!s->queue.empty() && is_free(s) && !waiting.count(s)) able.push_back(s);
        if (able.empty()) {
            if (waiting.empty() || !waits) return false;
            // Held once: calls do not call each other. Whoever comes meanwhile may do the work.
            waiting.clear();
            lock().unlock();
            usleep(100);
            lock().lock();
            continue;
        }
        Stream* next = able[draw() % able.size()];
        // The others' work as late as can be, for half of the seeds.
        if (last && want && std::find(able.begin(), able.end(), want) != able.end()) next = want;
        if (!step(next)) waiting.insert(next);
    }
    return true;
}
static Result drain(Stream* s) { return run_until(s, [&] { return s->queue.empty(); }, true) ? failed() : LAUNCH_FAILED; }
static Result drain_all() {
    for (Stream* s : std::vector<Stream*>(streams()))
        if (Result r = drain(s)) return r;
    return failed();
}
static void run_some(uint64_t n) {
    uint64_t k = 0;
    run_until(nullptr, [&] { return k++ >= n; }, false);
}
static Stream* stream_of(void* s) {
    static Stream* legacy = new Stream{0};
    // The legacy stream comes after all that was issued before it.
    if ((uintptr_t)s <= 2) {
        drain_all();
        if (std::find(streams().begin(), streams().end(), legacy) == streams().end()) streams().push_back(legacy);
        return legacy;
    }
    return (Stream*)s;
}
static Result issue(void* stream, Work w) {
    if ((uintptr_t)stream <= 2 && is_any_captured()) return refuse_all(906);
    Stream* s = stream_of(stream);
    if (s->capture) return add_node(s, std::move(w.run));
    s->queue.push_back(std::move(w));
    // A long queue, and sometimes a short one, goes on by itself.
    if (seed() == 0 || s->queue.size() > 4096) {
        run_until(s, [&] { return s->queue.empty(); }, false);
        return failed();
    }
    if (draw() % 16 == 0) run_some(draw() % 8);
    return 0;
}
static const Range* range_of(Ptr p, size_t n) {
    auto at = memory().upper_bound(p);
    if (at == memory().begin()) return nullptr;
    --at;
    return p + n <= at->first + at->second.bytes ? &at->second : nullptr;
}
static bool is_pinned(Ptr p) {
    auto at = pinned_bytes().upper_bound(p);
    if (at == pinned_bytes().begin()) return false;
    --at;
    return p < at->first + at->second;
}

#include "virtual.h"

// Whether words of a launch's arguments are addresses of another device's memory.
struct Elsewhere {
    int device;
    bool found;
    static void see(void* of, Ptr word) {
        const Range* r = range_of(word, 1);
        if (r && r->device != ((Elsewhere*)of)->device) ((Elsewhere*)of)->found = true;
    }
};

extern "C" {
Result cuInit(unsigned) { return 0; }
Result cuDriverGetVersion(int* v) { *v = 13000; return 0; }
Result cuDeviceGetCount(int* n) { *n = n_devices(); return 0; }
Result cuDeviceGet(int* d, int i) { *d = i; return i >= 0 && i < n_devices() ? 0 : 101; }
Result cuDeviceGetName(char* out, int n, int) { snprintf(out, n, "emulated device"); return 0; }
Result cuDeviceTotalMem_v2(size_t* n, int) { *n = TOTAL; return 0; }
Result cuDeviceGetAttribute(int* v, int attribute, int) {
    switch (attribute) {
        case 75: *v = 8; return 0;   // compute capability, major
        case 76: *v = 0; return 0;   // minor
        case 16: *v = is_idle() ? 132 : 4; return 0;  // multiprocessors
        case 102: *v = 1; return 0;  // virtual memory
        default: *v = 0; return 0;
    }
}
Result cuDevicePrimaryCtxRetain(void** c, int d) { *c = &devices()[d]; return 0; }
Result cuDevicePrimaryCtxRelease_v2(int) { return 0; }
Result cuCtxGetCurrent(void** c) { *c = context; return 0; }
Result cuCtxSetCurrent(void* c) { context = (Device*)c; return 0; }
Result cuCtxSynchronize() {
    LOCKED;
    for (Stream* s : streams())
        if (s->capture && (!context || s->device == context->index)) return refuse(s->capture, 900);
    for (Stream* s : std::vector<Stream*>(streams()))
        if (!context || s->device == context->index)
            if (Result r = drain(s)) return r;
    return failed();
}
Result cuStreamCreate(void** s, unsigned) {
    ANSWER("cuStreamCreate");
    LOCKED;
    if (!context) return NO_CONTEXT;
    streams().push_back(new Stream{context->index});
    *s = streams().back();
    return 0;
}
// All streams have one priority: the order is the seed's.
Result cuStreamCreateWithPriority(void** s, unsigned flags, int priority) { return priority > 0 || priority < -5 ? INVALID : cuStreamCreate(s, flags); }
Result cuCtxGetStreamPriorityRange(int* least, int* greatest) { *least = 0; *greatest = -5; return 0; }
Result cuStreamSynchronize(void* s) {
    ANSWER("cuStreamSynchronize");
    LOCKED;
    if ((uintptr_t)s > 2 && ((Stream*)s)->capture) return refuse(((Stream*)s)->capture, 900);
    return drain(stream_of(s));
}
// Who asks lets some work be done, so that who asks again and again comes to an end.
Result cuStreamQuery(void* s) {
    LOCKED;
    if (is_captured(s)) return refuse(((Stream*)s)->capture, 900);
    if (Result r = unsafe_call()) return r;
    Stream* stream = stream_of(s);
    if (!stream->queue.empty()) run_some(draw() % 4);
    if (Result r = failed()) return r;
    return stream->queue.empty() ? 0 : NOT_READY;
}
Result cuStreamWaitEvent(void* s, void* e, unsigned) {
    ANSWER("cuStreamWaitEvent");
    LOCKED;
    Event* event = (Event*)e;
    if (event->capture || ((uintptr_t)s > 2 && ((Stream*)s)->capture)) return join((Stream*)s, event);
    return issue(s, Work{event->point, event->point->recorded, nullptr});
}
Result cuEventCreate(void** e, unsigned flags) {
    if (!context) return NO_CONTEXT;
    *e = new Event{context->index, (flags & 2) == 0};
    return 0;
}
Result cuEventElapsedTime(float* ms, void* a, void* b) {
    LOCKED;
    const Event &first = *(Event*)a, &last = *(Event*)b;
    if (!first.timed || !last.timed || first.device != last.device) return 400;
    for (const Event* e : {&first, &last}) if (e->capture) return refuse(e->capture, 907);
    for (const Event* e : {&first, &last})
        if (e->point->reached < e->point->recorded) return NOT_READY;
    *ms = std::chrono::duration<float, std::milli>(last.point->at - first.point->at).count();
    return 0;
}
Result cuEventElapsedTime_v2(float* ms, void* a, void* b) { return cuEventElapsedTime(ms, a, b); }
Result cuEventRecord(void* e, void* s) {
    ANSWER("cuEventRecord");
    LOCKED;
    // An event marks streams of its own device alone.
    if (((Event*)e)->device != stream_of(s)->device && (uintptr_t)s > 2) return 400;
    Event* event = (Event*)e;
    event->capture = nullptr;
    if ((uintptr_t)s > 2 && ((Stream*)s)->capture) {
        event->capture = ((Stream*)s)->capture;
        event->nodes = ((Stream*)s)->last;
        return event->capture->is_refused ? 901 : 0;
    }
    std::shared_ptr<Point> point = event->point;
    const uint64_t count = ++point->recorded;
    return issue(s, Work{nullptr, 0, [point, count] {
        point->reached = count;
        point->at = std::chrono::steady_clock::now();
        return 0;
    }, nullptr, true});
}
// Who asks lets some work be done, so that who asks again and again comes to an end.
Result cuEventQuery(void* e) {
    ANSWER("cuEventQuery");
    LOCKED;
    if (((Event*)e)->capture) return refuse(((Event*)e)->capture, 907);
    if (Result r = unsafe_call()) return r;
    Point& point = *((Event*)e)->point;
    run_some(draw() % 4);
    if (Result r = failed()) return r;
    return point.reached >= point.recorded ? 0 : NOT_READY;
}
Result cuEventSynchronize(void* e) {
    LOCKED;
    if (((Event*)e)->capture) return refuse(((Event*)e)->capture, 907);
    if (Result r = unsafe_call()) return r;
    Point& point = *((Event*)e)->point;
    return run_until(nullptr, [&] { return point.reached >= point.recorded; }, true) ? failed() : LAUNCH_FAILED;
}
Result cuEventDestroy_v2(void* e) { LOCKED; delete (Event*)e; return 0; }
Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    LOCKED;
    *free = TOTAL - (context ? context->in_use : 0);
    *total = TOTAL;
    return 0;
}
Result cuMemAlloc_v2(Ptr* p, size_t n) {
    ANSWER("cuMemAlloc");
    LOCKED;
    if (!context) return NO_CONTEXT;
    if (n == 0) return INVALID;
    if (Result r = unsafe_call()) return r;
    if (context->in_use + n > TOTAL) return NO_MEMORY;
    const size_t page = 4096, whole = (n + page - 1) / page * page;
    char* m = (char*)mmap(nullptr, whole + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED || mprotect(m, whole, PROT_READ | PROT_WRITE) != 0) return NO_MEMORY;
    if (!is_idle()) memset(m, 0xCB, n);
    *p = (Ptr)m;
    memory()[*p] = Range{n, whole + page, context->index};
    context->in_use += n;
    return 0;
}
// The driver waits for the device before it takes memory back.
Result cuMemFree_v2(Ptr p) {
    LOCKED;
    auto at = memory().find(p);
    if (at == memory().end() || at->second.mapped == 0) return INVALID;
    if (Result r = unsafe_call()) return r;
    const Result r = drain_all();
    devices()[at->second.device].in_use -= at->second.bytes;
    munmap((void*)p, at->second.mapped);
    memory().erase(at);
    return r;
}
Result cuMemHostAlloc(void** p, size_t n, unsigned) {
    ANSWER("cuMemHostAlloc");
    LOCKED;
    if (Result r = unsafe_call()) return r;
    *p = calloc(1, n);
    pinned_bytes()[(Ptr)*p] = n;
    return *p ? 0 : NO_MEMORY;
}
Result cuMemFreeHost(void* p) {
    LOCKED;
    if (Result r = unsafe_call()) return r;
    if (!pinned_bytes().erase((Ptr)p)) return INVALID;
    const Result r = drain_all();
    free(p);
    return r;
}
Result cuMemHostGetDevicePointer_v2(Ptr* d, void* h, unsigned) { *d = (Ptr)h; return 0; }
// What a device reads and writes: its memory, and pinned memory of the host, which has one address for both.
static bool is_mapped(Ptr p, size_t n) { return range_of(p, n) || (is_pinned(p) && is_pinned(p + (n ? n - 1 : 0))); }
// Pageable memory is read before the call returns, pinned memory when the copy's turn comes.
Result cuMemcpyHtoDAsync_v2(Ptr d, const void* s, size_t n, void* stream) {
    ANSWER("cuMemcpyHtoD");
    LOCKED;
    if (Result r = failed()) return r;
    if (!is_mapped(d, n) || range_of((Ptr)s, 1)) return INVALID;
    if (is_pinned((Ptr)s)) return issue(stream, Work{nullptr, 0, [=] { memcpy((void*)d, s, n); return 0; }});
    if (is_captured(stream)) return refuse(((Stream*)stream)->capture, 900);
    if (is_idle()) return 0;
    auto staged = std::make_shared<std::vector<char>>((const char*)s, (const char*)s + n);
    return issue(stream, Work{nullptr, 0, [=] { memcpy((void*)d, staged->data(), n); return 0; }});
}
// To pageable memory it returns when the bytes are there.
Result cuMemcpyDtoHAsync_v2(void* d, Ptr s, size_t n, void* stream) {
    ANSWER("cuMemcpyDtoH");
    LOCKED;
    if (Result r = failed()) return r;
    if (!is_mapped(s, n) || range_of((Ptr)d, 1)) return INVALID;
    if (is_captured(stream) && !is_pinned((Ptr)d)) return refuse(((Stream*)stream)->capture, 900);
    if (Result r = issue(stream, Work{nullptr, 0, [=] { memcpy(d, (void*)s, n); return 0; }})) return r;
    return is_pinned((Ptr)d) ? 0 : drain(stream_of(stream));
}
Result cuMemcpyAsync(Ptr d, Ptr s, size_t n, void* stream) {
    ANSWER("cuMemcpy");
    LOCKED;
    if (Result r = failed()) return r;
    if (!is_mapped(s, n) || !is_mapped(d, n)) return INVALID;
    note("copy on the device");
    return issue(stream, Work{nullptr, 0, [=] { memmove((void*)d, (void*)s, n); return 0; }});
}
Result cuMemsetD8Async(Ptr d, unsigned char v, size_t n, void* stream) {
    ANSWER("cuMemsetD8");
    LOCKED;
    if (Result r = failed()) return r;
    if (!is_mapped(d, n)) return INVALID;
    if (idleness() == 2) return 0;
    note("memset");
    return issue(stream, Work{nullptr, 0, [=] { memset((void*)d, v, n); return 0; }});
}
// Of the attributes, the type of memory (2) and the device (9).
Result cuPointerGetAttribute(void* out, int attribute, Ptr p) {
    LOCKED;
    const Range* r = range_of(p, 1);
    if (attribute == 2 && (r || is_pinned(p))) return *(unsigned*)out = r ? 2 : 1, 0;
    if (attribute == 9 && r) return *(int*)out = r->device, 0;
    return INVALID;
}

Result cuModuleLoadData(void** out, const void* image) {
    ANSWER("cuModuleLoadData");
    {
        LOCKED;
        if (!context) return NO_CONTEXT;
        if (Result r = unsafe_call()) return r;
    }
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
    *out = new Module{handle, context->index};
    return 0;
}
Result cuModuleGetFunction(void** f, void* module, const char*) {
    Function* made = new Function{};
    void* handle = ((Module*)module)->handle;
    *(void**)&made->launch = dlsym(handle, "emulated_launch");
    *(void**)&made->copy = dlsym(handle, "emulated_copy");
    *(void**)&made->free = dlsym(handle, "emulated_free");
    *(void**)&made->words = dlsym(handle, "emulated_words");
    const unsigned* bounds = (const unsigned*)dlsym(handle, "emulated_bounds");
    made->threads = bounds ? *bounds : 0;
    made->device = ((Module*)module)->device;
    made->shared = 48 << 10;
    const char* name = (const char*)dlsym(handle, "emulated_name");
    made->name = name ? name : "kernel";
    *f = made;
    return made->launch && made->copy && made->free && made->words && bounds ? 0 : 500;
}
// Of the attributes, the most dynamic shared memory.
Result cuFuncSetAttribute(void* f, int attribute, int value) {
    if (attribute != 8 || value < 0 || value > 163 << 10) return INVALID;
    ((Function*)f)->shared = value;
    return 0;
}
Result cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                      void* stream, void** params, void**) {
    if (idleness() == 2) return 0;
    ANSWER("cuLaunchKernel");
    LOCKED;
    if (!context) return NO_CONTEXT;
    if (Result r = failed()) return r;
    Function* function = (Function*)f;
    const unsigned n = bx * by * bz;
    if (gx == 0 || gx > 0x7fffffffu || gy == 0 || gy > 65535 || gz == 0 || gz > 65535 || n == 0 || n > 1024 ||
        shared > function->shared)
        return INVALID;
    // There are registers for as many threads as the kernel was compiled for.
    if (n > function->threads) return OUT_OF_RESOURCES;
    // Code, stream and memory are of one device: nobody has asked for access to another's.
    if (context->index != function->device || ((uintptr_t)stream > 2 && ((Stream*)stream)->device != function->device))
        return INVALID_HANDLE;
    Elsewhere seen{function->device, false};
    function->words(params, Elsewhere::see, &seen);
    const bool is_elsewhere = seen.found;
    launches++;
    shared_bytes += shared;
    note(function->name);
    const std::shared_ptr<void*> bound(function->copy(params), function->free);
    return issue(stream, Work{nullptr, 0, [=] {
        const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
        if (is_elsewhere) return ILLEGAL_ADDRESS;
        const int failed = function->launch(grid, block, shared, bound.get());
        return failed == 3 ? MISALIGNED_ADDRESS : failed ? LAUNCH_FAILED : 0;
    }});
}
long emulator_launches() { return launches; }
// Names of what was issued since the last such question, as many bytes as there is room for; the first question begins it.
long emulator_issued(char* out, long room) {
    LOCKED;
    names_are_kept = true;
    const long n = std::min((long)names().size(), room);
    memcpy(out, names().data(), n);
    names().erase(0, n);
    return n;
}
// Bytes of dynamic shared memory that launches asked for, together.
long emulator_shared() { return shared_bytes; }
// Another order from now on, on a device as after a new start.
void emulator_reseed(long n) {
    LOCKED;
    drain_all();
    sticky = 0;
    seed() = n;
    noise() = mixed(n);
    char text[32];
    snprintf(text, sizeof text, "%ld", n);
    setenv("EMULATOR_SEED", text, 1);
}
// Work of a library: `run` is done when the stream comes to it, and each time that a graph does; `free` when it is not needed again.
Result emulator_issue(void* stream, void (*run)(void*), void* what, void (*free)(void*)) {
    LOCKED;
    const std::shared_ptr<void> kept(what, free);
    if (idleness() == 2) return 0;
    if (names_are_kept) {
        // The library that the work comes from.
        Dl_info from;
        const char* file = dladdr((void*)run, &from) ? strrchr(from.dli_fname, '/') : nullptr;
        note(file ? std::string(file + 1, strcspn(file + 1, ".")) : "a library");
    }
    return issue(stream, Work{nullptr, 0, [=] { run(kept.get()); return 0; }});
}
// Work of a library that waits for other processes: `advance` is called with what `begin` makes of `what` when the stream comes
// to it, until it returns 1. `begin` is called when the work is issued; for a graph, at each of its launches.
Result emulator_issue_waiting(void* stream, int (*advance)(void*), void* what, void* (*begin)(void*), void (*free)(void*)) {
    LOCKED;
    if (Result r = failed()) return r;
    const std::shared_ptr<void> kept(what, free);
    const auto make = [=]() -> std::function<bool()> {
        const std::shared_ptr<void> begun(begin(kept.get()), free);
        return [=] { return advance(begun.get()) != 0; };
    };
    if (is_captured(stream)) return add_node((Stream*)stream, nullptr, make);
    return issue(stream, Work{nullptr, 0, nullptr, make()});
}
// The index of the current device, or -1.
int emulator_device() { return context ? context->index : -1; }
// Work goes on a little from time to time, also when nobody waits here: other processes may.
void emulator_run_by_itself() {
    static std::once_flag once;
    std::call_once(once, [] {
        std::thread([] {
            for (;;) {
                usleep(1000);
                LOCKED;
                run_some(draw() % 8);
            }
        }).detach();
    });
}
Result cuGetErrorName(int code, const char** s) {
    static const std::map<int, const char*> names{
        {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {600, "CUDA_ERROR_NOT_READY"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {400, "CUDA_ERROR_INVALID_HANDLE"},
        {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
        {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
        {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
        {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {907, "CUDA_ERROR_CAPTURED_EVENT"},
        {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    };
    // As a driver that is older than the code.
    if (code > 999) return *s = nullptr, INVALID;
    static thread_local char text[32];
    snprintf(text, sizeof text, "emulated error %d", code);
    const auto known = names.find(code);
    *s = known == names.end() ? text : known->second;
    return 0;
}
Result cuGetErrorString(int code, const char** s) { return cuGetErrorName(code, s); }
}
