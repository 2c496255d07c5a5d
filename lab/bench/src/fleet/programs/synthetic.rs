//! The manually created applications of section 6: objects of one size, as many as fill a footprint.
//!
//! # Graph
//!
//! A few tables hold references to *groups*. A group is a *head*, which is near a root, and its *members*, which are a
//! list, or a binary tree. Recent activity is a ring of *sessions*, near a root too; a session says which groups
//! an action used. With groups of ten, a tenth of the memory is at a distance below 2 from the roots, as the paper found
//! for applications (section 4.2: 10.4 % on average).
//!
//! # What a launch touches
//!
//! The paper found that among the objects that a launch accesses, about 50 % are near the roots (NRO), about 40 % young
//! (FYO), and 68 % one or both, so that 22 % are both. How many these are it does not say. Here a launch of 2 % of all objects consists of
//!
//! | part | share | is |
//! |---|---|---|
//! | heads of the home groups, always the same | 28 % | NRO |
//! | members of the home groups, always the same | 26 % | neither; can be learned |
//! | heads of the groups that were used last | 22 % | NRO and FYO |
//! | members of these | 18 % | FYO |
//! | groups drawn at random | 6 % | half of them NRO |
//!
//! provided that foreground use before it was long enough: 20 actions or more, where each replaces as many objects as
//! 0.06 % of all. Measured with the sizes of the paper after 20 actions, with the footprints that the heap reports: 53 %
//! of the objects that a launch accesses are NRO (10 % of the bytes), 31 to 35 % FYO (0.6 %), 66 to 67 % either. The FYO
//! are a smaller part of the heap than the paper's 9.3 %, which ten minutes of use had allocated.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use warmswap_heap::{Mutator, Record, Ref, Refs, Root};

use super::super::program::{Program, ProgramError};
use super::common::{Checksum, Draw, not_started, with_room};
use super::filler::{HEADER_BYTES, REFERENCES, alloc, copy_references, read};

/// Objects of a group, its head included.
const GROUP_OBJECTS: usize = 10;
/// Heads in a table: 16 KiB of references, so that it is no large object.
const TABLE_GROUPS: usize = 4096;
/// The head's reference to its first member; a member's to its first child.
const FIRST: usize = 0;
/// A member's reference to its second child.
const SECOND: usize = 1;
/// The head's reference to what the background changes.
const NOTE: usize = 7;
/// Words of data before the group numbers of a session: its number, and how many there are.
const SESSION_WORDS: usize = 2;
/// Sessions that are kept: together they used more groups than a launch looks at.
const KEPT_SESSIONS: usize = 256;
/// Objects that the background holds at a time; the others are garbage.
const SCRATCH: usize = 64;

/// How large the program is.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticOptions {
    /// Size of an object, header included: 512 or 2048 in the paper. At least 128, a multiple of 8.
    pub object_bytes: usize,
    /// Bytes of all objects: 180 MB in the paper.
    pub footprint_bytes: usize,
    /// Where everything random comes from.
    pub seed: u64,
}

impl SyntheticOptions {
    /// The small-object application.
    #[must_use]
    pub const fn small(footprint_bytes: usize, seed: u64) -> Self {
        Self {
            object_bytes: 512,
            footprint_bytes,
            seed,
        }
    }

    /// The large-object application.
    #[must_use]
    pub const fn large(footprint_bytes: usize, seed: u64) -> Self {
        Self {
            object_bytes: 2048,
            ..Self::small(footprint_bytes, seed)
        }
    }
}

/// A program of objects of one size. See the module.
#[derive(Debug)]
pub struct Synthetic {
    name: String,
    data_bytes: usize,
    groups: usize,
    draw: Draw,
    /// Number of the next object.
    next_object: u32,
    sessions_so_far: usize,
    roots: Option<Roots>,
}

#[derive(Debug)]
struct Roots {
    tables: Vec<Root<Refs<Record>>>,
    sessions: Root<Refs<Record>>,
    scratch: Root<Refs<Record>>,
}

impl Roots {
    fn head<'m>(&self, mutator: &'m Mutator, group: usize) -> Option<Ref<'m, Record>> {
        let table = self.tables.get(group / TABLE_GROUPS)?;
        table.get(mutator).get(mutator, group % TABLE_GROUPS)
    }

    fn set_head(&self, mutator: &Mutator, group: usize, head: Ref<'_, Record>) {
        let table = self.tables[group / TABLE_GROUPS].get(mutator);
        table.set(mutator, group % TABLE_GROUPS, Some(head));
    }
}

impl Synthetic {
    /// A program; nothing is allocated yet.
    #[must_use]
    pub fn new(options: SyntheticOptions) -> Self {
        let object_bytes = options.object_bytes.max(128).next_multiple_of(8);
        let objects = options.footprint_bytes / object_bytes;
        Self {
            name: format!("synthetic-{object_bytes}"),
            data_bytes: object_bytes - HEADER_BYTES - REFERENCES * size_of::<u32>(),
            groups: (objects / GROUP_OBJECTS).max(8),
            draw: Draw::new(options.seed),
            next_object: 1,
            sessions_so_far: 0,
            roots: None,
        }
    }

