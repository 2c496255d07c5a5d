//! The group whose budget this program shares: what it takes of that, asks others for, and gives.
//!
//! Until its memory is taken over, the share of a program is what it has in memory, and the keeper looks at that. From then
//! on the pager takes more where frames are few, and the keeper gives back what is owed or not used. Shares and budget change
//! under the pager's lock only; [`MEMBER`] is locked within it, and so is free at every fork.
//!
//! A forked child of a program that is paged goes on with the budget that its parent had, which is its own, and is a member
//! with what it takes beyond that.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use warmswap_arena::mechanism::MoreBudget;
use warmswap_process::Shrinkable;
use warmswap_protocol::{Group, LEAST_SHARE_BYTES, Membership, Phase, Shares};

use crate::keeper;
use crate::settings::{Program, say};

/// How long reclaim waits for others to give.
const ROUND: Duration = Duration::from_millis(5);
/// After a round in vain, how long it goes on within what it has.
const VAIN_PAUSE: Duration = Duration::from_millis(50);
/// Parts of the budget: what is taken at a time, and what is asked for at a time.
const TAKE_DIVISOR: u64 = 64;
const ASK_DIVISOR: u64 = 32;
/// What a program may have unused beside a part of the budget: the free frames that its pager keeps.
const UNUSED_BYTES: u64 = 1 << 20;
/// A share shrinks by steps of so much, at least.
const GIVE_BYTES: u64 = 256 << 10;

static MEMBER: Mutex<Option<Member>> = Mutex::new(None);
/// The member's share, and what it may have without others giving; the budget where there is no group.
static SHARE_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
static CEILING_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// It is to give something, and others wait for that.
static OWES: AtomicBool = AtomicBool::new(false);
static IS_AWAITED: AtomicBool = AtomicBool::new(false);
/// What a child of a fork had at the fork, beside the group's budget.
static OWN_BYTES: AtomicU64 = AtomicU64::new(0);

/// This process in its group.
struct Member {
    membership: Membership,
    budget_bytes: u64,
    /// The share when its launch began.
    launch_share_bytes: Option<u64>,
    /// What its last launch took.
    launch_bytes: u64,
    /// Others were asked then.
    asked: Option<Instant>,
    /// They gave nothing: none is asked before.
    rests_until: Option<Instant>,
}

/// More is mapped than this where the keeper of a member has to begin: what a program with less has counts nowhere.
pub fn joins_beyond_bytes(program: &Program) -> u64 {
    match program.settings.group {
        Some(_) => LEAST_SHARE_BYTES.min(program.settings.budget_bytes),
        None => program.settings.budget_bytes,
    }
}

/// What the program may have by itself.
pub fn ceiling_bytes(program: &Program) -> u64 {
    CEILING_BYTES
        .load(Relaxed)
        .min(program.settings.budget_bytes)
}

/// What the program may have now.
pub fn share_bytes(program: &Program) -> u64 {
    let share_bytes = SHARE_BYTES.load(Relaxed);
    let own_bytes = OWN_BYTES.load(Relaxed);
    share_bytes
        .saturating_add(own_bytes)
        .min(program.settings.budget_bytes)
}

/// Whether it is to give something.
pub fn owes() -> bool {
    OWES.load(Relaxed)
}

/// Whether others wait for that. They do not for long.
pub fn is_awaited() -> bool {
    IS_AWAITED.load(Relaxed)
}

/// Becomes a member, where there is a group to join. Called by the keeper, in its table of descriptors.
pub fn join(program: &'static Program, socket: Option<&Path>) {
    let Some(path) = &program.settings.group else {
        return;
    };
    let budget_bytes = program.settings.budget_bytes;
    let joined =
        Group::open(path, budget_bytes).and_then(|group| group.join(std::process::id(), socket));
    match joined {
        Ok(membership) => {
            program.space.adjust_budget(|_| {
                *lock() = Some(Member {
                    membership,
                    budget_bytes,
                    launch_share_bytes: None,
                    launch_bytes: 0,
                    asked: None,
                    rests_until: None,
                });
                None
            });
            program.space.set_more_budget(more_budget);
        }
        Err(error) => say(&format!("this program has its budget to itself: {error}")),
    }
}

