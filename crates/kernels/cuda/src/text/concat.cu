// Copies inputs of one layout to places of the output `step` units from each other: blockIdx.y is the input. Operands: out, input.

struct Inputs {
    const U* at[MAX_INPUTS];
};

extern "C" __global__ void __launch_bounds__(256) entry(const __grid_constant__ Inputs inputs, U* out, i64 step, const __grid_constant__ Geo<2> geo) {
    const U* const from = inputs.at[blockIdx.y];
    U* const to = out + (i64)blockIdx.y * step;
    i64 at[2];
    for (i64 i = first_position(); i < geo.n; i += position_step()) {
        locate(geo, i, at);
        to[at[0]] = from[at[1]];
    }
}
