//! Orders of arms and applications, and the seeds of requests; all follow from one seed.

use super::options::Arm;

/// The arms in the order of a block. The first block begins with the arm without a limit, which says how much
/// memory there is to be, and ends with the arm `preload`, whose budgets follow from what the applications take in
/// another.
pub fn rotated(arms: &[Arm], block: u32) -> Vec<Arm> {
    let mut order = arms.to_vec();
    order.sort_unstable();
    order.dedup();
    let by = block as usize % order.len();
    order.rotate_left(by);
    order
}

/// The seed of a request: the same one in every arm.
pub fn request_seed(seed: u64, block: u32, round: u32, app: usize) -> u64 {
    let mut state = seed;
    for value in [u64::from(block), u64::from(round), app as u64] {
        state = mix(state ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    // Drivers take it for a number of 32 bits.
    state >> 33
}

/// The order in which the applications come to the foreground in a round: each once, and never the same one
/// twice in a row.
pub fn order(seed: u64, block: u32, round: u32, apps: usize) -> Vec<usize> {
    let shuffled = |round: u32| {
        let mut order: Vec<usize> = (0..apps).collect();
        for place in (1..apps).rev() {
            let other = request_seed(!seed, block, round, place) as usize % (place + 1);
            order.swap(place, other);
        }
        order
    };
    let mut order = shuffled(0);
    for round in 1..=round {
        let last = order.last().copied();
        order = shuffled(round);
        if apps > 1 && order.first().copied() == last {
            order.swap(0, apps - 1);
        }
    }
    order
}

/// The finalizer of splitmix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_rotate_and_the_first_block_begins_without_a_limit() {
        let arms = [Arm::Preload, Arm::Kernel, Arm::Dram, Arm::Zram, Arm::Zram];
        let order = [Arm::Dram, Arm::Zram, Arm::Kernel, Arm::Preload];
        assert_eq!(rotated(&arms, 0), order);
        assert_eq!(rotated(&arms, 1)[..2], [Arm::Zram, Arm::Kernel]);
        assert_eq!(rotated(&arms, 3)[..2], [Arm::Preload, Arm::Dram]);
        assert_eq!(rotated(&arms, 4), order);
    }

    #[test]
    fn each_application_comes_once_a_round_in_an_order_of_the_seed() {
        for round in 0..50 {
            let mut one = order(7, 0, round, 6);
            assert_eq!(one, order(7, 0, round, 6));
            one.sort_unstable();
            assert_eq!(one, [0, 1, 2, 3, 4, 5]);
        }
        for round in 1..200 {
            let (before, now) = (order(9, 0, round - 1, 3), order(9, 0, round, 3));
            assert_ne!(before[2], now[0], "round {round}");
        }
        assert_ne!(order(7, 0, 1, 6), order(8, 0, 1, 6));
        assert_eq!(order(7, 0, 3, 1), [0]);
        assert_ne!(request_seed(7, 0, 1, 2), request_seed(7, 0, 2, 1));
    }
}
