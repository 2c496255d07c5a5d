//! The paging mechanism by itself, for hosts that put another [address map](AddressMap) over it. `warmswap-program` does
//! so for a program's whole address space. Changes with its users, which are in this workspace.

pub use crate::address_map::AddressMap;
pub use crate::arrivals::ArrivalQueue;
pub use crate::error::{FaultError, die, is_dying};
pub use crate::fault::{Core, Served, Wanted};
pub use crate::files::{FileMap, Files, Source};
pub use crate::frames::{Frame, FrameSource, Frames, timespec};
pub use crate::gate::{Gate, Inside};
pub use crate::hooks::{FaultHooks, HandlerHooks};
pub use crate::lock::Mutex;
pub use crate::page_words::{Claim, PageWords, State, Word};
pub use crate::pager::{FileTable, Pager, hold};
pub use crate::shared::{AddressKind, PagerGuard, Shared};
