// What the lanes of a warp do together: votes and shuffles, matrices of tensor cores, copies that complete later. Every lane
// must come to the same instruction; where one does not, the launch fails as after a barrier that not all threads reach.

namespace emulator {
// Waits for the warp and returns what each lane brought.
static unsigned char (*meet(const char* what, const void* data, size_t bytes))[32] {
    Fiber* me = current;
    Warp* warp = me->warp;
    unsigned char(*slots)[32] = warp->slots[me->turn++ & 1];
    memcpy(slots[me->id % 32], data, bytes);
    if (warp->arrived == 0)
        warp->what = what;
    else if (strcmp(warp->what, what) != 0)
        failure = "lanes of a warp are at different instructions";
    if (++warp->arrived == warp->n_lanes) {
        warp->arrived = 0;
        for (unsigned i = warp->first; i < warp->first + warp->n_lanes; i++)
            if (i != me->id) resume(i);
    } else {
        pause(IN_WARP);
    }
    return slots;
}
static unsigned lane() { return current->id % 32; }
template <class V> static V of_lane(unsigned char (*slots)[32], unsigned lane) {
    V v;
    memcpy(&v, slots[lane], sizeof v);
    return v;
}
static float half_to_float(unsigned short h, bool is_bf16) {
    if (is_bf16) return __uint_as_float((unsigned)h << 16);
    _Float16 f;
    memcpy(&f, &h, 2);
    return (float)f;
}

// Four 8 by 8 matrices of 16-bit elements: lane 8 m + r brings the address of row r of matrix m.
static void ldmatrix(unsigned* r, const void* row, bool transposed) {
    if ((uintptr_t)row % 16 != 0) failure = "ldmatrix: an address that is no multiple of 16 bytes";
    unsigned char(*slots)[32] = meet(transposed ? "ldmatrix.trans" : "ldmatrix", &row, sizeof row);
    const unsigned g = lane() / 4, t = lane() % 4;
    for (unsigned m = 0; m < 4; m++) {
        unsigned short two[2];
        for (unsigned k = 0; k < 2; k++) {
            const unsigned down = transposed ? 2 * t + k : g, right = transposed ? g : 2 * t + k;
            two[k] = of_lane<const unsigned short*>(slots, 8 * m + down)[right];
        }
        r[m] = two[0] | (unsigned)two[1] << 16;
    }
    // No lane may write what another has not read yet.
    meet("ldmatrix, read", "", 0);
}

// d[16][8] += a[16][16] * b[16][8], the lanes' shares as the instruction m16n8k16 has them.
static void mma(float* d, const unsigned* a, unsigned b0, unsigned b1, bool is_bf16) {
    unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    unsigned char(*slots)[32] = meet(is_bf16 ? "mma bf16" : "mma f16", mine, sizeof mine);
    const unsigned g = lane() / 4, t = lane() % 4;
    const auto half = [&](unsigned lane, unsigned word, unsigned which) {
        unsigned w;
        memcpy(&w, slots[lane] + 4 * word, 4);
        return half_to_float((unsigned short)(w >> 16 * which), is_bf16);
    };
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
        double sum = d[i];
        for (unsigned k = 0; k < 16; k++) {
            const unsigned holder = k % 8 / 2;
            sum += (double)half(row % 8 * 4 + holder, row / 8 + k / 8 * 2, k % 2) * half(column * 4 + holder, 4 + k / 8, k % 2);
        }
        d[i] = (float)sum;
    }
}

// Some bytes to shared memory, zeros where they are not `inside`. Done at once or when it is waited for, as the seed says.
static void run_copy(const AsyncCopy& c) {
    if (c.from) memcpy(c.to, c.from, c.bytes);
    else memset(c.to, 0, c.bytes);
}
static void cp_async(void* to, const void* from, unsigned bytes, bool inside) {
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) failure = "cp.async: an address that is not aligned";
    const AsyncCopy copy{to, inside ? from : nullptr, bytes};
    if (early_copies) run_copy(copy);
    else current->copies.back().push_back(copy);
}
static void cp_async_commit() { current->copies.emplace_back(); }
// Waits until at most `pending` committed groups are not done.
static void cp_async_wait(unsigned pending) {
    auto& groups = current->copies;
    const size_t committed = groups.size() - 1, n = committed > pending ? committed - pending : 0;
    for (size_t i = 0; i < n; i++)
        for (const AsyncCopy& c : groups[i]) run_copy(c);
    groups.erase(groups.begin(), groups.begin() + n);
}
}  // namespace emulator

static void emulator_whole(unsigned mask) {
    if (mask != 0xffffffffu) emulator::failure = "a shuffle of a part of a warp";
}
template <class V> static V __shfl_xor_sync(unsigned mask, V v, int with, int width = 32) {
    emulator_whole(mask);
    const unsigned lane = emulator::lane(), from = (lane ^ with) / width == lane / width ? lane ^ with : lane;
    return emulator::of_lane<V>(emulator::meet("shfl.bfly", &v, sizeof v), from);
}
template <class V> static V __shfl_down_sync(unsigned mask, V v, unsigned by, int width = 32) {
    emulator_whole(mask);
    const unsigned lane = emulator::lane(), from = lane % width + by < (unsigned)width ? lane + by : lane;
    return emulator::of_lane<V>(emulator::meet("shfl.down", &v, sizeof v), from);
}
template <class V> static V __shfl_up_sync(unsigned mask, V v, unsigned by, int width = 32) {
    emulator_whole(mask);
    const unsigned lane = emulator::lane(), from = lane % width >= by ? lane - by : lane;
    return emulator::of_lane<V>(emulator::meet("shfl.up", &v, sizeof v), from);
}
template <class V> static V __shfl_sync(unsigned mask, V v, int lane, int width = 32) {
    emulator_whole(mask);
    const unsigned from = emulator::lane() / width * width + lane % width;
    return emulator::of_lane<V>(emulator::meet("shfl.idx", &v, sizeof v), from);
}
static inline unsigned __ballot_sync(unsigned mask, int v) {
    emulator_whole(mask);
    const int one = v != 0;
    unsigned char(*slots)[32] = emulator::meet("vote", &one, sizeof one);
    unsigned all = 0;
    for (unsigned i = 0; i < emulator::current->warp->n_lanes; i++) all |= (unsigned)emulator::of_lane<int>(slots, i) << i;
    return all;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    emulator_whole(mask);
    emulator::meet("bar.warp.sync", "", 0);
}
