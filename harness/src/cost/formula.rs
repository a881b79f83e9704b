//! The comparison's formula for one function or instance: T × RAM × price
//! (Barrak et al. 2025, Table 2).

use super::{PriceBook, PriceBookError};

/// US dollars of a function that runs for `seconds` at `memory_mb`, with GB of
/// 1,000 MB, or by the second where the platform has a price of its own.
///
/// # Errors
/// When the book lacks the price.
pub fn function_usd(
    seconds: f64,
    memory_mb: u32,
    function_price: Option<&str>,
    book: &PriceBook,
) -> Result<f64, PriceBookError> {
    match function_price {
        Some(dimension) => Ok(seconds * book.price(dimension)?.usd),
        None => Ok(seconds * f64::from(memory_mb) / 1e3 * book.price("lambda_gb_second")?.usd),
    }
}

/// US dollars of an instance for `seconds` of its hourly price.
///
/// # Errors
/// When the book has no price for the instance type.
pub fn instance_usd(
    seconds: f64,
    instance_type: &str,
    book: &PriceBook,
) -> Result<f64, PriceBookError> {
    Ok(seconds / 3600.0 * book.price(&format!("ec2/{instance_type}"))?.usd)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The table's own inputs give its own costs of a function and of a GPU.
    #[test]
    fn the_tables_inputs_give_the_tables_costs() {
        let book = PriceBook::shipped().unwrap();
        for (seconds, memory_mb, published) in [
            (15.44, 2685, 0.000689),
            (78.39, 3630, 0.004737),
            (27.17, 2880, 0.001302),
        ] {
            let usd = function_usd(seconds, memory_mb, None, &book).unwrap();
            assert!(
                (usd / published - 1.0).abs() < 0.004,
                "{usd} against {published}"
            );
        }
        let usd = instance_usd(92.0, "g4dn.xlarge", &book).unwrap();
        assert!((usd - 0.01344).abs() < 5e-6, "{usd}");
        assert!(instance_usd(1.0, "t9.nano", &book).is_err());
    }
}
