//! The cross-entropy of a batch, and its gradient.

/// The mean cross-entropy of rows of scores, a label a row.
pub(crate) fn forward(scores: &[f32], labels: &[u8]) -> f32 {
    let classes = scores.len() / labels.len();
    let losses = scores
        .chunks_exact(classes)
        .zip(labels)
        .map(|(row, &label)| logarithm_of_sum(row) - f64::from(row[usize::from(label)]));
    (losses.sum::<f64>() / labels.len() as f64) as f32
}

/// The gradient of the scores: `(softmax - one-hot) / batch`, times that of the loss.
pub(crate) fn backward(scores: &[f32], labels: &[u8], loss_gradient: f32) -> Vec<f32> {
    let classes = scores.len() / labels.len();
    let factor = f64::from(loss_gradient) / labels.len() as f64;
    let rows = scores.chunks_exact(classes).zip(labels);
    rows.flat_map(|(row, &label)| {
        let logarithm = logarithm_of_sum(row);
        row.iter().enumerate().map(move |(class, &score)| {
            let hot = if class == usize::from(label) {
                1.0
            } else {
                0.0
            };
            (((f64::from(score) - logarithm).exp() - hot) * factor) as f32
        })
    })
    .collect()
}

/// `ln Σ exp(score)`, safe from overflow.
fn logarithm_of_sum(row: &[f32]) -> f64 {
    let greatest = row.iter().copied().fold(f32::NEG_INFINITY, |best, score| {
        if score > best || score.is_nan() {
            score
        } else {
            best
        }
    });
    let greatest = f64::from(greatest);
    let sum: f64 = row
        .iter()
        .map(|&score| (f64::from(score) - greatest).exp())
        .sum();
    greatest + sum.ln()
}
