//! A B-tree of messages on the heap. Values are in the leaves.
//!
//! Full nodes are split on the way down and empty ones removed on the way up; nodes that are less than half full stay
//! as they are, as in databases that delete little. An insertion that finds the heap full leaves a tree without the key
//! that is whole otherwise.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use warmswap_heap::{AllocError, Field, Mutator, Ref, Refs, object};

use super::mail_store::Message;

/// Keys of a node.
const WIDTH: usize = 32;

object! {
    /// A node.
    pub struct Node {
        count: AtomicU32,
        /// In the leaves; empty elsewhere.
        values: Field<Refs<Message>>,
        /// The children; empty in leaves.
        children: Field<Refs<Node>>,
        /// In inner nodes: no key of a child is less. The first one is not looked at.
        keys: [AtomicU64; 32],
    }
}

impl Node {
    fn alloc(mutator: &Mutator, is_leaf: bool) -> Result<Ref<'_, Self>, AllocError> {
        let node = mutator.alloc(Self {
            count: AtomicU32::new(0),
            values: Field::null(),
            children: Field::null(),
            keys: Default::default(),
        })?;
        if is_leaf {
            node.values.set(mutator, Some(mutator.alloc_refs(WIDTH)?));
        } else {
            node.children.set(mutator, Some(mutator.alloc_refs(WIDTH)?));
        }
        Ok(node)
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    fn set_count(&self, count: usize) {
        self.count.store(count as u32, Ordering::Relaxed);
    }

    fn key(&self, i: usize) -> u64 {
        self.keys[i].load(Ordering::Relaxed)
    }

    fn set_key(&self, i: usize, key: u64) {
        self.keys[i].store(key, Ordering::Relaxed);
    }

    /// The child for a key.
    fn place_of(&self, key: u64) -> usize {
        (1..self.count())
            .take_while(|&i| self.key(i) <= key)
            .last()
            .unwrap_or(0)
    }

    /// The first key of a leaf that is not less.
    fn first_at_least(&self, key: u64) -> usize {
        let mut keys = 0..self.count();
        keys.find(|&i| self.key(i) >= key)
            .unwrap_or_else(|| self.count())
    }

    fn child<'m>(&self, mutator: &'m Mutator, i: usize) -> Option<Ref<'m, Self>> {
        self.children.get(mutator)?.get(mutator, i)
    }

    /// Makes room for a key and its reference.
    fn open_gap(&self, mutator: &Mutator, at: usize) {
        let count = self.count();
        for i in (at..count).rev() {
            self.move_entry(mutator, i, i + 1);
        }
        self.set_count(count + 1);
    }

    /// Takes a key and its reference away.
    fn close_gap(&self, mutator: &Mutator, at: usize) {
        let count = self.count();
        for i in at + 1..count {
            self.move_entry(mutator, i, i - 1);
        }
        self.set_count(count - 1);
        if let Some(values) = self.values.get(mutator) {
            values.set(mutator, count - 1, None);
        }
        if let Some(children) = self.children.get(mutator) {
            children.set(mutator, count - 1, None);
        }
    }

    fn move_entry(&self, mutator: &Mutator, from: usize, to: usize) {
        self.set_key(to, self.key(from));
        if let Some(values) = self.values.get(mutator) {
            values.set(mutator, to, values.get(mutator, from));
        }
        if let Some(children) = self.children.get(mutator) {
            children.set(mutator, to, children.get(mutator, from));
        }
    }

    /// Splits a full child.
    fn split_child(&self, mutator: &Mutator, at: usize) -> Result<(), AllocError> {
        let Some((children, left)) = self.children.get(mutator).zip(self.child(mutator, at)) else {
            return Ok(());
        };
        let is_leaf = left.children.is_null();
        let right = Self::alloc(mutator, is_leaf)?;
        for i in WIDTH / 2..WIDTH {
            right.set_key(i - WIDTH / 2, left.key(i));
            if let Some((from, to)) = left.values.get(mutator).zip(right.values.get(mutator)) {
                to.set(mutator, i - WIDTH / 2, from.get(mutator, i));
                from.set(mutator, i, None);
            }
            if let Some((from, to)) = left.children.get(mutator).zip(right.children.get(mutator)) {
                to.set(mutator, i - WIDTH / 2, from.get(mutator, i));
                from.set(mutator, i, None);
            }
        }
        left.set_count(WIDTH / 2);
        right.set_count(WIDTH / 2);
        self.open_gap(mutator, at + 1);
        self.set_key(at + 1, right.key(0));
        children.set(mutator, at + 1, Some(right));
        Ok(())
    }
}

/// Adds a message under a key, in place of one that was under it.
pub fn insert(
    mutator: &Mutator,
    tree: &Field<Node>,
    key: u64,
    message: Ref<'_, Message>,
) -> Result<(), AllocError> {
    let mut node = match tree.get(mutator) {
        Some(node) => node,
        None => {
            let node = Node::alloc(mutator, true)?;
            tree.set(mutator, Some(node));
            node
        }
    };
    if node.count() == WIDTH {
        let above = Node::alloc(mutator, false)?;
        if let Some(children) = above.children.get(mutator) {
            children.set(mutator, 0, Some(node));
        }
        above.set_count(1);
        above.split_child(mutator, 0)?;
        tree.set(mutator, Some(above));
        node = above;
    }
    loop {
        if let Some(values) = node.values.get(mutator) {
            let at = node.first_at_least(key);
            if at == node.count() || node.key(at) != key {
                node.open_gap(mutator, at);
                node.set_key(at, key);
            }
            values.set(mutator, at, Some(message));
            return Ok(());
        }
        let at = node.place_of(key);
        let Some(child) = node.child(mutator, at) else {
            return Ok(());
        };
        if child.count() == WIDTH {
            node.split_child(mutator, at)?;
        } else {
            node = child;
        }
    }
}

