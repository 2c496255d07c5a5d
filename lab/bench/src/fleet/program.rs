//! What a program on the managed heap is to the benchmark.

use warmswap_heap::{AllocError, Mutator};

/// A program cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The heap is full, after collections too.
    #[error(transparent)]
    Full(#[from] AllocError),
    /// Its data cannot be had.
    #[error("{0}")]
    Data(String),
}

/// A program whose data lives on a managed heap, and that people switch away from and back to.
///
/// All randomness comes from a seed that the program was made with, and what it does does not depend on time: two
/// instances with the same seed that are driven the same way hold the same objects and give the same results, whatever
/// collector is below. Every method polls [`Mutator::safepoint`] at least once for each small piece of its work.
pub trait Program: Send {
    /// Name, for tables.
    fn name(&self) -> &str;

    /// The cold start: loads its data.
    ///
    /// # Errors
    /// [`ProgramError`].
    fn start(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError>;

    /// Use in the foreground: `actions` things that a person does one after the other. A checksum of what was seen.
    ///
    /// # Errors
    /// [`ProgramError`].
    fn use_it(&mut self, mutator: &mut Mutator, actions: usize) -> Result<u64, ProgramError>;

    /// Work in the background: allocates about `bytes` of new objects, most of them soon garbage, and changes
    /// `old_changes` old objects so that they refer to new ones.
    ///
    /// # Errors
    /// [`ProgramError`].
    fn work_in_background(
        &mut self,
        mutator: &mut Mutator,
        bytes: usize,
        old_changes: usize,
    ) -> Result<(), ProgramError>;

    /// A hot launch: brings to the screen what a person sees first. A checksum of it, which is the same in every launch
    /// that follows the same calls.
    ///
    /// # Errors
    /// [`ProgramError`].
    fn launch(&mut self, mutator: &mut Mutator) -> Result<u64, ProgramError>;
}
