//! Which errors of the laboratory say that its input cannot be used.

use std::error::Error;
use warmswap_apps::AppError;
use warmswap_results::ResultError;

/// Whether this cause of an error is bad input.
pub fn is_bad_input(cause: &(dyn Error + 'static)) -> bool {
    warmswap_commands::exit::is_bad_input(cause)
        || cause.is::<ResultError>()
        || matches!(
            cause.downcast_ref(),
            Some(AppError::Invalid { .. } | AppError::Unknown { .. })
        )
}