/// Takes a key away; whether it was there.
pub fn remove(mutator: &Mutator, tree: &Field<Node>, key: u64) -> bool {
    let Some(mut node) = tree.get(mutator) else {
        return false;
    };
    let mut path = Vec::new();
    while node.values.is_null() {
        let at = node.place_of(key);
        path.push((node, at));
        match node.child(mutator, at) {
            Some(child) => node = child,
            None => return false,
        }
    }
    let at = node.first_at_least(key);
    if at == node.count() || node.key(at) != key {
        return false;
    }
    node.close_gap(mutator, at);
    while let Some((above, at)) = path.pop().filter(|_| node.count() == 0) {
        above.close_gap(mutator, at);
        node = above;
    }
    if node.count() == 0 {
        tree.set(mutator, None);
    }
    true
}

/// Calls `visit` with the keys from `from` on, in ascending order, until it breaks.
pub fn ascend<'m>(
    mutator: &'m Mutator,
    tree: &Field<Node>,
    from: u64,
    mut visit: impl FnMut(u64, Ref<'m, Message>) -> ControlFlow<()>,
) {
    let mut path: Vec<(Ref<'m, Node>, usize)> = Vec::new();
    let mut next = tree.get(mutator);
    loop {
        while let Some(node) = next {
            let is_leaf = !node.values.is_null();
            let at = match is_leaf {
                true => node.first_at_least(from),
                false => node.place_of(from),
            };
            path.push((node, at));
            next = node.child(mutator, at).filter(|_| !is_leaf);
        }
        let Some((leaf, first)) = path.pop() else {
            return;
        };
        if let Some(values) = leaf.values.get(mutator) {
            for i in first..leaf.count() {
                if let Some(message) = values.get(mutator, i)
                    && visit(leaf.key(i), message).is_break()
                {
                    return;
                }
            }
        }
        // The next leaf; its keys are all greater than `from`.
        while next.is_none() {
            let Some((node, at)) = path.pop() else {
                return;
            };
            if at + 1 < node.count() {
                path.push((node, at + 1));
                next = node.child(mutator, at + 1);
            }
        }
    }
}

/// The messages with the greatest keys, the greatest first.
pub fn last<'m>(mutator: &'m Mutator, tree: &Field<Node>, most: usize) -> Vec<Ref<'m, Message>> {
    let mut found = Vec::new();
    let mut path: Vec<Ref<'m, Node>> = tree.get(mutator).into_iter().collect();
    while let Some(node) = path.pop().filter(|_| found.len() < most) {
        match node.values.get(mutator) {
            Some(values) => {
                let backwards = (0..node.count()).rev();
                found.extend(
                    backwards
                        .filter_map(|i| values.get(mutator, i))
                        .take(most - found.len()),
                );
            }
            None => path.extend((0..node.count()).filter_map(|i| node.child(mutator, i))),
        }
    }
    found
}

/// The first key and its message.
pub fn first<'m>(mutator: &'m Mutator, tree: &Field<Node>) -> Option<(u64, Ref<'m, Message>)> {
    let mut found = None;
    ascend(mutator, tree, 0, |key, message| {
        found = Some((key, message));
        ControlFlow::Break(())
    });
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use warmswap_heap::{Heap, HeapConfig, KernelMemory};

    use super::super::common::Draw;
    use super::super::mail_store::{Folder, Message};
    use super::*;

    #[test]
    fn does_what_the_standard_library_does() {
        let config = HeapConfig::new(16 << 20);
        let memory = KernelMemory::new(config.address_bytes()).expect("memory");
        let heap = Heap::new(memory, config).expect("a heap");
        let mut mutator = heap.mutator().expect("a mutator");
        let folder = Folder::alloc(&mutator, "test").expect("room");
        let folder = mutator.root(folder);
        let mut model = BTreeMap::new();
        let mut draw = Draw::new(5);
        for step in 0..20_000u32 {
            if step % 100 == 0 {
                mutator.safepoint();
            }
            // Grows at first, and shrinks to nothing at the end.
            let key = draw.below(3000) as u64;
            let tree = &folder.get(&mutator).get().by_date;
            if draw.below(20_000) > step as usize {
                let message = Message::alloc(&mutator, step, key).expect("room");
                insert(&mutator, tree, key, message).expect("room");
                model.insert(key, step);
            } else {
                assert_eq!(remove(&mutator, tree, key), model.remove(&key).is_some());
            }
            if step % 500 == 0 {
                let from = draw.below(3000) as u64;
                let mut found = Vec::new();
                ascend(&mutator, tree, from, |key, message| {
                    found.push((key, message.number));
                    ControlFlow::Continue(())
                });
                let expected: Vec<_> = model.range(from..).map(|(&k, &n)| (k, n)).collect();
                assert_eq!(found, expected);
                let found: Vec<u32> = last(&mutator, tree, 50).iter().map(|m| m.number).collect();
                let expected: Vec<_> = model.values().rev().take(50).copied().collect();
                assert_eq!(found, expected);
            }
        }
    }
}
