//! The C face of the arena. What the functions promise stands in `include/warmswap.h`; the tests compare the two.
//!
//! No panic crosses the border: one within ends the process, as every `extern "C"` function does.
//!
//! The same from Rust is `examples/hot_set.rs`; from C, `examples/hot_set.c`.
#![allow(unsafe_code)] // The border to C: pointers come in raw, and names are exported.

mod error;
mod types;

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use warmswap_arena::{Advice, Application, Arena, ArenaConfig, Pinned, Region};
use warmswap_policy::SchemeSpec;

use error::{Invalid, guard, message, named};
pub use error::{WARMSWAP_INVALID, WARMSWAP_OK, WARMSWAP_SYSTEM};
pub use types::{
    WARMSWAP_COLD, WARMSWAP_HOT, WARMSWAP_WORKING_SET, warmswap_config, warmswap_stats,
};

/// `warmswap_arena` of the header.
#[derive(Debug)]
pub struct ArenaHandle(Arena);

/// `warmswap_app` of the header.
#[derive(Debug)]
pub struct AppHandle(Application);

/// `warmswap_region` of the header.
#[derive(Debug)]
pub struct RegionHandle(Region);

/// `warmswap_pinned` of the header.
#[derive(Debug)]
pub struct PinnedHandle(#[expect(dead_code, reason = "its drop unpins")] Pinned);

/// Gives an object to the caller.
///
/// # Safety
/// `place` is null or valid for a write.
unsafe fn hand_out<T>(place: *mut *mut T, make: impl FnOnce() -> error::Made<T>) -> c_int {
    guard(|| {
        if place.is_null() {
            return Err(Invalid("the place for the result is NULL".to_owned()).into());
        }
        let made = Box::into_raw(Box::new(make()?));
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { place.write(made) };
        Ok(())
    })
}

/// Takes an object back, or nothing.
///
/// # Safety
/// `object` is null, or came from [`hand_out`] and is not used any more.
unsafe fn take_back<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: it came from `Box::into_raw`; the caller vouches that this is its end.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// The object behind a pointer that the caller gave.
///
/// # Safety
/// `object` is null, or valid as long as the result is used.
unsafe fn object<'a, T>(object: *const T, what: &str) -> Result<&'a T, error::Failure> {
    // SAFETY: passed on to the caller.
    unsafe { object.as_ref() }.ok_or_else(|| Invalid(format!("the {what} is NULL")).into())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn warmswap_last_error() -> *const c_char {
    message()
}

/// See the header.
///
/// # Safety
/// `config` is null or points to a valid configuration, `arena` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_arena_new(
    config: *const warmswap_config,
    arena: *mut *mut ArenaHandle,
) -> c_int {
    let make = || {
        // SAFETY: passed on to the caller.
        let config = unsafe { object(config, "configuration")? };
        // SAFETY: the configuration is valid, and with it its texts.
        let (scheme, backing) = unsafe { (named(config.scheme)?, named(config.backing_path)?) };
        let scheme = SchemeSpec::parse(scheme.unwrap_or("warmswap"))
            .map_err(|error| Invalid(error.to_string()))?;
        let mut made = ArenaConfig::new(config.budget_bytes, scheme);
        made.backing = backing.map(Into::into);
        if config.backing_limit_bytes > 0 {
            made.backing_limit_bytes = config.backing_limit_bytes;
        }
        if config.address_space_bytes > 0 {
            made.address_space_bytes = usize::try_from(config.address_space_bytes)
                .map_err(|error| Invalid(error.to_string()))?;
        }
        Ok(ArenaHandle(Arena::new(made)?))
    };
    // SAFETY: passed on to the caller.
    unsafe { hand_out(arena, make) }
}

/// See the header.
///
/// # Safety
/// `arena` is null, or came from [`warmswap_arena_new`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_arena_free(arena: *mut ArenaHandle) {
    // SAFETY: passed on to the caller.
    unsafe { take_back(arena) }
}

