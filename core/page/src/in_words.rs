//! Amounts of memory in messages.

/// From so many MiB on parts of one do not matter.
const MANY_MIB: u64 = 10;

/// `bytes` in MiB, rounded down, and little that is not a whole number of them in KiB or bytes: it is not to look like nothing.
#[must_use]
pub fn mib(bytes: u64) -> String {
    let (kib, mib) = (bytes >> 10, bytes >> 20);
    if bytes == mib << 20 || mib >= MANY_MIB {
        format!("{mib} MiB")
    } else if kib > 0 {
        format!("{kib} KiB")
    } else {
        format!("{bytes} B")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_not_nothing() {
        for (bytes, text) in [
            (0, "0 MiB"),
            (1, "1 B"),
            (64 << 10, "64 KiB"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1536 KiB"),
            ((10 << 20) + 1, "10 MiB"),
            (4 << 30, "4096 MiB"),
        ] {
            assert_eq!(mib(bytes), text);
        }
    }
}
