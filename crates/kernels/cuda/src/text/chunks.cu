// Many tensors in one launch: each is cut into chunks of CHUNK elements, a block a chunk, so that a small tensor costs one block
// and a large one as many as it needs. `first` holds every tensor's first block, and the number of blocks at its end.

D int tensor_of(const u32* first, int n, u32 block) {
    int low = 0;
    // The last tensor that does not begin after the block.
    for (int high = n; high - low > 1;) {
        const int middle = (low + high) / 2;
        if (first[middle] <= block) low = middle;
        else high = middle;
    }
    return low;
}

// Four neighbouring elements, read and written in one access.
template <class E> struct alignas(4 * sizeof(E)) Four {
    E v[4];
};
template <class E> D bool is_even(const E* p) { return (u64)p % (4 * sizeof(E)) == 0; }
