//! Packing and multiplying on x86-64.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::transmute;

use super::{BLOCK, Grid, Instructions, Piece, SIDE, TERMS, TILE};

/// Returns what this machine has, the best last.
pub(super) fn supported() -> Vec<Instructions> {
    let mut supported = vec![];
    if is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw") {
        supported.push(Instructions::Avx512);
        if has_tiles() {
            supported.push(Instructions::Amx);
        }
    }
    supported
}

/// Returns whether AMX is there and the kernel lets this process use it.
fn has_tiles() -> bool {
    // Leaf 7 of CPUID: AMX-BF16 and AMX-TILE.
    const AMX: u32 = 1 << 22 | 1 << 24;
    if __cpuid_count(7, 0).edx & AMX != AMX {
        return false;
    }
    #[cfg(target_os = "linux")]
    {
        // The tiles' 8 KiB are not saved for processes that do not ask for them.
        const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        // SAFETY: the call reads nothing of this process, and changes its permissions only.
        unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                ARCH_REQ_XCOMP_PERM,
                XFEATURE_XTILEDATA,
            ) == 0
        }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Sums of a block, a row after the other.
#[repr(align(64))]
struct Block([[f32; BLOCK]; BLOCK]);

/// See [`Grid::run`].
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn run(grid: &Grid<'_>) {
    // SAFETY: the caller guarantees the instructions, the tiles of whole blocks, and the outputs,
    // of which those that exist are stored.
    unsafe {
        let has_tiles = grid.instructions == Instructions::Amx;
        if has_tiles {
            configure_tiles();
        }
        let mut sums = Block([[0.0; BLOCK]; BLOCK]);
        let left_row = grid.offsets.len() * TILE;
        // A block of columns at a time: it stays in a cache for all rows.
        for column in (0..grid.columns).step_by(BLOCK) {
            let right = grid.right.add(column / SIDE * grid.right_column);
            let right = [right, right.add(grid.right_column)];
            for row in (0..grid.rows).step_by(BLOCK) {
                let left = grid.left.add(row / SIDE * left_row);
                let left = [left, left.add(left_row)];
                if has_tiles {
                    // Whole blocks are summed where they are stored.
                    let step = grid.stored.step(row, grid.rows);
                    let step = step.filter(|_| column + BLOCK <= grid.columns);
                    if let Some(step) = step {
                        let output = grid.output.add(grid.stored.row(row) + column);
                        let accumulate = grid.accumulate;
                        multiply_tiles(left, right, grid.offsets, output, step, accumulate);
                        continue;
                    }
                    let block = sums.0.as_mut_ptr().cast();
                    multiply_tiles(left, right, grid.offsets, block, BLOCK, false);
                } else {
                    multiply_pairs(left, right, grid.offsets, &mut sums);
                }
                store(grid, [row, column], &sums);
            }
        }
        if has_tiles {
            asm!("tilerelease", options(nostack, nomem));
        }
    }
}

/// Configures all tiles as 16 rows of 64 bytes.
///
/// # Safety
/// The CPU must have AMX, and the process the permission to use it.
unsafe fn configure_tiles() {
    #[repr(align(64))]
    struct Configuration([u8; 64]);
    static CONFIGURATION: Configuration = {
        let mut bytes = [0; 64];
        bytes[0] = 1; // Palette.
        let mut tile = 0;
        while tile < 8 {
            bytes[16 + 2 * tile] = 64; // Bytes of a row.
            bytes[48 + tile] = SIDE as u8; // Rows.
            tile += 1;
        }
        Configuration(bytes)
    };
    // SAFETY: the caller guarantees AMX, and the configuration is one that it has.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION.0, options(nostack, readonly));
    }
}

