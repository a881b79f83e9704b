//! The windows of convolutions and pools.

/// The square window of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Height and width of the kernel.
    pub(crate) kernel: usize,
    /// Step between two outputs, in both directions.
    pub(crate) stride: usize,
    /// Zeros added on each of the four sides.
    pub(crate) padding: usize,
    /// Groups of channels: 1, or one per channel.
    pub(crate) groups: usize,
}

impl Window {
    /// 1×1.
    pub(crate) const fn one(stride: usize) -> Self {
        Self::new(1, stride, 0)
    }

    /// 3×3, padded by 1.
    pub(crate) const fn three(stride: usize) -> Self {
        Self::new(3, stride, 1)
    }

    /// 3×3, not padded.
    pub(crate) const fn three_within(stride: usize) -> Self {
        Self::new(3, stride, 0)
    }

    /// 5×5 of stride 1.
    pub(crate) const fn five(padding: usize) -> Self {
        Self::new(5, 1, padding)
    }

    /// Square of an odd side, padded so that stride 1 keeps the size.
    pub(crate) const fn centred(kernel: usize, stride: usize) -> Self {
        Self::new(kernel, stride, kernel / 2)
    }

    const fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kernel,
            stride,
            padding,
            groups: 1,
        }
    }

    /// The same window over so many groups.
    pub(crate) const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Inputs that one output sums over, of so many input channels.
    pub(crate) const fn fan_in(self, inputs: usize) -> usize {
        inputs / self.groups * self.kernel * self.kernel
    }

    /// Outputs that one input is part of, of so many output channels: as PyTorch counts
    /// them, whatever the groups.
    pub(crate) const fn fan_out(self, outputs: usize) -> usize {
        outputs * self.kernel * self.kernel
    }

    /// Outputs along an axis of so many inputs.
    pub(crate) const fn outputs(self, inputs: usize) -> usize {
        (inputs + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

/// The square window of a max-pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolWindow {
    /// Height and width.
    pub(crate) side: usize,
    /// Step between two windows, in both directions.
    pub(crate) stride: usize,
    /// Rows and columns by which windows reach over each of the four edges.
    pub(crate) padding: usize,
    /// Whether a last window may reach over the far edge further than that (PyTorch's
    /// `ceil_mode`).
    pub(crate) overhanging: bool,
}

impl PoolWindow {
    /// Outputs along an axis of so many inputs.
    pub(crate) const fn outputs(self, inputs: usize) -> usize {
        let span = inputs + 2 * self.padding - self.side;
        if !self.overhanging {
            return span / self.stride + 1;
        }
        let outputs = span.div_ceil(self.stride) + 1;
        // No window begins beyond the inputs.
        if (outputs - 1) * self.stride >= inputs + self.padding {
            outputs - 1
        } else {
            outputs
        }
    }

    /// The inputs that output `at` sees along an axis of so many.
    pub(crate) fn range(self, at: usize, inputs: usize) -> std::ops::Range<usize> {
        let start = at * self.stride;
        let end = (start + self.side).saturating_sub(self.padding).min(inputs);
        start.saturating_sub(self.padding)..end
    }
}