/// In the child of a `fork`: the place in the group is the parent's. Its descriptor is none of the child's, so that nothing
/// is closed.
pub fn forget(program: &Program, is_paged: bool) {
    std::mem::forget(lock().take());
    let own_bytes = if is_paged { share_bytes(program) } else { 0 };
    OWN_BYTES.store(own_bytes, Relaxed);
    let is_member = program.settings.group.is_some() && is_paged;
    SHARE_BYTES.store(if is_member { 0 } else { u64::MAX }, Relaxed);
    CEILING_BYTES.store(u64::MAX, Relaxed);
    OWES.store(false, Relaxed);
    IS_AWAITED.store(false, Relaxed);
}

fn lock() -> std::sync::MutexGuard<'static, Option<Member>> {
    MEMBER
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Changes the member's place by what counts of the program, and its budget with it.
fn change(program: &Program, change: impl FnOnce(&mut Member, u64)) {
    if program.settings.group.is_none() {
        return;
    }
    let unpaged_bytes = (!program.space.is_adopted()).then(anonymous_bytes);
    program.space.adjust_budget(|paged_bytes| {
        let mut member = lock();
        let member = member.as_mut()?;
        let used_bytes = unpaged_bytes.unwrap_or(paged_bytes);
        change(member, used_bytes.saturating_sub(OWN_BYTES.load(Relaxed)));
        Some(share_bytes(program))
    });
}

/// Now and then: gives what is owed or not used, and of a program that is not paged yet, takes what it uses.
pub fn tick(program: &Program) {
    let is_paged = program.space.is_adopted();
    change(program, |member, used_bytes| {
        member.tick(used_bytes, is_paged)
    });
}

/// The program's user comes.
pub fn foreground(program: &Program) {
    change(program, |member, _| member.foreground());
}

/// Its launch is over.
pub fn launch_done(program: &Program) {
    change(program, |member, _| member.launch_done());
}

/// Its user looks at something else.
pub fn background(program: &Program) {
    change(program, |member, _| member.background());
    note_shrinkable(program);
}

/// Notes what it could do with less of, for those that ask.
pub fn note_shrinkable(program: &Program) {
    if program.settings.group.is_none() {
        return;
    }
    let is_paged = program.space.is_adopted();
    let shrinkable = is_paged.then(|| program.space.shrinkable());
    change(program, |member, _| member.note_shrinkable(shrinkable));
}

/// Frames are few. Called by the pager, with its lock.
fn more_budget(lacking_bytes: u64) -> MoreBudget {
    lock()
        .as_mut()
        .map_or(MoreBudget::None, |member| member.borrow(lacking_bytes))
}

/// Anonymous memory of this process in frames.
pub fn anonymous_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = statm.split(' ').map(|field| field.parse().unwrap_or(0u64));
    let (resident, shared) = (fields.nth(1).unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * 4096
}

impl Member {
    /// Does something with the shares; what members are called is the second of what `work` gives.
    fn with<R>(&self, work: impl FnOnce(&mut Shares, usize, u64) -> (R, Vec<usize>)) -> Option<R> {
        self.membership.with(|shares, place, now_ms| {
            let result = work(shares, place, now_ms);
            let own = &shares.members[place];
            // What it owes it has no use of already.
            SHARE_BYTES.store(own.share_bytes - own.owed_bytes, Relaxed);
            OWES.store(own.owed_bytes > 0, Relaxed);
            IS_AWAITED.store(own.owed_bytes > 0 && !own.is_late(now_ms), Relaxed);
            CEILING_BYTES.store(shares.ceiling_bytes(place), Relaxed);
            result
        })
    }

    fn step_bytes(&self) -> u64 {
        self.budget_bytes / TAKE_DIVISOR
    }

