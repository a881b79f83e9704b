//! The papers' formulas: T × RAM × price for one function or instance (Barrak
//! et al. 2025, Table 2), and (λ·B + e)·T for a peer (Barrak et al. 2023, P2P,
//! Tables II and III).

use epochcost_systems::PaperAccount;

use super::prices::ec2;
use super::{PriceBook, PriceBookError};

/// The dimension that the P2P paper's prices of a function are those of: its
/// 0.0000573 $/s at 4,400 MB is 4,400 / 1,024 × the Arm price.
pub(super) const ARM: &str = "lambda_gb_second_arm";

/// Returns the US dollars of a function that runs for `seconds` at `memory_mb`,
/// with GB of 1,000 MB, or by the second where the platform has a price of its
/// own.
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

/// Returns the dimension of a function's GB-second: the P2P paper's functions run
/// on Arm, those of the comparison on x86.
pub(super) fn gb_second(paper_account: PaperAccount) -> &'static str {
    match paper_account {
        PaperAccount::Comparison => "lambda_gb_second",
        PaperAccount::PeerToPeer => ARM,
    }
}

/// Returns the US dollars per second that AWS charges for a function of `memory_mb`, with GB of 1,024 MB
/// (λ of the P2P paper), or where the platform has a price of its own, that.
///
/// # Errors
/// When the book lacks the price.
pub fn function_rate_usd(
    paper_account: PaperAccount,
    memory_mb: u32,
    function_price: Option<&str>,
    book: &PriceBook,
) -> Result<f64, PriceBookError> {
    match function_price {
        Some(dimension) => Ok(book.price(dimension)?.usd),
        None => Ok(f64::from(memory_mb) / 1024.0 * book.price(gb_second(paper_account))?.usd),
    }
}

/// Returns the US dollars of an instance for `seconds` of its hourly price.
///
/// # Errors
/// When the book has no price for the instance type.
pub fn instance_usd(
    seconds: f64,
    instance_type: &str,
    book: &PriceBook,
) -> Result<f64, PriceBookError> {
    Ok(seconds / 3600.0 * book.price(&ec2(instance_type))?.usd)
}

#[cfg(test)]
mod tests {
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
            let off = (usd / published - 1.0).abs();
            assert!(off < 0.004, "{usd} against {published}");
        }
        let usd = instance_usd(92.0, "g4dn.xlarge", &book).unwrap();
        assert!((usd - 0.01344).abs() < 5e-6, "{usd}");
        assert!(instance_usd(1.0, "t9.nano", &book).is_err());
    }

    /// The P2P paper's prices are those of the book, and its formula gives its
    /// costs, but for batches of 128: that row is 3 to 4 % below the formula.
    #[test]
    fn the_peers_formula_gives_the_peers_costs() {
        let book = PriceBook::shipped().unwrap();
        let rows = [
            (15.0, 4400, 41.2, 0.0000573, 0.03567, 0.002),
            (30.0, 2800, 28.1, 0.0000362, 0.03069, 0.01),
            (118.0, 1800, 12.9, 0.0000233, 0.03451, 0.04),
            (235.0, 1700, 10.5, 0.0000220, 0.05435, 0.01),
        ];
        for (functions, memory_mb, seconds, rate, published, tolerance) in rows {
            let account = PaperAccount::PeerToPeer;
            let function = function_rate_usd(account, memory_mb, None, &book).unwrap();
            assert!((function / rate - 1.0).abs() < 0.01, "{function} {rate}");
            let instance = instance_usd(seconds, "t2.small", &book).unwrap();
            let usd = function * functions * seconds + instance;
            let off = (usd / published - 1.0).abs();
            assert!(off < tolerance, "{usd} against {published}");
        }
        let usd = instance_usd(258.0, "t2.large", &book).unwrap();
        assert!((usd - 0.00665).abs() < 5e-6, "{usd}");
    }
}