    fn objects(&self) -> usize {
        self.groups * GROUP_OBJECTS
    }

    /// Groups that an action uses; it replaces a part of each: 0.06 % of all objects, 1.8 for each group.
    fn groups_of_action(&self) -> usize {
        (self.objects() / 3000).clamp(1, self.most_session_groups())
    }

    fn most_session_groups(&self) -> usize {
        (self.data_bytes / 4).saturating_sub(SESSION_WORDS).max(1)
    }

    fn next_number(&mut self) -> u32 {
        let number = self.next_object;
        self.next_object = self.next_object.wrapping_add(1).max(1);
        number
    }

    fn roots(&self) -> Result<&Roots, ProgramError> {
        self.roots.as_ref().ok_or_else(|| not_started(&self.name))
    }

    fn load_group(&mut self, mutator: &mut Mutator, group: usize) -> Result<(), ProgramError> {
        let first = self.next_object;
        self.next_object = self.next_object.wrapping_add(GROUP_OBJECTS as u32);
        let is_list = self.draw.percent(50);
        let data_bytes = self.data_bytes;
        let roots = self.roots()?;
        with_room(mutator, |mutator| {
            let mut objects = Vec::with_capacity(GROUP_OBJECTS);
            for i in 0..GROUP_OBJECTS {
                let number = first.wrapping_add(i as u32);
                let object = alloc(mutator, number, data_bytes)?;
                let parent = match i {
                    0 => None,
                    _ if is_list => Some((i - 1, FIRST)),
                    1 => Some((0, FIRST)),
                    // A binary tree from object 1 on.
                    _ => Some((i / 2, i % 2)),
                };
                if let Some((parent, slot)) = parent {
                    let parent: Ref<'_, Record> = objects[parent];
                    parent.set(mutator, slot, Some(object));
                }
                objects.push(object);
            }
            roots.set_head(mutator, group, objects[0]);
            Ok(())
        })
    }

    /// Replaces the head of a group, and most times its first member.
    fn replace(&mut self, mutator: &mut Mutator, group: usize) -> Result<(), ProgramError> {
        let (head_number, member_number) = (self.next_number(), self.next_number());
        let with_member = self.draw.percent(80);
        let data_bytes = self.data_bytes;
        let roots = self.roots()?;
        with_room(mutator, |mutator| {
            let Some(old) = roots.head(mutator, group) else {
                return Ok(());
            };
            let head = alloc(mutator, head_number, data_bytes)?;
            copy_references(mutator, old, head);
            if let Some(old_member) = old.get(mutator, FIRST).filter(|_| with_member) {
                let member = alloc(mutator, member_number, data_bytes)?;
                copy_references(mutator, old_member, member);
                head.set(mutator, FIRST, Some(member));
            }
            roots.set_head(mutator, group, head);
            Ok(())
        })
    }

    /// Notes at the front of the recent activity which groups an action used.
    fn append_session(
        &mut self,
        mutator: &mut Mutator,
        used: &[usize],
    ) -> Result<(), ProgramError> {
        let number = self.next_number();
        let data_bytes = self.data_bytes;
        let at = self.sessions_so_far % KEPT_SESSIONS;
        self.sessions_so_far += 1;
        let roots = self.roots()?;
        with_room(mutator, |mutator| {
            let session = alloc(mutator, number, data_bytes)?;
            let words = session.data(mutator);
            let header = [number, used.len() as u32];
            let groups = used.iter().map(|&group| group as u32);
            for (word, value) in words.iter().zip(header.into_iter().chain(groups)) {
                word.store(value, Ordering::Relaxed);
            }
            roots.sessions.get(mutator).set(mutator, at, Some(session));
            Ok(())
        })
    }

    /// The groups that the last actions used, the last one first, each once, at most `most`.
    fn recent_groups(
        &self,
        mutator: &mut Mutator,
        most: usize,
        sum: &mut Checksum,
    ) -> Result<Vec<usize>, ProgramError> {
        let roots = self.roots()?;
        let kept = KEPT_SESSIONS;
        let (mut groups, mut seen) = (Vec::new(), HashSet::new());
        for back in 1..=kept.min(self.sessions_so_far) {
            mutator.safepoint();
            if groups.len() >= most {
                break;
            }
            let at = (self.sessions_so_far - back) % kept;
            let Some(session) = roots.sessions.get(mutator).get(mutator, at) else {
                continue;
            };
            read(mutator, session, sum);
            let words = session.data(mutator);
            let count = words[1].load(Ordering::Relaxed) as usize;
            for word in &words[SESSION_WORDS..SESSION_WORDS + count] {
                let group = word.load(Ordering::Relaxed) as usize;
                if groups.len() < most && seen.insert(group) {
                    groups.push(group);
                }
            }
        }
        Ok(groups)
    }