    fn tick(&mut self, used_bytes: u64, is_paged: bool) {
        let unused_bytes = self.step_bytes() + UNUSED_BYTES;
        let rests = self.rests();
        let is_background = keeper::phase() == Phase::Background;
        let has_asked = self.with(|shares, place, now_ms| {
            // It could not be told where the table was locked then.
            if shares.members[place].is_background != is_background {
                shares.used(place, is_background, now_ms);
            }
            let own = shares.members[place];
            let spare_bytes = own.share_bytes.saturating_sub(used_bytes);
            if own.owed_bytes > 0 {
                let given_bytes = spare_bytes.min(own.owed_bytes);
                if given_bytes >= own.owed_bytes.min(GIVE_BYTES) {
                    shares.give(place, given_bytes, now_ms);
                }
            } else if spare_bytes > 2 * unused_bytes {
                shares.give(place, spare_bytes - unused_bytes, now_ms);
            }
            let lacking_bytes = (used_bytes + unused_bytes).saturating_sub(own.share_bytes);
            // One that was asked and was late is asked again.
            if is_paged || lacking_bytes == 0 || own.owed_bytes > 0 {
                return (false, shares.ask_for_reserve(now_ms));
            }
            let taken_bytes = shares.take(place, lacking_bytes);
            if taken_bytes == lacking_bytes || rests {
                return (false, shares.ask_for_reserve(now_ms));
            }
            let called = shares.ask(place, lacking_bytes - taken_bytes, now_ms);
            (true, called)
        });
        if has_asked == Some(true) {
            self.rest();
        }
    }

    /// None is asked for a while.
    fn rest(&mut self) {
        self.asked = None;
        self.rests_until = Some(Instant::now() + VAIN_PAUSE);
    }

    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// Takes what a pager lacks, and asks for it, and for what is needed next.
    fn borrow(&mut self, lacking_bytes: u64) -> MoreBudget {
        let wanted_bytes = lacking_bytes.max(self.step_bytes());
        let asked_bytes = lacking_bytes.max(self.budget_bytes / ASK_DIVISOR);
        let may_ask = !self.rests();
        let found = self.with(|shares, place, now_ms| {
            if shares.members[place].owed_bytes > 0 {
                return ((0, false), Vec::new());
            }
            let taken_bytes = shares.take(place, wanted_bytes);
            // At the limit more, so that few rounds are enough.
            let asked_bytes = asked_bytes * if taken_bytes == 0 { 2 } else { 1 };
            let called = match may_ask {
                true => shares.ask(place, asked_bytes, now_ms),
                false => Vec::new(),
            };
            let can_come = may_ask && shares.owed_bytes(now_ms) > 0;
            ((taken_bytes, can_come), called)
        });
        let (taken_bytes, can_come) = found.unwrap_or_default();
        if taken_bytes > 0 {
            self.asked = None;
            return MoreBudget::Bytes(taken_bytes);
        }
        let asked = *self.asked.get_or_insert_with(Instant::now);
        if can_come && asked.elapsed() < ROUND {
            return MoreBudget::Soon;
        }
        if may_ask {
            self.rest();
        }
        MoreBudget::None
    }

    fn foreground(&mut self) {
        (self.asked, self.rests_until) = (None, None);
        let launch_bytes = self.launch_bytes;
        self.launch_share_bytes = self.with(|shares, place, now_ms| {
            shares.used(place, false, now_ms);
            let called = shares.ask(place, launch_bytes, now_ms);
            (shares.members[place].share_bytes, called)
        });
    }

    fn launch_done(&mut self) {
        let Some(before_bytes) = self.launch_share_bytes.take() else {
            return;
        };
        let took_bytes = self.with(|shares, place, now_ms| {
            let took_bytes = shares.members[place]
                .share_bytes
                .saturating_sub(before_bytes);
            shares.launch_took(took_bytes);
            (took_bytes, shares.ask_for_reserve(now_ms))
        });
        self.launch_bytes = took_bytes.unwrap_or(self.launch_bytes);
    }

    fn background(&mut self) {
        self.launch_share_bytes = None;
        self.with(|shares, place, now_ms| {
            shares.used(place, true, now_ms);
            ((), Vec::new())
        });
    }

    fn note_shrinkable(&mut self, shrinkable: Option<Shrinkable>) {
        self.with(|shares, place, now_ms| {
            let own = &mut shares.members[place];
            // Of what is not paged yet nothing is known, and nothing is hot.
            let shrinkable = shrinkable.unwrap_or(Shrinkable {
                cool_bytes: own.share_bytes,
                least_bytes: 0,
            });
            own.cool_bytes = shrinkable.cool_bytes;
            own.least_bytes = shrinkable.least_bytes;
            ((), shares.ask_for_reserve(now_ms))
        });
    }
}
