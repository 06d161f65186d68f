// libnccl for the emulator: ranks that are processes or threads of one host exchange data through a file in shared memory.
//
// Strict where the real library is, or may be: operations run in the order of their stream and wait there for all ranks; a send
// waits for its receive; a call on a communicator that has not taken the last one is refused, and half of the calls are taken
// only when somebody asks for the communicator's state. Stricter than the real one: ranks whose operations differ get an error
// in place of a hang, and addresses must be of the communicator's device.
// EMULATOR_NCCL_VERSION: the release it says it is (22705). EMULATOR_NCCL_FAILS_AFTER: after so many operations, communicators
// of this process have an error.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "answer.h"

typedef int Result;
enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum Kind { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };
static const char* NAMES[] = {"AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "Send", "Recv"};
static const int MOST_RANKS = 64;
// Reserved for what a rank brings to a collective, and for a message; only what is used takes memory.
static const size_t COLLECTIVE = (size_t)256 << 20, MESSAGE = (size_t)64 << 20;

struct UniqueId { char text[128]; };
struct Config {
    size_t size;
    unsigned magic, version;
    int blocking;
};
struct Stamp {
    int kind, type, op, root;
    uint64_t count;
    bool operator==(const Stamp& o) const {
        return kind == o.kind && type == o.type && op == o.op && root == o.root && count == o.count;
    }
    std::string words() const {
        char text[128];
        snprintf(text, sizeof text, "%s(type %d, op %d, root %d, count %llu)", NAMES[kind], type, op, root, (unsigned long long)count);
        return text;
    }
};
// What the ranks of a communicator share.
struct Member {
    std::atomic<int> has_joined;
    int pid, device;
    char host[64];
    // Collectives that it has brought its data to, and that it has read all data of.
    std::atomic<uint64_t> posted, finished;
    Stamp stamp;
};
struct Channel {
    std::atomic<uint64_t> posted, taken;
    Stamp stamp;
};
struct Shared {
    Member members[MOST_RANKS];
    Channel channels[MOST_RANKS][MOST_RANKS];
};

struct Launch;
struct Comm {
    Shared* shared = nullptr;
    char* data = nullptr;
    size_t bytes = 0;
    int fd = -1, rank = 0, n = 0, device = 0;
    std::string path;
    std::atomic<bool> is_aborted{false};
    std::atomic<int> error{SUCCESS}, outstanding{0};
    std::mutex lock;
    std::string text;
    // Of the calls: whether all ranks are known to be there, and what was called but not taken yet.
    bool is_formed = false, is_finalizing = false;
    std::vector<std::shared_ptr<Launch>> deferred;
    int patience = 0;
    uint64_t n_collectives = 0, n_sent[MOST_RANKS] = {}, n_received[MOST_RANKS] = {};
    uint64_t noise;

    ~Comm() {
        if (shared) munmap(shared, bytes);
        if (fd >= 0) close(fd);
    }
    void fail(int code, const std::string& why) {
        std::lock_guard<std::mutex> _(lock);
        if (error == SUCCESS) {
            text = why;
            error = code;
        }
    }
    uint64_t draw() {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        return noise >> 16;
    }
    char* place(int member) { return data + (size_t)member * COLLECTIVE; }
    char* message(int from, int to) { return data + n * COLLECTIVE + ((size_t)from * n + to) * MESSAGE; }
    // Memory behind a place, or an error.
    bool back(char* at, size_t bytes, size_t most) {
        if (bytes > most) return fail(INTERNAL_ERROR, "the emulated NCCL moves no more than 256 MB at a time"), false;
        if (bytes && posix_fallocate(fd, at - (char*)shared, bytes)) return fail(SYSTEM_ERROR, "no shared memory is left"), false;
        return true;
    }
};
// One call: its own data, then what it waits for.
struct Call {
    Stamp stamp;
    const char* from;
    char* to;
    int peer;
    uint64_t turn = 0;
    int state = 0;
};
struct Launch {
    std::shared_ptr<Comm> comm;
    void* stream;
    std::vector<Call> calls;
    unsigned n_tries = 0;
};

static void* driver(const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
static thread_local std::string last;
static Result said(Result code, const std::string& why) {
    last = why;
    return code;
}
static long number(const char* name, long otherwise) {
    const char* text = getenv(name);
    return text ? atol(text) : otherwise;
}
static std::map<Comm*, std::shared_ptr<Comm>>& live() { static auto* m = new std::map<Comm*, std::shared_ptr<Comm>>; return *m; }
static std::mutex& registry() { static auto* m = new std::mutex; return *m; }
static std::shared_ptr<Comm> find(Comm* c) {
    std::lock_guard<std::mutex> _(registry());
    const auto at = live().find(c);
    return at == live().end() ? nullptr : at->second;
}
static std::shared_ptr<Comm> forget(Comm* c) {
    std::lock_guard<std::mutex> _(registry());
    const auto at = live().find(c);
    if (at == live().end()) return nullptr;
    std::shared_ptr<Comm> found = at->second;
    live().erase(at);
    return found;
}

static size_t width(int type) {
    static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return widths[type];
}
template <class T> static double get(const void* p, uint64_t i) { return (double)((const T*)p)[i]; }
static double half_get(int type, const void* p, uint64_t i) {
    if (type == 6) return (double)((const _Float16*)p)[i];
    const uint32_t bits = (uint32_t)((const uint16_t*)p)[i] << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static void half_put(int type, void* p, uint64_t i, float f) {
    if (type == 6) {
        ((_Float16*)p)[i] = (_Float16)f;
        return;
    }
    uint32_t b;
    memcpy(&b, &f, 4);
    b = f != f ? 0x7fc00000 : b + 0x7fff + ((b >> 16) & 1);
    ((uint16_t*)p)[i] = (uint16_t)(b >> 16);
}
template <class T> static T two(int op, T a, T b) {
    switch (op) {
        case 1: return a * b;
        case 2: return a > b ? a : b;
        case 3: return a < b ? a : b;
        default: return a + b;
    }
}
template <class T> static void fold(int op, char* to, const std::vector<const char*>& parts, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        T all = ((const T*)parts[0])[i];
        for (size_t r = 1; r < parts.size(); r++) all = two<T>(op, all, ((const T*)parts[r])[i]);
        ((T*)to)[i] = op == 4 ? (T)(all / (T)parts.size()) : all;
    }
}
// In the order of the ranks; halves in single precision, rounded once.
static void reduce(int type, int op, char* to, const std::vector<const char*>& parts, uint64_t count) {
    switch (type) {
        case 0: return fold<int8_t>(op, to, parts, count);
        case 1: return fold<uint8_t>(op, to, parts, count);
        case 2: return fold<int32_t>(op, to, parts, count);
        case 3: return fold<uint32_t>(op, to, parts, count);
        case 4: return fold<int64_t>(op, to, parts, count);
        case 5: return fold<uint64_t>(op, to, parts, count);
        case 7: return fold<float>(op, to, parts, count);
        case 8: return fold<double>(op, to, parts, count);
        default:
            for (uint64_t i = 0; i < count; i++) {
                float all = (float)half_get(type, parts[0], i);
                for (size_t r = 1; r < parts.size(); r++) all = two<float>(op, all, (float)half_get(type, parts[r], i));
                half_put(type, to, i, op == 4 ? all / parts.size() : all);
            }
    }
}

// A process that has ended but was not waited for has ended.
static bool is_gone(int pid) {
    char path[32], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE* f = fopen(path, "r");
    if (!f) return true;
    const int n = fscanf(f, "%*d (%*[^)]) %c", &state);
    fclose(f);
    return n == 1 && (state == 'Z' || state == 'X');
}
// Takes a collective further. What it reads, it reads when its stream has come to it.
static void advance_collective(Comm& c, Call& call) {
    Member* all = c.shared->members;
    const Stamp& s = call.stamp;
    const size_t w = width(s.type), one = s.count * w;
    const bool brings = s.kind != BROADCAST || s.root == c.rank;
    const size_t mine = brings ? (s.kind == REDUCE_SCATTER ? one * c.n : one) : 0;
    if (call.state == 0) {
        for (int r = 0; r < c.n; r++)
            if (all[r].finished < call.turn - 1) return;
        if (!c.back(c.place(c.rank), mine, COLLECTIVE)) return;
        memcpy(c.place(c.rank), call.from, mine);
        all[c.rank].stamp = s;
        all[c.rank].posted = call.turn;
        call.state = 1;
    }
    for (int r = 0; r < c.n; r++)
        if (all[r].posted < call.turn) return;
    for (int r = 0; r < c.n; r++)
        if (!(all[r].stamp == s))
            return c.fail(INVALID_USAGE, "operation " + std::to_string(call.turn) + ": rank " + std::to_string(r) + " called " +
                                             all[r].stamp.words() + ", rank " + std::to_string(c.rank) + " called " + s.words());
    std::vector<const char*> parts;
    for (int r = 0; r < c.n; r++) parts.push_back(c.place(r) + (s.kind == REDUCE_SCATTER ? one * c.rank : 0));
    switch (s.kind) {
        case BROADCAST: memcpy(call.to, parts[s.root], one); break;
        case ALL_GATHER:
            for (int r = 0; r < c.n; r++) memcpy(call.to + one * r, parts[r], one);
            break;
        case REDUCE:
            if (s.root != c.rank) break;
        default: reduce(s.type, s.op, call.to, parts, s.count);
    }
    all[c.rank].finished = call.turn;
    call.state = 2;
}
static void advance_message(Comm& c, Call& call) {
    const bool sends = call.stamp.kind == SEND;
    const int from = sends ? c.rank : call.peer, to = sends ? call.peer : c.rank;
    Channel& channel = c.shared->channels[from][to];
    const size_t bytes = call.stamp.count * width(call.stamp.type);
    if (sends && call.state == 0) {
        if (channel.taken < call.turn - 1 || !c.back(c.message(from, to), bytes, MESSAGE)) return;
        memcpy(c.message(from, to), call.from, bytes);
        channel.stamp = call.stamp;
        channel.posted = call.turn;
        call.state = 1;
    }
    if (sends) {
        if (channel.taken >= call.turn) call.state = 2;
        return;
    }
    if (channel.posted < call.turn) return;
    const Stamp& sent = channel.stamp;
    if (sent.count != call.stamp.count || sent.type != call.stamp.type)
        return c.fail(INVALID_USAGE, "rank " + std::to_string(from) + " called " + sent.words() + ", rank " +
                                         std::to_string(to) + " called " + call.stamp.words());
    memcpy(call.to, c.message(from, to), bytes);
    channel.taken = call.turn;
    call.state = 2;
}
// Called when the stream has come to it, again and again until it returns 1.
static int progress(void* what) {
    Launch& launch = *(Launch*)what;
    Comm& c = *launch.comm;
    bool done = true;
    for (Call& call : launch.calls) {
        if (call.state != 2 && !c.is_aborted && c.error == SUCCESS)
            call.stamp.kind >= SEND ? advance_message(c, call) : advance_collective(c, call);
        done = done && call.state == 2;
    }
    // A kernel that met an error ends when its communicator is aborted.
    if (c.is_aborted) done = true;
    if (!done && c.error == SUCCESS && ++launch.n_tries % 64 == 0)
        for (int r = 0; r < c.n; r++)
            if (is_gone(c.shared->members[r].pid))
                c.fail(REMOTE_ERROR, "rank " + std::to_string(r) + " is gone (process " + std::to_string(c.shared->members[r].pid) + ")");
    if (done) c.outstanding--;
    return done;
}

// A launch with the turns of its calls, in the order in which launches were made.
static void* begin(void* what) {
    Launch* launch = new Launch(*(Launch*)what);
    Comm& c = *launch->comm;
    for (Call& call : launch->calls)
        call.turn = call.stamp.kind == SEND   ? ++c.n_sent[call.peer]
                    : call.stamp.kind == RECV ? ++c.n_received[call.peer]
                                              : ++c.n_collectives;
    c.outstanding++;
    return launch;
}
static Result issue(const std::shared_ptr<Launch>& launch) {
    typedef int (*Issue)(void*, int (*)(void*), void*, void* (*)(void*), void (*)(void*));
    static const Issue emulator = (Issue)driver("emulator_issue_waiting");
    if (!emulator) return said(CUDA_ERROR, "this is no emulated device");
    static std::atomic<long> n_issued{0};
    static const long limit = number("EMULATOR_NCCL_FAILS_AFTER", -1);
    if (limit >= 0 && n_issued++ >= limit) launch->comm->fail(REMOTE_ERROR, "a planted failure");
    const auto free = [](void* what) { delete (Launch*)what; };
    if (emulator(launch->stream, progress, new Launch(*launch), begin, free)) return said(CUDA_ERROR, "the stream takes no operation");
    return SUCCESS;
}
static Result take(const std::shared_ptr<Launch>& launch) {
    Comm& c = *launch->comm;
    if (c.draw() & 1) return issue(launch);
    c.deferred.push_back(launch);
    c.patience = (int)(c.draw() % 3);
    return IN_PROGRESS;
}

static thread_local int depth;
static thread_local Result group_error;
static thread_local std::vector<std::shared_ptr<Launch>> group;

static Result called(Comm* handle, void* stream, Call call) {
    typedef Result (*Attribute)(void*, int, uint64_t);
    static const Attribute attribute = (Attribute)driver("cuPointerGetAttribute");
    const std::shared_ptr<Comm> c = find(handle);
    const auto bad = [&](const std::string& why) { return group_error = said(INVALID_ARGUMENT, NAMES[call.stamp.kind] + (": " + why)); };
    if (!c) return bad("no communicator");
    if (c->error != SUCCESS) return said(c->error, c->text);
    if (!c->is_formed || !c->deferred.empty())
        return bad("Attempt to use communicator before the previous operation returned ncclSuccess");
    const Stamp& s = call.stamp;
    if (s.type < 0 || s.type > 9 || s.op < 0 || s.op > 4) return bad("invalid type or reduction");
    const int root = s.kind >= SEND ? call.peer : s.root;
    if (root < 0 || root >= c->n) return bad("invalid root " + std::to_string(root));
    if (s.count == 0) return SUCCESS;
    for (const void* p : {(const void*)call.from, (const void*)call.to}) {
        int device = -1;
        if (p && (attribute(&device, 9, (uint64_t)p) || device != c->device)) return bad("an address is not of the communicator's device");
    }
    if (depth == 0) {
        const std::shared_ptr<Launch> launch(new Launch{c, stream, {call}});
        return take(launch);
    }
    for (const auto& launch : group)
        if (launch->comm == c && launch->stream == stream) return launch->calls.push_back(call), SUCCESS;
    group.emplace_back(new Launch{c, stream, {call}});
    return SUCCESS;
}

static std::string folder() {
    struct stat found;
    return stat("/dev/shm", &found) == 0 ? "/dev/shm" : "/tmp";
}
// Whether all ranks are there; then whether they may form a communicator.
static Result formed(Comm& c) {
    for (int r = 0; r < c.n; r++)
        if (!c.shared->members[r].has_joined) return IN_PROGRESS;
    unlink(c.path.c_str());
    for (int a = 0; a < c.n; a++)
        for (int b = 0; b < a; b++) {
            const Member &x = c.shared->members[a], &y = c.shared->members[b];
            const bool allowed = number("EMULATOR_NCCL_VERSION", 22705) >= 23000 && number("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1;
            if (x.device == y.device && strcmp(x.host, y.host) == 0 && !allowed)
                return c.fail(INVALID_USAGE, "Duplicate GPU detected : rank " + std::to_string(b) + " and rank " + std::to_string(a) +
                                                 " both on CUDA device " + std::to_string(x.device)),
                       INVALID_USAGE;
        }
    c.is_formed = true;
    return SUCCESS;
}

extern "C" {
Result ncclGetVersion(int* v) { *v = (int)number("EMULATOR_NCCL_VERSION", 22705); return SUCCESS; }
const char* ncclGetErrorString(Result code) {
    switch (code) {
        case SUCCESS: return "no error";
        case CUDA_ERROR: return "unhandled cuda error";
        case SYSTEM_ERROR: return "unhandled system error";
        case INTERNAL_ERROR: return "internal error";
        case INVALID_ARGUMENT: return "invalid argument";
        case INVALID_USAGE: return "invalid usage";
        case REMOTE_ERROR: return "remote process exited or there was a network error";
        case IN_PROGRESS: return "NCCL operation in progress";
        default: return "unknown result code";
    }
}
const char* ncclGetLastError(Comm* handle) {
    if (const auto c = find(handle)) {
        std::lock_guard<std::mutex> _(c->lock);
        if (!c->text.empty()) last = c->text;
    }
    return last.c_str();
}
Result ncclGetUniqueId(UniqueId* id) {
    memset(id, 0, sizeof *id);
    uint64_t words[2];
    FILE* f = fopen("/dev/urandom", "r");
    if (!f || fread(words, sizeof words, 1, f) != 1) return SYSTEM_ERROR;
    fclose(f);
    snprintf(id->text, sizeof id->text, "oneflow-nccl-%016llx%016llx", (unsigned long long)words[0], (unsigned long long)words[1]);
    return SUCCESS;
}
Result ncclCommInitRankConfig(Comm** out, int n, UniqueId id, int rank, Config* config) {
    typedef int (*Device)();
    typedef void (*Run)();
    const Device device = (Device)driver("emulator_device");
    const Run run = (Run)driver("emulator_run_by_itself");
    if (!device || !run) return said(CUDA_ERROR, "this is no emulated device");
    if (config->magic != 0xcafebeef) return said(INVALID_ARGUMENT, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    if (config->version < 21400 || config->size < sizeof(Config) || (config->blocking != 0 && config->blocking != 1))
        return said(INVALID_ARGUMENT, "invalid config");
    if (n < 1 || n > MOST_RANKS || rank < 0 || rank >= n || strncmp(id.text, "oneflow-nccl-", 13)) return said(INVALID_ARGUMENT, "invalid rank or id");
    if (device() < 0) return said(CUDA_ERROR, "no current device");
    run();
    std::shared_ptr<Comm> c(new Comm);
    c->rank = rank;
    c->n = n;
    c->device = device();
    c->noise = (uint64_t)(number("EMULATOR_SEED", 1) * 7919 + rank + 1) * 0x9e3779b97f4a7c15ull | 1;
    c->path = folder() + "/" + id.text;
    const size_t head = (sizeof(Shared) + 4095) / 4096 * 4096;
    c->bytes = head + n * COLLECTIVE + (size_t)n * n * MESSAGE;
    c->fd = open(c->path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->fd < 0 || ftruncate(c->fd, c->bytes)) return said(SYSTEM_ERROR, "no shared memory");
    void* m = mmap(nullptr, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, c->fd, 0);
    if (m == MAP_FAILED) return said(SYSTEM_ERROR, "no shared memory");
    c->shared = (Shared*)m;
    c->data = (char*)m + head;
    Member& me = c->shared->members[rank];
    me.pid = getpid();
    me.device = c->device;
    const char* host = getenv("NCCL_HOSTID");
    snprintf(me.host, sizeof me.host, "%s", host ? host : "");
    me.has_joined = 1;
    {
        std::lock_guard<std::mutex> _(registry());
        live()[c.get()] = c;
    }
    *out = c.get();
    if (config->blocking == 0) return IN_PROGRESS;
    Result r;
    while ((r = formed(*c)) == IN_PROGRESS) usleep(100);
    return r;
}
Result ncclCommGetAsyncError(Comm* handle, Result* state) {
    if (const int code = answer_of("ncclCommGetAsyncError")) return *state = code, 0;
    const auto c = find(handle);
    if (!c) return INVALID_ARGUMENT;
    *state = c->error;
    if (c->error != SUCCESS) return SUCCESS;
    if (!c->is_formed) return *state = formed(*c), SUCCESS;
    if (c->is_finalizing && c->outstanding > 0) *state = IN_PROGRESS;
    if (!c->deferred.empty()) {
        if (c->patience-- > 0) return *state = IN_PROGRESS, SUCCESS;
        const auto launches = std::move(c->deferred);
        c->deferred.clear();
        for (const auto& launch : launches)
            if (const Result r = issue(launch)) c->fail(r, last);
        *state = c->error;
    }
    return SUCCESS;
}
Result ncclCommFinalize(Comm* handle) {
    const auto c = find(handle);
    if (!c || !c->is_formed) return INVALID_ARGUMENT;
    if (c->error != SUCCESS) return c->error;
    c->is_finalizing = true;
    return IN_PROGRESS;
}
Result ncclCommDestroy(Comm* handle) {
    const auto c = forget(handle);
    if (!c) return INVALID_ARGUMENT;
    c->is_aborted = true;
    return SUCCESS;
}
Result ncclCommAbort(Comm* handle) {
    const auto c = forget(handle);
    if (!c) return INVALID_ARGUMENT;
    c->is_aborted = true;
    c->deferred.clear();
    unlink(c->path.c_str());
    return SUCCESS;
}
Result ncclGroupStart() {
    if (depth++ == 0) {
        group.clear();
        group_error = SUCCESS;
    }
    return SUCCESS;
}
Result ncclGroupEnd() {
    if (depth == 0) return said(INVALID_USAGE, "ncclGroupEnd: not in a group call.");
    if (--depth > 0) return SUCCESS;
    const auto launches = std::move(group);
    group.clear();
    if (group_error != SUCCESS) return group_error;
    Result all = SUCCESS;
    for (const auto& launch : launches) {
        const Result r = take(launch);
        if (r != SUCCESS && (all == SUCCESS || all == IN_PROGRESS)) all = r;
    }
    return all;
}
Result ncclAllReduce(const char* from, char* to, size_t count, int type, int op, Comm* c, void* stream) {
    ANSWER("ncclAllReduce");
    return called(c, stream, Call{{ALL_REDUCE, type, op, 0, count}, from, to, 0});
}
Result ncclBroadcast(const char* from, char* to, size_t count, int type, int root, Comm* c, void* stream) {
    return called(c, stream, Call{{BROADCAST, type, 0, root, count}, from, to, 0});
}
Result ncclReduce(const char* from, char* to, size_t count, int type, int op, int root, Comm* c, void* stream) {
    return called(c, stream, Call{{REDUCE, type, op, root, count}, from, to, 0});
}
Result ncclAllGather(const char* from, char* to, size_t count, int type, Comm* c, void* stream) {
    return called(c, stream, Call{{ALL_GATHER, type, 0, 0, count}, from, to, 0});
}
Result ncclReduceScatter(const char* from, char* to, size_t count, int type, int op, Comm* c, void* stream) {
    return called(c, stream, Call{{REDUCE_SCATTER, type, op, 0, count}, from, to, 0});
}
Result ncclSend(const char* from, size_t count, int type, int peer, Comm* c, void* stream) {
    return called(c, stream, Call{{SEND, type, 0, 0, count}, from, nullptr, peer});
}
Result ncclRecv(char* to, size_t count, int type, int peer, Comm* c, void* stream) {
    return called(c, stream, Call{{RECV, type, 0, 0, count}, nullptr, to, peer});
}
}
