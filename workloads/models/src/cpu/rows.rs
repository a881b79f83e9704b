//! Rows of linear layers: their bias, and the hard sigmoid.

/// Adds a bias to every row.
pub(crate) fn add_bias(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (value, bias) in row.iter_mut().zip(bias) {
            *value += bias;
        }
    }
}

/// The sum of each of so many columns.
pub(crate) fn column_sums(rows: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; columns];
    for row in rows.chunks_exact(columns) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// `min(max(x + 3, 0), 6) / 6` of every value.
pub(crate) fn hard_sigmoid(values: &[f32]) -> Vec<f32> {
    let share = |value: &f32| ((value + 3.0) / 6.0).clamp(0.0, 1.0);
    values.iter().map(share).collect()
}

/// The gradient of the values of [`hard_sigmoid`]: a sixth between -3 and 3.
pub(crate) fn hard_sigmoid_gradient(values: &[f32], gradient: &[f32]) -> Vec<f32> {
    let slope = |(value, gradient): (&f32, &f32)| {
        let share = (value + 3.0) / 6.0;
        // What is not a number lets pass, as it does in burn.
        let is_flat = match share.partial_cmp(&share.clamp(0.0, 1.0)) {
            Some(order) => order.is_ne(),
            None => false,
        };
        if is_flat { 0.0 } else { gradient / 6.0 }
    };
    values.iter().zip(gradient).map(slope).collect()
}
