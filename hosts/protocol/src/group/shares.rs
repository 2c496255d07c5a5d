//! How a group divides its budget: arithmetic without I/O and without a clock.
//!
//! Shares never add up to more than the budget. A member takes what no member has; where that is too little it asks, and
//! others are to give: background members in the order of their last use, what is not hot first (HotnessOrg of Ariadne,
//! section 4.2, across programs), then members in the foreground that have more than an equal part. A share shrinks only when
//! its owner gives.

/// Members of a group at most.
pub const MOST_MEMBERS: usize = 64;

/// A member keeps so much, where the budget has it for all: with less, a pager holds hardly more than its own state.
pub const LEAST_SHARE_BYTES: u64 = 8 << 20;

/// A member that was asked and has given nothing for so long is passed over: it is stopped, or cannot give.
const PATIENCE_MS: u64 = 50;

/// The reserve is this part of the budget at most.
const RESERVE_DIVISOR: u64 = 8;

/// A program of a group. Times are of one clock, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its process; 0 for a place without a member.
    pub pid: u32,
    /// Its user looks at something else.
    pub is_background: bool,
    /// When its user last came or left.
    pub last_used_ms: u64,
    /// What it may have of the budget.
    pub share_bytes: u64,
    /// What it is to give of that.
    pub owed_bytes: u64,
    /// When it was asked, or last gave something.
    pub asked_ms: u64,
    /// What it could give before anything hot.
    pub cool_bytes: u64,
    /// What it cannot do with less than: all of its memory, compressed.
    pub least_bytes: u64,
}

impl Member {
    /// Whether it was asked and does not give.
    #[must_use]
    pub fn is_late(&self, now_ms: u64) -> bool {
        self.owed_bytes > 0 && now_ms.saturating_sub(self.asked_ms) > PATIENCE_MS
    }
}

/// The shares of a group. Members are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// What the members have together.
    pub budget_bytes: u64,
    /// Background members leave so much for the next launch.
    pub reserve_bytes: u64,
    /// Its members, and places without one.
    pub members: [Member; MOST_MEMBERS],
}

