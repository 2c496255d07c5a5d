//! Room in tables that have an entry for each page or chunk and grow at their end.

/// Makes room for `len` entries: at once for a 32nd more than the table holds, and for at least `least` more.
///
/// Doubling, as vectors do by themselves, would leave up to half of a table of all pages idle. Amortised over all
/// entries, each is copied 32 times, and not at all where the allocator moves large blocks by their page tables.
pub fn make_room<T>(table: &mut Vec<T>, len: usize, least: usize) {
    if len > table.capacity() {
        let more = (table.len() / 32).max(least);
        table.reserve_exact(len - table.len() + more);
    }
}

#[cfg(test)]
mod tests {
    use super::make_room;

    #[test]
    fn a_table_that_grows_by_an_entry_at_a_time_is_moved_seldom_and_has_little_to_spare() {
        let mut table: Vec<u8> = Vec::new();
        let mut moves = 0;
        for len in 1..=100_000 {
            let before = table.capacity();
            make_room(&mut table, len, 64);
            table.resize(len, 0);
            moves += usize::from(table.capacity() != before);
        }
        // Steps of 64 up to 2,048 entries, then by a 32nd each: 32 and ln(100,000 / 2,048) · 32.5 of them.
        assert!(moves <= 160, "{moves} moves");
        assert!(
            table.capacity() <= 100_000 + 100_000 / 31,
            "{}",
            table.capacity()
        );
    }
}
