//! Vectors of `f32`: what the kernels ask of an instruction set.
//!
//! Kernels are written once, generic over [`Lanes`], and compiled once for each
//! level behind `#[target_feature]`; see [`super::dispatch`].

use super::tile::{Operands, Rows, Tile, tile};

/// A vector of `f32` and the operations that kernels use.
///
/// # Safety
/// The CPU must support the instruction set of `Self`, for every method. Pointers must be
/// valid for [`Lanes::WIDTH`] values, with the alignment of one.
pub(crate) trait Lanes: Copy + 'static {
    /// Values per vector.
    const WIDTH: usize;
    /// Rows of a tile of [`Lanes::product`].
    const ROWS: usize;
    /// Columns of a tile of [`Lanes::product`]: two vectors.
    const COLUMNS: usize = 2 * Self::WIDTH;
    /// The vector.
    type V: Copy;

    /// Reads a vector.
    unsafe fn load(from: *const f32) -> Self::V;
    /// Writes a vector.
    unsafe fn store(to: *mut f32, v: Self::V);
    /// Returns a vector of equal values.
    unsafe fn splat(value: f32) -> Self::V;
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a · b`.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a · b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Returns the greater of 0 and `v`; NaN stays NaN.
    unsafe fn rectify(v: Self::V) -> Self::V;
    /// `v` where `gate` is not 0 or less (NaN lets pass), else 0.
    unsafe fn pass(v: Self::V, gate: Self::V) -> Self::V;
    /// `then` where `b` is greater than `a` or NaN, else `otherwise`.
    unsafe fn select_greater(a: Self::V, b: Self::V, then: Self::V, otherwise: Self::V) -> Self::V;
    /// Computes one tile of a matrix product, [`Lanes::ROWS`] by [`Lanes::COLUMNS`], or by half
    /// as many columns where `narrow`.
    ///
    /// # Safety
    /// The operands and the rows must be as [`tile`] needs them.
    unsafe fn product(operands: &Operands<'_>, rows: &Rows, narrow: bool);
}

/// Implements [`Lanes::product`] by tiles of so many rows.
macro_rules! product_of_tiles {
    ($rows:literal) => {
        #[inline(always)]
        unsafe fn product(operands: &Operands<'_>, rows: &Rows, narrow: bool) {
            // SAFETY: the caller guarantees the instruction set, the operands and the rows.
            unsafe {
                if narrow {
                    tile(Tile::<Self, $rows, 1>::new(), operands, rows);
                } else {
                    tile(Tile::<Self, $rows, 2>::new(), operands, rows);
                }
            }
        }
    };
}

/// Implements methods of [`Lanes`] that are one instruction each.
#[cfg(target_arch = "x86_64")]
macro_rules! instructions {
    ($($method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $method($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller guarantees the instruction set and, of a pointer, a vector.
            unsafe { $intrinsic($($argument),*) }
        }
    )*};
}

/// Plain code, for any machine: `W` values at a time.
#[derive(Clone, Copy)]
pub(crate) struct Plain<const W: usize>;

/// Plain code in the place of vectors.
pub(crate) type Portable = Plain<4>;

/// One value at a time: for channels that fill no vector.
pub(crate) type Single = Plain<1>;

impl<const W: usize> Lanes for Plain<W> {
    const WIDTH: usize = W;
    const ROWS: usize = 4;
    type V = [f32; W];

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller guarantees a vector's values, of no more than their own alignment.
        unsafe { from.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller guarantees a vector's values, of no more than their own alignment.
        unsafe { to.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::V {
        [value; W]
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Two roundings: without the instruction, `mul_add` is a library call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn rectify(v: Self::V) -> Self::V {
        v.map(|v| if v <= 0.0 { 0.0 } else { v })
    }
    #[inline(always)]
    unsafe fn pass(v: Self::V, gate: Self::V) -> Self::V {
        std::array::from_fn(|i| if gate[i] <= 0.0 { 0.0 } else { v[i] })
    }
    #[inline(always)]
    unsafe fn select_greater(a: Self::V, b: Self::V, then: Self::V, otherwise: Self::V) -> Self::V {
        std::array::from_fn(|i| {
            let greater = (b[i] > a[i]) | b[i].is_nan();
            if greater { then[i] } else { otherwise[i] }
        })
    }
    product_of_tiles!(4);
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    /// AVX2 with FMA: sixteen registers hold a tile of 6 by 16.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    impl Lanes for Avx2 {
        const WIDTH: usize = 8;
        const ROWS: usize = 6;
        type V = __m256;

        instructions! {
            load(from: *const f32) -> Self::V = _mm256_loadu_ps;
            store(to: *mut f32, v: Self::V) = _mm256_storeu_ps;
            splat(value: f32) -> Self::V = _mm256_set1_ps;
            add(a: Self::V, b: Self::V) -> Self::V = _mm256_add_ps;
            sub(a: Self::V, b: Self::V) -> Self::V = _mm256_sub_ps;
            mul(a: Self::V, b: Self::V) -> Self::V = _mm256_mul_ps;
            fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V = _mm256_fmadd_ps;
        }

        #[inline(always)]
        unsafe fn rectify(v: Self::V) -> Self::V {
            // The second operand is what comes out where one is NaN.
            // SAFETY: the caller guarantees the instruction set.
            unsafe { _mm256_max_ps(_mm256_setzero_ps(), v) }
        }
        #[inline(always)]
        unsafe fn pass(v: Self::V, gate: Self::V) -> Self::V {
            // SAFETY: the caller guarantees the instruction set.
            unsafe { _mm256_and_ps(v, _mm256_cmp_ps::<_CMP_NLE_UQ>(gate, _mm256_setzero_ps())) }
        }
        #[inline(always)]
        unsafe fn select_greater(
            a: Self::V,
            b: Self::V,
            then: Self::V,
            otherwise: Self::V,
        ) -> Self::V {
            // SAFETY: the caller guarantees the instruction set.
            unsafe {
                let greater = _mm256_cmp_ps::<_CMP_GT_OQ>(b, a);
                let unordered = _mm256_cmp_ps::<_CMP_UNORD_Q>(b, b);
                let mask = _mm256_or_ps(greater, unordered);
                _mm256_blendv_ps(otherwise, then, mask)
            }
        }
        product_of_tiles!(6);
    }

    /// AVX-512F: a tile of 8 by 32 in half of the registers; more rows were no faster.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    impl Lanes for Avx512 {
        const WIDTH: usize = 16;
        const ROWS: usize = 8;
        type V = __m512;

        instructions! {
            load(from: *const f32) -> Self::V = _mm512_loadu_ps;
            store(to: *mut f32, v: Self::V) = _mm512_storeu_ps;
            splat(value: f32) -> Self::V = _mm512_set1_ps;
            add(a: Self::V, b: Self::V) -> Self::V = _mm512_add_ps;
            sub(a: Self::V, b: Self::V) -> Self::V = _mm512_sub_ps;
            mul(a: Self::V, b: Self::V) -> Self::V = _mm512_mul_ps;
            fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V = _mm512_fmadd_ps;
        }

        #[inline(always)]
        unsafe fn rectify(v: Self::V) -> Self::V {
            // The second operand is what comes out where one is NaN.
            // SAFETY: the caller guarantees the instruction set.
            unsafe { _mm512_max_ps(_mm512_setzero_ps(), v) }
        }
        #[inline(always)]
        unsafe fn pass(v: Self::V, gate: Self::V) -> Self::V {
            // SAFETY: the caller guarantees the instruction set.
            unsafe {
                let mask = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(gate, _mm512_setzero_ps());
                _mm512_maskz_mov_ps(mask, v)
            }
        }
        #[inline(always)]
        unsafe fn select_greater(
            a: Self::V,
            b: Self::V,
            then: Self::V,
            otherwise: Self::V,
        ) -> Self::V {
            // SAFETY: the caller guarantees the instruction set.
            unsafe {
                let greater = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(b, a);
                let unordered = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(b, b);
                _mm512_mask_mov_ps(otherwise, greater | unordered, then)
            }
        }
        product_of_tiles!(8);
    }
}
