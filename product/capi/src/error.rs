//! Error codes, and the message of the last failure of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use warmswap_arena::ArenaError;

/// Nothing went wrong.
pub const WARMSWAP_OK: c_int = 0;
/// An argument makes no sense.
pub const WARMSWAP_INVALID: c_int = 1;
/// The kernel lacks something, or there is no memory.
pub const WARMSWAP_SYSTEM: c_int = 2;

/// An argument makes no sense.
#[derive(Debug)]
pub(crate) struct Invalid(pub String);

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    text: String,
}

/// An object, or why there is none.
pub(crate) type Made<T> = Result<T, Failure>;

impl From<Invalid> for Failure {
    fn from(Invalid(text): Invalid) -> Self {
        Self {
            code: WARMSWAP_INVALID,
            text,
        }
    }
}

impl From<ArenaError> for Failure {
    fn from(error: ArenaError) -> Self {
        let code = match error {
            ArenaError::Scheme(_)
            | ArenaError::Limits(_)
            | ArenaError::Pool(_)
            | ArenaError::OutOfRange { .. } => WARMSWAP_INVALID,
            _ => WARMSWAP_SYSTEM,
        };
        Self {
            code,
            text: error.to_string(),
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Gives the code of a result, and keeps the message of a failure.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match work() {
        Ok(()) => WARMSWAP_OK,
        Err(Failure { code, text }) => {
            // A zero byte in the text would end it there.
            let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
            MESSAGE.with(|message| *message.borrow_mut() = text);
            code
        }
    }
}

/// The message of this thread's last failure.
pub(crate) fn message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// A text that the caller gave; `None` for null.
///
/// # Safety
/// `text` is null, or ends with a zero byte and stays as it is as long as the result is used.
pub(crate) unsafe fn named<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str();
    Ok(Some(text.map_err(|error| {
        Invalid(format!("a text is not UTF-8: {error}"))
    })?))
}