    /// Reads a group's head and so many of its members, the ones nearest to it first.
    fn read_group(
        &self,
        mutator: &Mutator,
        group: usize,
        members: usize,
        sum: &mut Checksum,
    ) -> Result<(), ProgramError> {
        let Some(head) = self.roots()?.head(mutator, group) else {
            return Ok(());
        };
        read(mutator, head, sum);
        // What is not read is not loaded either: a load is an access.
        let mut read_so_far = vec![head];
        let mut at = 0;
        while read_so_far.len() <= members && at < read_so_far.len() {
            let of = if at == 0 {
                [FIRST].as_slice()
            } else {
                &[FIRST, SECOND]
            };
            for &slot in of {
                if read_so_far.len() <= members
                    && let Some(member) = read_so_far[at].get(mutator, slot)
                {
                    read(mutator, member, sum);
                    read_so_far.push(member);
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// The group that is `rank`th among those that people use often: spread over all tables.
    fn by_rank(&self, rank: usize) -> usize {
        // Coprime to every number of groups below it.
        const STEP: usize = 1_000_000_007;
        (rank % self.groups).wrapping_mul(STEP) % self.groups
    }
}

impl Program for Synthetic {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, mutator: &mut Mutator) -> Result<(), ProgramError> {
        let (groups, kept) = (self.groups, KEPT_SESSIONS);
        let mut tables = Vec::new();
        for first in (0..groups).step_by(TABLE_GROUPS) {
            let len = TABLE_GROUPS.min(groups - first);
            tables.push(with_room(mutator, |mutator| {
                Ok(mutator.root(mutator.alloc_refs(len)?))
            })?);
        }
        let roots = with_room(mutator, |mutator| {
            Ok((
                mutator.root(mutator.alloc_refs(kept)?),
                mutator.root(mutator.alloc_refs(SCRATCH)?),
            ))
        });
        let (sessions, scratch) = roots?;
        self.roots = Some(Roots {
            tables,
            sessions,
            scratch,
        });
        for group in 0..groups {
            mutator.safepoint();
            self.load_group(mutator, group)?;
        }
        Ok(())
    }

    fn use_it(&mut self, mutator: &mut Mutator, actions: usize) -> Result<u64, ProgramError> {
        let mut sum = Checksum::new();
        let count = self.groups_of_action();
        for _ in 0..actions {
            let mut used = Vec::with_capacity(count);
            for _ in 0..count {
                mutator.safepoint();
                let rank = self.draw.zipf(self.groups);
                let group = self.by_rank(rank);
                self.read_group(mutator, group, GROUP_OBJECTS, &mut sum)?;
                self.replace(mutator, group)?;
                used.push(group);
            }
            self.append_session(mutator, &used)?;
        }
        Ok(sum.get())
    }

    fn work_in_background(
        &mut self,
        mutator: &mut Mutator,
        bytes: usize,
        old_changes: usize,
    ) -> Result<(), ProgramError> {
        let data_bytes = self.data_bytes;
        for change in 0..old_changes {
            mutator.safepoint();
            let number = self.next_number();
            let rank = self.draw.zipf(self.groups) + change;
            let group = self.by_rank(rank);
            let roots = self.roots()?;
            with_room(mutator, |mutator| {
                let note = alloc(mutator, number, data_bytes)?;
                if let Some(head) = roots.head(mutator, group) {
                    head.set(mutator, NOTE, Some(note));
                }
                Ok(())
            })?;
        }
        let objects = bytes / (data_bytes + HEADER_BYTES + REFERENCES * size_of::<u32>());
        for i in old_changes..objects.max(old_changes) {
            mutator.safepoint();
            let number = self.next_number();
            let roots = self.roots()?;
            with_room(mutator, |mutator| {
                let object = alloc(mutator, number, data_bytes)?;
                let scratch = roots.scratch.get(mutator);
                // A short list, whose end is cut off.
                let before = scratch.get(mutator, i % SCRATCH).filter(|_| i % 3 > 0);
                object.set(mutator, FIRST, before);
                scratch.set(mutator, i % SCRATCH, Some(object));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn launch(&mut self, mutator: &mut Mutator) -> Result<u64, ProgramError> {
        let mut sum = Checksum::new();
        let objects = self.objects() / 50;
        let (home, recent, random) = (objects * 28 / 100, objects * 22 / 100, objects * 3 / 100);
        // Home groups are behind those that people use most, which are young as often as not.
        let first = self.groups / 5;
        for rank in first..first + home.max(1) {
            mutator.safepoint();
            let members = usize::from(rank % 14 != 0);
            let group = self.by_rank(rank);
            self.read_group(mutator, group, members, &mut sum)?;
        }
        let groups = self.recent_groups(mutator, recent.max(1), &mut sum)?;
        for (i, group) in groups.into_iter().enumerate() {
            mutator.safepoint();
            self.read_group(mutator, group, usize::from(i % 5 != 0), &mut sum)?;
        }
        for _ in 0..random {
            mutator.safepoint();
            let group = self.draw.below(self.groups);
            self.read_group(mutator, group, 1, &mut sum)?;
        }
        Ok(sum.get())
    }
}