/// Sums a block by AMX into rows that are `step` values apart, added to what is there if
/// `accumulate`.
///
/// # Safety
/// The CPU must have AMX, its tiles configured. The left operand must hold a tile for each of the
/// offsets, in both rows of tiles, and the right one at each of them; `sums` must be valid for a
/// block.
unsafe fn multiply_tiles(
    left: [*const u16; 2],
    right: [*const u16; 2],
    offsets: &[usize],
    sums: *mut f32,
    step: usize,
    accumulate: bool,
) {
    let gaps = [left, right].map(|[first, second]| second as usize - first as usize);
    let [left_gap, right_gap] = gaps;
    // SAFETY: the caller guarantees AMX and the operands; there is at least one offset, and a block
    // is two by two tiles of sums.
    unsafe {
        asm!(
            "test {accumulate:e}, {accumulate:e}",
            "jz 3f",
            "tileloadd tmm0, [{upper} + {step}]",
            "tileloadd tmm1, [{upper} + {step} + 64]",
            "tileloadd tmm2, [{lower} + {step}]",
            "tileloadd tmm3, [{lower} + {step} + 64]",
            "jmp 2f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "mov {tile}, qword ptr [{offset}]",
            "add {tile}, {right}",
            "tileloadd tmm4, [{left} + {line}]",
            "tileloadd tmm6, [{tile} + {line}]",
            "add {tile}, {right_gap}",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{tile} + {line}]",
            "lea {tile}, [{left} + {left_gap}]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{tile} + {line}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {left}, 1024",
            "add {offset}, 8",
            "cmp {offset}, {end}",
            "jne 2b",
            "tilestored [{upper} + {step}], tmm0",
            "tilestored [{upper} + {step} + 64], tmm1",
            "tilestored [{lower} + {step}], tmm2",
            "tilestored [{lower} + {step} + 64], tmm3",
            left = inout(reg) left[0] => _,
            left_gap = in(reg) left_gap,
            right = in(reg) right[0],
            right_gap = in(reg) right_gap,
            offset = inout(reg) offsets.as_ptr() => _,
            end = in(reg) offsets.as_ptr_range().end,
            tile = out(reg) _,
            line = in(reg) 64usize,
            upper = in(reg) sums,
            lower = in(reg) sums.add(SIDE * step),
            step = in(reg) step * size_of::<f32>(),
            accumulate = in(reg) u32::from(accumulate),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// Rows whose sums AVX512-BF16 holds in registers at once.
const HELD: usize = 8;

/// Sums a block by AVX512-BF16.
///
/// # Safety
/// The CPU must have AVX512-BF16. The operands must be as [`multiply_tiles`] needs them.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn multiply_pairs(
    left: [*const u16; 2],
    right: [*const u16; 2],
    offsets: &[usize],
    sums: &mut Block,
) {
    for row in (0..BLOCK).step_by(HELD) {
        let mut held = [[_mm512_setzero_ps(); 2]; HELD];
        // SAFETY: the caller guarantees the operands: a tile is 16 lines of 64 bytes, and of the
        // left one `HELD` lines from the row on are read.
        unsafe {
            let mut left = left[row / SIDE].add(row % SIDE * TERMS);
            for &offset in offsets {
                let right = [right[0].byte_add(offset), right[1].byte_add(offset)];
                for pair in 0..SIDE {
                    let first = _mm512_load_si512(right[0].add(pair * TERMS).cast());
                    let second = _mm512_load_si512(right[1].add(pair * TERMS).cast());
                    let [first, second] = transmute::<[__m512i; 2], [__m512bh; 2]>([first, second]);
                    for (index, held) in held.iter_mut().enumerate() {
                        let factors = left.add(index * TERMS + 2 * pair).cast();
                        let factors = transmute::<__m512i, __m512bh>(_mm512_set1_epi32(*factors));
                        held[0] = _mm512_dpbf16_ps(held[0], factors, first);
                        held[1] = _mm512_dpbf16_ps(held[1], factors, second);
                    }
                }
                left = left.add(TILE);
            }
        }
        for (held, sums) in held.iter().zip(&mut sums.0[row..]) {
            for (held, sums) in held.iter().zip(sums.chunks_exact_mut(SIDE)) {
                // SAFETY: the chunk is a vector.
                unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), *held) };
            }
        }
    }
}

