//! The micro-kernels on AMX tiles: a block of up to 32 x 32 sums in four tiles, from two tiles of A and two of B a
//! step.
//!
//! A tile has up to 16 rows of 64 bytes. One of A has a row a row of the operand and 16 words along k, one of B a row a
//! word of k and 16 columns; a word is a pair of bfloat16 or a quad of bytes. Denormals count as zeros, sums round to
//! nearest.

use std::arch::asm;
use std::marker::PhantomData;

/// Rows, and words a row, of a tile.
pub const TILE: usize = 16;
/// Rows and columns of a block of sums.
pub const SIDE: usize = 2 * TILE;
/// Bytes of a row of a tile: one step of A.
pub const LINE: usize = 64;

/// Up to 32 x 32 sums and where their operands lie. Distances are bytes.
pub struct Block {
    /// Steps of 64 bytes along k; at least one.
    pub steps: usize,
    /// Rows of A and of the sums, 1 to 32.
    pub rows: usize,
    /// Columns in 32s: 16 where false. B's rows follow each other.
    pub wide: bool,
    pub a: *const u8,
    pub a_rs: isize,
    pub b: *const u8,
    pub sums: *mut u8,
    pub sums_rs: isize,
    /// Add to the sums instead of replacing them.
    pub add: bool,
}

/// What the words of a product are.
pub trait Words: 'static {
    /// Elements of a word: steps of k.
    const TOGETHER: usize;
    /// Bytes of an element in memory.
    const SIZE: usize;
    /// Elements lie in memory as they are multiplied.
    const AS_THEY_LIE: bool = Self::SIZE * Self::TOGETHER == 4;
    /// # Safety
    /// The machine has the tiles and they are configured for the block, which covers memory.
    unsafe fn multiply(block: &Block);
}

/// Pairs of bfloat16, summed in float32.
pub struct Bf16;
/// The same of float32 numbers, which are rounded while they are packed.
pub struct RoundedF32;
/// Quads of signed bytes, summed in 32 bits.
pub struct SignedBytes;
/// Quads of unsigned bytes, summed in 32 bits.
pub struct UnsignedBytes;

/// The tiles of this thread, configured for blocks of one height at a time, and given back at the end: a thread that
/// has none in use is switched faster.
pub struct Tiles {
    /// Rows they are configured for; 0 for not at all.
    rows: usize,
    thread: PhantomData<*const ()>,
}

#[repr(C, align(64))]
struct Config([u8; 64]);

impl Default for Tiles {
    fn default() -> Self {
        Tiles { rows: 0, thread: PhantomData }
    }
}

impl Tiles {
    /// Computes a block.
    ///
    /// # Safety
    /// The machine has the tiles ([`Isa::Amx`](oneflow_kernels_prim::Isa)), and the block covers memory.
    #[inline]
    pub unsafe fn multiply<W: Words>(&mut self, block: &Block) {
        // SAFETY: the contract is the same.
        unsafe {
            if self.rows != block.rows {
                self.configure(block.rows);
            }
            W::multiply(block);
        }
    }

    /// Tiles 0 to 3 are sums, 4 and 5 A's, 6 and 7 B's.
    #[cold]
    unsafe fn configure(&mut self, rows: usize) {
        let (top, low) = (rows.min(TILE) as u8, rows.saturating_sub(TILE).max(1) as u8);
        let mut config = Config([0; 64]);
        config.0[0] = 1;
        for (i, rows) in [top, top, low, low, top, low, TILE as u8, TILE as u8].into_iter().enumerate() {
            config.0[16 + 2 * i] = LINE as u8;
            config.0[48 + i] = rows;
        }
        // SAFETY: the machine has the tiles, by the caller; 64 bytes of a valid configuration are read.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) };
        self.rows = rows;
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        if self.rows != 0 {
            // SAFETY: the machine has the tiles: they are configured.
            unsafe { asm!("tilerelease", options(nostack, nomem)) };
        }
    }
}