impl Shares {
    /// No members.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            reserve_bytes: 0,
            members: [Member::default(); MOST_MEMBERS],
        }
    }

    /// What no member has.
    #[must_use]
    pub fn unassigned_bytes(&self) -> u64 {
        let shares = self.members.iter().map(|member| member.share_bytes);
        self.budget_bytes.saturating_sub(shares.sum())
    }

    /// What a member may have without others giving.
    #[must_use]
    pub fn ceiling_bytes(&self, place: usize) -> u64 {
        self.members[place].share_bytes + self.unassigned_bytes()
    }

    /// What each member keeps.
    #[must_use]
    pub fn floor_bytes(&self) -> u64 {
        LEAST_SHARE_BYTES.min(self.budget_bytes / self.places().count().max(1) as u64)
    }

    /// What each member in the foreground has where they have the same, and the others what they keep.
    fn equal_bytes(&self) -> u64 {
        let all = self.places().count() as u64;
        let background = self.in_order(|_, member| member.is_background).len() as u64;
        (self.budget_bytes - background * self.floor_bytes()) / (all - background).max(1)
    }

    /// Places with a member.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MOST_MEMBERS).filter(|&place| self.members[place].pid != 0)
    }

    /// Adds a member in the foreground, without a share; `None` where there are too many.
    pub fn join(&mut self, pid: u32, now_ms: u64) -> Option<usize> {
        let place = self.members.iter().position(|member| member.pid == 0)?;
        self.members[place] = Member {
            pid,
            last_used_ms: now_ms,
            ..Member::default()
        };
        Some(place)
    }

    /// A member has ended: nobody has its share.
    pub fn leave(&mut self, place: usize) {
        self.members[place] = Member::default();
    }

    /// The member's user comes or leaves. What it owed is not asked of one that is used.
    pub fn used(&mut self, place: usize, is_background: bool, now_ms: u64) {
        let member = &mut self.members[place];
        member.is_background = is_background;
        member.last_used_ms = now_ms;
        if !is_background {
            member.owed_bytes = 0;
        }
    }

    /// Gives a member up to so many bytes of what no member has; how many.
    pub fn take(&mut self, place: usize, wanted_bytes: u64) -> u64 {
        let taken_bytes = wanted_bytes.min(self.takeable_bytes(place));
        self.members[place].share_bytes += taken_bytes;
        taken_bytes
    }

    /// What a member may take: the reserve is for the foreground, and for members below the floor.
    fn takeable_bytes(&self, place: usize) -> u64 {
        let member = &self.members[place];
        let unassigned_bytes = self.unassigned_bytes();
        if !member.is_background {
            return unassigned_bytes;
        }
        let to_floor = self.floor_bytes().saturating_sub(member.share_bytes);
        let beyond_reserve = unassigned_bytes.saturating_sub(self.reserve_bytes);
        beyond_reserve.max(to_floor.min(unassigned_bytes))
    }

    /// A member gives up to so many bytes of its share back.
    pub fn give(&mut self, place: usize, bytes: u64, now_ms: u64) {
        let member = &mut self.members[place];
        let given_bytes = bytes.min(member.share_bytes);
        member.share_bytes -= given_bytes;
        member.owed_bytes = member.owed_bytes.saturating_sub(given_bytes);
        member.cool_bytes = member.cool_bytes.saturating_sub(given_bytes);
        member.asked_ms = now_ms;
    }

    /// What members are to give that are not late.
    #[must_use]
    pub fn owed_bytes(&self, now_ms: u64) -> u64 {
        let in_time = self.members.iter().filter(|member| !member.is_late(now_ms));
        in_time.map(|member| member.owed_bytes).sum()
    }

    /// A launch has taken so much: as much is to be there for the next one, and less again when launches take less.
    pub fn launch_took(&mut self, bytes: u64) {
        let fading_bytes = self.reserve_bytes - self.reserve_bytes / 8;
        let most_bytes = self.budget_bytes / RESERVE_DIVISOR;
        self.reserve_bytes = bytes.max(fading_bytes).min(most_bytes);
    }

    /// Asks others to give what a member lacks of so many bytes, beside what it can take and what is asked of others already:
    /// a member in the foreground all others, and one in the background those that were used before it; up to the floor it
    /// asks as one in the foreground does. Those that owe more than before.
    pub fn ask(&mut self, place: usize, wanted_bytes: u64, now_ms: u64) -> Vec<usize> {
        let asking = self.members[place];
        let to_floor = self.floor_bytes().saturating_sub(asking.share_bytes);
        let is_urgent = !asking.is_background || to_floor > 0;
        let wanted_bytes = match asking.is_background && to_floor > 0 {
            true => wanted_bytes.min(to_floor),
            false => wanted_bytes,
        };
        let lacking_bytes = wanted_bytes.saturating_sub(self.takeable_bytes(place));
        let mut called = self.call_background(lacking_bytes, now_ms, |other, member| {
            other != place && (is_urgent || member.last_used_ms < asking.last_used_ms)
        });
        if is_urgent {
            let order = self.in_order(|other, member| !member.is_background && other != place);
            let equal_bytes = self.equal_bytes();
            called.extend(self.call(&order, lacking_bytes, now_ms, |_| (u64::MAX, equal_bytes)));
        }
        called.sort_unstable();
        called.dedup();
        called
    }

    /// Asks background members to give until the reserve is there. Those that owe more than before.
    pub fn ask_for_reserve(&mut self, now_ms: u64) -> Vec<usize> {
        let lacking_bytes = self.reserve_bytes.saturating_sub(self.unassigned_bytes());
        self.call_background(lacking_bytes, now_ms, |_, _| true)
    }

    /// Has background members owe: what is not hot first.
    fn call_background(
        &mut self,
        lacking_bytes: u64,
        now_ms: u64,
        may_give: impl Fn(usize, &Member) -> bool,
    ) -> Vec<usize> {
        let order = self.in_order(|place, member| member.is_background && may_give(place, member));
        let mut called = self.call(&order, lacking_bytes, now_ms, |member| {
            (member.cool_bytes, 0)
        });
        called.extend(self.call(&order, lacking_bytes, now_ms, |_| (u64::MAX, 0)));
        called
    }

    /// Such members, least recently used first.
    fn in_order(&self, is_in: impl Fn(usize, &Member) -> bool) -> Vec<usize> {
        let mut order: Vec<_> = self.places().collect();
        order.retain(|&place| is_in(place, &self.members[place]));
        order.sort_by_key(|&place| self.members[place].last_used_ms);
        order
    }

    /// Has members owe, one after the other, until all that is owed is so much. `most` is what one may owe, and what it keeps
    /// at least.
    fn call(
        &mut self,
        order: &[usize],
        lacking_bytes: u64,
        now_ms: u64,
        most: impl Fn(&Member) -> (u64, u64),
    ) -> Vec<usize> {
        let floor_bytes = self.floor_bytes();
        let mut left_bytes = lacking_bytes.saturating_sub(self.owed_bytes(now_ms));
        let mut called = Vec::new();
        for &place in order {
            let member = &mut self.members[place];
            let (most_bytes, kept_bytes) = most(member);
            let kept_bytes = kept_bytes.max(floor_bytes).max(member.least_bytes);
            let can_give = most_bytes.min(member.share_bytes.saturating_sub(kept_bytes));
            let more_bytes = can_give.saturating_sub(member.owed_bytes).min(left_bytes);
            if more_bytes > 0 && !member.is_late(now_ms) {
                if member.owed_bytes == 0 {
                    member.asked_ms = now_ms;
                }
                member.owed_bytes += more_bytes;
                left_bytes -= more_bytes;
                called.push(place);
            }
        }
        called
    }
}

#[cfg(test)]
mod tests;
