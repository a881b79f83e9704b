//! Processors without instructions of ours for bfloat16: nothing is supported, and so nothing else
//! here is ever called.

use super::{Grid, Instructions, Piece};

pub(super) fn supported() -> Vec<Instructions> {
    vec![]
}

pub(super) unsafe fn run(_: &Grid<'_>) {}

pub(super) unsafe fn pairs(_: *const f32, _: usize, _: *mut u16) {}

pub(super) unsafe fn pack(_: *const f32, _: &[usize], _: &[&[Piece]], _: *mut u16) {}

pub(super) unsafe fn pack_columns(_: *const f32, _: usize, _: [usize; 2], _: *mut u16) {}