/// One kernel: zeros or the sums as they are, some steps, and the sums again.
macro_rules! kernel {
    ($block:ident, $zero:literal, $load:literal, $step:expr, $store:literal) => {
        asm!(
            "test {add:e}, {add:e}",
            "jnz 2f",
            $zero,
            "jmp 3f",
            "2:",
            $load,
            "3:",
            $step,
            "add {a}, 64",
            "add {a2}, 64",
            "lea {b}, [{b} + {b_rs}*8]",
            "lea {b}, [{b} + {b_rs}*8]",
            "dec {n}",
            "jnz 3b",
            $store,
            add = in(reg) u32::from($block.add),
            a = inout(reg) $block.a => _,
            a2 = inout(reg) $block.a.wrapping_offset(TILE as isize * $block.a_rs) => _,
            a_rs = in(reg) $block.a_rs,
            b = inout(reg) $block.b => _,
            b_rs = in(reg) if $block.wide { 2 * LINE } else { LINE },
            c = in(reg) $block.sums,
            c2 = in(reg) $block.sums.wrapping_offset(TILE as isize * $block.sums_rs),
            c_rs = in(reg) $block.sums_rs,
            n = inout(reg) $block.steps => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

macro_rules! words {
    ($words:ident, $together:literal of $size:literal, $multiply:literal) => {
        impl Words for $words {
            const TOGETHER: usize = $together;
            const SIZE: usize = $size;
            #[inline]
            unsafe fn multiply(block: &Block) {
                debug_assert!(block.steps > 0 && (1..=SIDE).contains(&block.rows));
                // SAFETY: the caller's operands and sums lie in memory, and the tiles are configured for them.
                unsafe {
                    match (block.rows > TILE, block.wide) {
                        (true, true) => kernel!(
                            block,
                            "tilezero tmm0\ntilezero tmm1\ntilezero tmm2\ntilezero tmm3",
                            "tileloadd tmm0, [{c} + {c_rs}]\ntileloadd tmm1, [{c} + {c_rs} + 64]\n\
                             tileloadd tmm2, [{c2} + {c_rs}]\ntileloadd tmm3, [{c2} + {c_rs} + 64]",
                            concat!(
                                "tileloadd tmm6, [{b} + {b_rs}]\ntileloaddt1 tmm4, [{a} + {a_rs}]\n",
                                "tileloadd tmm7, [{b} + {b_rs} + 64]\n",
                                $multiply,
                                " tmm0, tmm4, tmm6\n",
                                "tileloaddt1 tmm5, [{a2} + {a_rs}]\n",
                                $multiply,
                                " tmm1, tmm4, tmm7\n",
                                $multiply,
                                " tmm2, tmm5, tmm6\n",
                                $multiply,
                                " tmm3, tmm5, tmm7"
                            ),
                            "tilestored [{c} + {c_rs}], tmm0\ntilestored [{c} + {c_rs} + 64], tmm1\n\
                             tilestored [{c2} + {c_rs}], tmm2\ntilestored [{c2} + {c_rs} + 64], tmm3"
                        ),
                        (true, false) => kernel!(
                            block,
                            "tilezero tmm0\ntilezero tmm2",
                            "tileloadd tmm0, [{c} + {c_rs}]\ntileloadd tmm2, [{c2} + {c_rs}]",
                            concat!(
                                "tileloadd tmm6, [{b} + {b_rs}]\ntileloaddt1 tmm4, [{a} + {a_rs}]\n",
                                "tileloaddt1 tmm5, [{a2} + {a_rs}]\n",
                                $multiply,
                                " tmm0, tmm4, tmm6\n",
                                $multiply,
                                " tmm2, tmm5, tmm6"
                            ),
                            "tilestored [{c} + {c_rs}], tmm0\ntilestored [{c2} + {c_rs}], tmm2"
                        ),
                        (false, true) => kernel!(
                            block,
                            "tilezero tmm0\ntilezero tmm1 # {c2}",
                            "tileloadd tmm0, [{c} + {c_rs}]\ntileloadd tmm1, [{c} + {c_rs} + 64]",
                            concat!(
                                "tileloadd tmm6, [{b} + {b_rs}]\ntileloaddt1 tmm4, [{a} + {a_rs}]\n",
                                "tileloadd tmm7, [{b} + {b_rs} + 64]\n",
                                $multiply,
                                " tmm0, tmm4, tmm6\n",
                                $multiply,
                                " tmm1, tmm4, tmm7"
                            ),
                            "tilestored [{c} + {c_rs}], tmm0\ntilestored [{c} + {c_rs} + 64], tmm1"
                        ),
                        (false, false) => kernel!(
                            block,
                            "tilezero tmm0 # {c2}",
                            "tileloadd tmm0, [{c} + {c_rs}]",
                            concat!(
                                "tileloadd tmm6, [{b} + {b_rs}]\ntileloaddt1 tmm4, [{a} + {a_rs}]\n",
                                $multiply,
                                " tmm0, tmm4, tmm6"
                            ),
                            "tilestored [{c} + {c_rs}], tmm0"
                        ),
                    }
                }
            }
        }
    };
}
words!(Bf16, 2 of 2, "tdpbf16ps");
words!(RoundedF32, 2 of 4, "tdpbf16ps");
words!(SignedBytes, 4 of 1, "tdpbssd");
words!(UnsignedBytes, 4 of 1, "tdpbuud");

/// Multiplies eight tiles full of ones `n` times and returns the operations done, for measuring the machine's peak:
/// with zeros it runs faster than any product of numbers. `None` without the tiles.
#[doc(hidden)]
pub fn tile_peak(bytes: bool, n: usize) -> Option<f64> {
    if oneflow_kernels_prim::Isa::best() < oneflow_kernels_prim::Isa::Amx {
        return None;
    }
    let numbers: Vec<u16> =
        (0..4 * TILE * SIDE).map(|i| 0x3f80 | (i * 37 % 128) as u16 | (i as u16 & 1) << 15).collect();
    let mut tiles = Tiles::default();
    macro_rules! run {
        ($multiply:literal) => {
            // SAFETY: the machine has the tiles, configured for 32 rows; four kilobytes are read.
            unsafe {
                tiles.configure(SIDE);
                asm!(
                    "tilezero tmm0\ntilezero tmm1\ntilezero tmm2\ntilezero tmm3",
                    "tileloadd tmm4, [{p} + {rs}]\ntileloadd tmm5, [{p} + {rs} + 1024]",
                    "tileloadd tmm6, [{p} + {rs} + 2048]\ntileloadd tmm7, [{p} + {rs} + 3072]",
                    "2:",
                    concat!($multiply, " tmm0, tmm4, tmm6\n", $multiply, " tmm1, tmm4, tmm7"),
                    concat!($multiply, " tmm2, tmm5, tmm6\n", $multiply, " tmm3, tmm5, tmm7"),
                    "dec {n}",
                    "jnz 2b",
                    p = in(reg) numbers.as_ptr(),
                    rs = in(reg) LINE,
                    n = inout(reg) n => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                )
            }
        };
    }
    if bytes {
        run!("tdpbssd")
    } else {
        run!("tdpbf16ps")
    }
    let words = if bytes { 4 } else { 2 };
    Some((4 * n * TILE * TILE * TILE * words * 2) as f64)
}
