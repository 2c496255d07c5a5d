//! A program that keeps more than its memory holds, and comes back fast to the part that it uses: `hot_set.c`, in
//! Rust.
#![allow(unsafe_code)] // A region is reached through a raw pointer.

use std::error::Error;

use warmswap_arena::{Advice, Arena, ArenaConfig};
use warmswap_policy::SchemeSpec;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// Fails when a page comes back with another number.
pub fn main() -> Result<(), Box<dyn Error>> {
    let arena = Arena::new(ArenaConfig {
        address_space_bytes: 256 * MIB,
        ..ArenaConfig::new(8 * MIB as u64, SchemeSpec::parse("ariadne")?)
    })?;
    let app = arena.application("editor")?;
    let region = app.region(32 * MIB)?;

    // Four times the budget, with a number on each page.
    let pages = region.len() / PAGE;
    let word = |page: usize| region.as_mut_ptr().wrapping_add(page * PAGE).cast::<u64>();
    for page in 0..pages {
        // SAFETY: within the region, which lives, and which this thread alone uses.
        unsafe { word(page).write(page as u64) };
    }

    // What a launch touches is the hot set: 64 pages here.
    app.foreground();
    for page in 0..64 {
        // SAFETY: as above.
        unsafe { word(page).wrapping_add(1).write(page as u64) };
    }
    app.launch_done();
    app.background();
    region.advise(0..region.len(), Advice::Cold)?;

    // The next launch finds it.
    app.foreground();
    app.launch_done();
    // SAFETY: as above.
    let wrong = (0..pages).filter(|&page| unsafe { word(page).read() } != page as u64);
    let wrong = wrong.count();

    let stats = arena.stats();
    println!(
        "{pages} pages, {wrong} wrong, {} of {} bytes used, {} faults",
        stats.used_bytes(),
        stats.budget_bytes,
        stats.faults
    );
    if wrong > 0 {
        return Err("pages came back wrong".into());
    }
    Ok(())
}