/// See the header.
///
/// # Safety
/// `arena` is null or a living arena, `stats` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_arena_stats(
    arena: *const ArenaHandle,
    stats: *mut warmswap_stats,
) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let arena = unsafe { object(arena, "arena")? };
        if stats.is_null() {
            return Err(Invalid("the place for the result is NULL".to_owned()).into());
        }
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { stats.write(arena.0.stats().into()) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `arena` is null or a living arena, `name` null or a text that ends with a zero byte, `app` null or valid for a
/// write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_app_new(
    arena: *const ArenaHandle,
    name: *const c_char,
    app: *mut *mut AppHandle,
) -> c_int {
    let make = || {
        // SAFETY: passed on to the caller.
        let (arena, name) = unsafe { (object(arena, "arena")?, named(name)?) };
        Ok(AppHandle(arena.0.application(name.unwrap_or_default())?))
    };
    // SAFETY: passed on to the caller.
    unsafe { hand_out(app, make) }
}

/// See the header.
///
/// # Safety
/// `app` is null, or came from [`warmswap_app_new`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_app_free(app: *mut AppHandle) {
    // SAFETY: passed on to the caller.
    unsafe { take_back(app) }
}

/// Tells an application something.
///
/// # Safety
/// `app` is null or a living application.
unsafe fn tell(app: *const AppHandle, tell: impl FnOnce(&Application)) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        tell(&unsafe { object(app, "application")? }.0);
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `app` is null or a living application.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_app_foreground(app: *const AppHandle) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { tell(app, Application::foreground) }
}

/// See the header.
///
/// # Safety
/// `app` is null or a living application.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_app_launch_done(app: *const AppHandle) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { tell(app, Application::launch_done) }
}

/// See the header.
///
/// # Safety
/// `app` is null or a living application.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_app_background(app: *const AppHandle) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { tell(app, Application::background) }
}

/// See the header.
///
/// # Safety
/// `app` is null or a living application, `region` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_region_new(
    app: *const AppHandle,
    bytes: usize,
    region: *mut *mut RegionHandle,
) -> c_int {
    let make = || {
        // SAFETY: passed on to the caller.
        let app = unsafe { object(app, "application")? };
        Ok(RegionHandle(app.0.region(bytes)?))
    };
    // SAFETY: passed on to the caller.
    unsafe { hand_out(region, make) }
}

/// See the header.
///
/// # Safety
/// `region` is null, or came from [`warmswap_region_new`]; neither it nor its memory is used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_region_free(region: *mut RegionHandle) {
    // SAFETY: passed on to the caller.
    unsafe { take_back(region) }
}

/// See the header.
///
/// # Safety
/// `region` is null or a living region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_region_data(region: *const RegionHandle) -> *mut c_void {
    // SAFETY: passed on to the caller.
    let region = unsafe { region.as_ref() };
    region.map_or(ptr::null_mut(), |region| region.0.as_mut_ptr().cast())
}

/// See the header.
///
/// # Safety
/// `region` is null or a living region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_region_bytes(region: *const RegionHandle) -> usize {
    // SAFETY: passed on to the caller.
    unsafe { region.as_ref() }.map_or(0, |region| region.0.len())
}

/// See the header.
///
/// # Safety
/// `region` is null or a living region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_region_advise(
    region: *const RegionHandle,
    offset: usize,
    bytes: usize,
    advice: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let region = unsafe { object(region, "region")? };
        let advice = match advice {
            WARMSWAP_COLD => Advice::Cold,
            WARMSWAP_HOT => Advice::Hot,
            WARMSWAP_WORKING_SET => Advice::WorkingSet,
            _ => return Err(Invalid(format!("{advice} is no advice")).into()),
        };
        let end = offset.saturating_add(bytes);
        Ok(region.0.advise(offset..end, advice)?)
    })
}

/// See the header.
///
/// # Safety
/// `arena` is null or a living arena, `pinned` is null or valid for a write; regions that are pinned live as long
/// as the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_pin(
    arena: *const ArenaHandle,
    start: *const c_void,
    bytes: usize,
    pinned: *mut *mut PinnedHandle,
) -> c_int {
    let make = || {
        // SAFETY: passed on to the caller.
        let arena = unsafe { object(arena, "arena")? };
        let start = start.cast::<u8>();
        let range = start..start.wrapping_add(bytes.min(usize::MAX - start.addr()));
        Ok(PinnedHandle(arena.0.touch_for_kernel(range)))
    };
    // SAFETY: passed on to the caller.
    unsafe { hand_out(pinned, make) }
}

/// See the header.
///
/// # Safety
/// `pinned` is null, or came from [`warmswap_pin`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warmswap_unpin(pinned: *mut PinnedHandle) {
    // SAFETY: passed on to the caller.
    unsafe { take_back(pinned) }
}