/// Stores those sums of a block that exist.
///
/// # Safety
/// The output must be valid for the columns of every row.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn store(grid: &Grid<'_>, [row, column]: [usize; 2], sums: &Block) {
    let rows = BLOCK.min(grid.rows - row);
    for (index, sums) in sums.0.iter().enumerate().take(rows) {
        let position = grid.stored.row(row + index) + column;
        for at in (0..BLOCK).step_by(SIDE) {
            let mask = mask(grid.columns.saturating_sub(column + at));
            // SAFETY: the mask leaves the columns that exist.
            unsafe {
                let output = grid.output.add(position + at);
                let mut sum = _mm512_loadu_ps(sums[at..].as_ptr());
                if grid.accumulate {
                    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, output));
                }
                _mm512_mask_storeu_ps(output, mask, sum);
            }
        }
    }
}

/// The first of 16 lanes: `count` of them, or all if there are more.
fn mask(count: usize) -> u16 {
    match count {
        SIDE.. => u16::MAX,
        _ => (1 << count) - 1,
    }
}

/// Two vectors rounded, the values of the first before those of the second.
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both are 64 bytes of any value.
    unsafe { transmute(_mm512_cvtne2ps_pbh(second, first)) }
}

/// Two vectors rounded, a value of the first before that of the second in the same lane.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn interleaved(first: __m512, second: __m512) -> __m512i {
    let mut order = [0u16; TERMS];
    let mut lane = 0;
    while lane < SIDE {
        order[2 * lane] = lane as u16;
        order[2 * lane + 1] = (SIDE + lane) as u16;
        lane += 1;
    }
    // SAFETY: both are 64 bytes of any value.
    let order = unsafe { transmute::<[u16; TERMS], __m512i>(order) };
    _mm512_permutexvar_epi16(order, rounded(first, second))
}

/// Copies a panel of so many rows of [`BLOCK`] columns, in each row a term, into two columns of
/// tiles.
///
/// # Safety
/// The CPU must have AVX512-BF16. `panel` must hold the rows, and `to` the tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pairs(panel: *const f32, rows: usize, to: *mut u16) {
    let column = rows.div_ceil(TERMS) * TILE;
    for row in (0..rows.next_multiple_of(TERMS)).step_by(2) {
        for half in 0..2 {
            // SAFETY: the caller guarantees the rows that are read, and the tiles, of which 32
            // terms are one, a pair of them a line.
            unsafe {
                let from = panel.wrapping_add(row * BLOCK + half * SIDE);
                let mut terms = [_mm512_setzero_ps(); 2];
                if row < rows {
                    terms[0] = _mm512_loadu_ps(from);
                }
                if row + 1 < rows {
                    terms[1] = _mm512_loadu_ps(from.add(BLOCK));
                }
                let to = to.add(half * column + row / 2 * TERMS);
                _mm512_store_si512(to.cast(), interleaved(terms[0], terms[1]));
            }
        }
    }
}

/// Copies rows of the left operand into its tiles.
///
/// # Safety
/// The CPU must have AVX512-BF16. From each row, `left` must be valid for the pieces, and `to` must
/// hold their tiles for whole blocks of rows.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pack(left: *const f32, rows: &[usize], tiles: &[&[Piece]], to: *mut u16) {
    // SAFETY: the caller guarantees both ends; a tile's line is 32 values, and pieces lie within
    // one.
    unsafe {
        let row_tiles = tiles.len() * TILE;
        for (index, row) in rows.iter().enumerate() {
            let from = left.add(*row);
            let mut to = to.add(index / SIDE * row_tiles + index % SIDE * TERMS);
            for pieces in tiles {
                if let [piece] = pieces
                    && piece.length == TERMS
                {
                    let from = from.add(piece.left);
                    let (first, second) = (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(SIDE)));
                    _mm512_store_si512(to.cast(), rounded(first, second));
                } else {
                    _mm512_store_si512(to.cast(), _mm512_setzero_si512());
                    for piece in *pieces {
                        pack_piece(from.add(piece.left), piece.length, to.add(piece.at));
                    }
                }
                to = to.add(TILE);
            }
        }
        // Rows that are no rows.
        for index in rows.len()..rows.len().next_multiple_of(BLOCK) {
            let mut to = to.add(index / SIDE * row_tiles + index % SIDE * TERMS);
            for _ in tiles {
                _mm512_store_si512(to.cast(), _mm512_setzero_si512());
                to = to.add(TILE);
            }
        }
    }
}

/// # Safety
/// The CPU must have AVX512-BF16, and both pointers be valid for `length` values, at most 32.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_piece(from: *const f32, length: usize, to: *mut u16) {
    // SAFETY: the masks leave `length` values.
    unsafe {
        let first = _mm512_maskz_loadu_ps(mask(length), from);
        let rest = length.saturating_sub(SIDE);
        let second = _mm512_maskz_loadu_ps(mask(rest), from.wrapping_add(SIDE));
        let stored = u32::from(mask(length)) | u32::from(mask(rest)) << SIDE;
        _mm512_mask_storeu_epi16(to.cast(), stored, rounded(first, second));
    }
}

/// Copies a matrix of `[terms, rows]`, the terms `step` values apart, into tiles of the left
/// operand.
///
/// # Safety
/// The CPU must have AVX512-BF16. `from` must be valid for the matrix, and `to` must hold the tiles
/// for whole blocks of rows.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pack_columns(
    from: *const f32,
    step: usize,
    [terms, rows]: [usize; 2],
    to: *mut u16,
) {
    let row_tiles = terms.div_ceil(TERMS) * TILE;
    for row in (0..rows.next_multiple_of(BLOCK)).step_by(SIDE) {
        let mask = mask(rows.saturating_sub(row));
        for tile in (0..terms).step_by(TERMS) {
            // Pairs of terms, a column of the tile in each lane.
            let mut pairs = [_mm512_setzero_si512(); SIDE];
            for (pair, values) in pairs.iter_mut().enumerate() {
                let mut values_of = [_mm512_setzero_ps(); 2];
                for (term, values) in (tile + 2 * pair..terms).zip(&mut values_of) {
                    // SAFETY: the mask leaves what the matrix has of the term.
                    *values = unsafe {
                        _mm512_maskz_loadu_ps(mask, from.wrapping_add(term * step + row))
                    };
                }
                *values = interleaved(values_of[0], values_of[1]);
            }
            // SAFETY: the caller guarantees the tile's 16 lines.
            unsafe {
                let to = to.add(row / SIDE * row_tiles + tile / TERMS * TILE);
                for (line, values) in transposed(pairs).into_iter().enumerate() {
                    _mm512_store_si512(to.add(line * TERMS).cast(), values);
                }
            }
        }
    }
}

/// Transposes 16 by 16 values of 32 bits.
#[target_feature(enable = "avx512f")]
fn transposed(mut lines: [__m512i; SIDE]) -> [__m512i; SIDE] {
    let mut next = lines;
    // Within each 128 bits: four by four.
    for four in (0..SIDE).step_by(4) {
        let (a, b, c, d) = (
            lines[four],
            lines[four + 1],
            lines[four + 2],
            lines[four + 3],
        );
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        next[four] = _mm512_unpacklo_epi64(low, high);
        next[four + 1] = _mm512_unpackhi_epi64(low, high);
        let (low, high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        next[four + 2] = _mm512_unpacklo_epi64(low, high);
        next[four + 3] = _mm512_unpackhi_epi64(low, high);
    }
    // The 128 bits themselves.
    for line in 0..4 {
        let (a, b, c, d) = (next[line], next[4 + line], next[8 + line], next[12 + line]);
        let low = [
            _mm512_shuffle_i32x4::<0x44>(a, b),
            _mm512_shuffle_i32x4::<0x44>(c, d),
        ];
        let high = [
            _mm512_shuffle_i32x4::<0xEE>(a, b),
            _mm512_shuffle_i32x4::<0xEE>(c, d),
        ];
        lines[line] = _mm512_shuffle_i32x4::<0x88>(low[0], low[1]);
        lines[4 + line] = _mm512_shuffle_i32x4::<0xDD>(low[0], low[1]);
        lines[8 + line] = _mm512_shuffle_i32x4::<0x88>(high[0], high[1]);
        lines[12 + line] = _mm512_shuffle_i32x4::<0xDD>(high[0], high[1]);
    }
    lines
}
