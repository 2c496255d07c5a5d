//! Whose turn it is, by what is waited in either.

use super::*;

/// Switches after each of which so many milliseconds are waited, by whose turn it is.
struct Machine {
    trial: Trial,
    now_ns: u64,
    waited_us: u64,
    with_ms: u64,
    without_ms: u64,
    host_cpu_us: u64,
    host_takes_ms: u64,
    kswapd_us: u64,
    /// What the kernel's threads take without the host; with it they have nothing to do.
    kswapd_takes_ms: u64,
}

impl Machine {
    fn new(with_ms: u64, without_ms: u64) -> Self {
        let mut machine = Self {
            trial: Trial::default(),
            now_ns: 0,
            waited_us: 1 << 40,
            with_ms,
            without_ms,
            host_cpu_us: 1 << 20,
            host_takes_ms: 0,
            kswapd_us: 1 << 30,
            kswapd_takes_ms: 0,
        };
        assert!(machine.trial.switched(machine.sums(), 0));
        machine
    }

    fn sums(&self) -> Sums {
        Sums {
            waited_us: self.waited_us,
            host_cpu_us: self.host_cpu_us,
            kswapd_us: self.kswapd_us,
        }
    }

    fn switch(&mut self) {
        match self.trial.found.turn {
            Turn::Host => {
                self.waited_us += 1000 * self.with_ms;
                self.host_cpu_us += 1000 * self.host_takes_ms;
            }
            Turn::Kernel => {
                self.waited_us += 1000 * (self.without_ms + self.kswapd_takes_ms);
                self.kswapd_us += 1000 * self.kswapd_takes_ms;
            }
        }
        let before = self.trial.found.turn;
        self.now_ns += SETTLING_NS;
        let is_changed = self.trial.switched(self.sums(), self.now_ns);
        assert_eq!(is_changed, before != self.trial.found.turn);
    }

    /// Whose turn it is in a row, each with the number of switches, for so many in all.
    fn turns(&mut self, switches: u32) -> Vec<(Turn, u32)> {
        let mut turns: Vec<(Turn, u32)> = Vec::new();
        for _ in 0..switches {
            let turn = self.trial.found.turn;
            match turns.last_mut() {
                Some((last, count)) if *last == turn => *count += 1,
                _ => turns.push((turn, 1)),
            }
            self.switch();
        }
        turns
    }
}

const TRY_KERNEL: u32 = SETTLING + MEASURED;
const TRY_HOST: u32 = LEARNING + MEASURED;

#[test]
fn it_stands_aside_at_first_and_as_long_as_programs_hardly_wait() {
    let mut machine = Machine::new(0, 19);
    assert_eq!(machine.turns(2000), [(Turn::Kernel, 2000)]);
    assert_eq!(machine.trial.switches_aside, 2000);
    let found = machine.trial.found();
    assert_eq!(
        (found.with_host_us, found.without_host_us),
        (None, Some(19000.0))
    );
}

#[test]
fn it_goes_on_where_it_pays_and_the_kernel_is_tried_ever_more_seldom() {
    let mut machine = Machine::new(15, 20);
    let (kernel, host) = (Turn::Kernel, Turn::Host);
    let turns = machine.turns(2000);
    assert_eq!(turns[0], (kernel, FIRST_SETTLING + MEASURED));
    // 32, 64 and 128, until the next mean is there.
    let expected = [
        (host, TRY_HOST + 40),
        (kernel, TRY_KERNEL),
        (host, LEARNING + 60),
        (kernel, TRY_KERNEL),
        (host, LEARNING + 120),
    ];
    assert_eq!(turns[1..6], expected);
    assert_eq!(machine.trial.switches_in_vain, 0);
    let host: u32 = turns
        .iter()
        .filter(|turn| turn.0 == Turn::Host)
        .map(|turn| turn.1)
        .sum();
    assert!(host > 1800, "{turns:?}");
}

#[test]
fn it_stands_aside_where_it_does_not_pay_and_is_tried_ever_more_seldom() {
    let mut machine = Machine::new(16, 20);
    let turns = machine.turns(2000);
    assert_eq!(turns[0], (Turn::Kernel, FIRST_SETTLING + MEASURED));
    assert_eq!(turns[1], (Turn::Host, TRY_HOST));
    let aside: u32 = turns
        .iter()
        .filter(|turn| turn.0 == Turn::Kernel)
        .map(|turn| turn.1)
        .sum();
    assert!(aside > 1750, "{turns:?}");
    // The last one is cut off.
    let stays: Vec<u32> = turns[2..turns.len() - 1]
        .iter()
        .step_by(2)
        .map(|turn| turn.1)
        .collect();
    assert!(stays.is_sorted() && stays[0] < 100, "{stays:?}");
    machine.with_ms = 20;
    while machine.trial.is_aside() {
        machine.switch();
    }
    let before = machine.trial.switches_in_vain;
    machine.turns(TRY_HOST);
    let in_vain = machine.trial.switches_in_vain - before;
    assert_eq!(in_vain, u64::from(MEASURED), "as long as without");
}

#[test]
fn nobody_waits_long_for_a_measurement_without_the_host() {
    let mut machine = Machine::new(10, 100);
    let turns = machine.turns(300);
    assert_eq!(turns[0], (Turn::Kernel, FIRST_SETTLING + FEW_MEASURED));
    // 400 ms.
    assert_eq!(turns[2], (Turn::Kernel, SETTLING + 4));
}

#[test]
fn two_long_waits_at_the_beginning_are_no_reason_to_take_part() {
    let mut machine = Machine::new(0, 0);
    for switch in 0..200 {
        let is_long = (FIRST_SETTLING..FIRST_SETTLING + 2).contains(&switch);
        machine.without_ms = if is_long { 190 } else { 0 };
        machine.switch();
        assert!(machine.trial.is_aside(), "{switch}");
    }
}

#[test]
fn one_long_wait_is_none_of_twenty() {
    let mut machine = Machine::new(0, 0);
    for switch in 0..200 {
        machine.without_ms = if switch % 20 == 12 { 1000 } else { 1 };
        machine.switch();
        assert!(machine.trial.is_aside(), "{switch}");
    }
}

#[test]
fn it_is_tried_at_once_where_memory_gets_short() {
    let mut machine = Machine::new(19, 20);
    machine.turns(1000);
    while !machine.trial.is_aside()
        || machine.trial.stay < Some(100)
        || machine.trial.settling + machine.trial.measured.switches > 0
    {
        machine.switch();
    }
    machine.without_ms = 39;
    let stays = machine.turns(MEASURED)[0];
    assert_eq!(stays, (Turn::Kernel, MEASURED), "not twice as long");
    machine.without_ms = 40;
    assert_eq!(machine.turns(MEASURED + 1).len(), 2);
    assert_eq!(machine.trial.found.turn, Turn::Host);
}

#[test]
fn it_stands_aside_where_it_takes_more_than_it_saves() {
    // It saves 90 ms of waiting.
    for (host_takes_ms, better) in [(134, Turn::Host), (136, Turn::Kernel)] {
        let mut machine = Machine::new(10, 100);
        machine.host_takes_ms = host_takes_ms;
        machine.turns(FIRST_SETTLING + FEW_MEASURED + TRY_HOST);
        assert_eq!(machine.trial.found.turn, better);
        let host_cpu_us = machine.trial.found.host_cpu_us;
        assert_eq!(host_cpu_us, Some(host_takes_ms as f64 * 1000.0));
    }
}

#[test]
fn a_host_that_takes_too_much_while_it_begins_is_stopped_then() {
    // All of 20 waits of 20 ms are worth 600 ms.
    let mut machine = Machine::new(10, 20);
    machine.host_takes_ms = 150;
    let turns = machine.turns(60);
    assert_eq!(
        turns[..2],
        [(Turn::Kernel, FIRST_SETTLING + MEASURED), (Turn::Host, 4)]
    );
    assert_eq!(machine.trial.found.host_cpu_us, Some(150_000.0));
    // As are programs that wait for it.
    let mut machine = Machine::new(200, 20);
    assert_eq!(machine.turns(60)[1], (Turn::Host, 4));
}

#[test]
fn what_the_kernels_threads_work_is_no_waiting_of_programs() {
    let mut machine = Machine::new(0, 19);
    machine.kswapd_takes_ms = 50;
    assert_eq!(machine.turns(200), [(Turn::Kernel, 200)]);
    assert_eq!(machine.trial.found.without_host_us, Some(19_000.0));
}

#[test]
fn what_the_kernels_threads_do_no_more_is_not_what_it_takes() {
    for (host_takes_ms, better) in [(174, Turn::Host), (176, Turn::Kernel)] {
        let mut machine = Machine::new(10, 100);
        machine.host_takes_ms = host_takes_ms;
        machine.kswapd_takes_ms = 40;
        machine.turns(FIRST_SETTLING + FEW_MEASURED + TRY_HOST);
        assert_eq!(machine.trial.found.turn, better);
    }
}

fn waits(waited_us: u64) -> Sums {
    Sums {
        waited_us,
        ..Sums::default()
    }
}

#[test]
fn it_takes_part_again_where_it_has_to() {
    let mut trial = Trial::default();
    assert!(!trial.reset() && !trial.is_aside());
    assert!(trial.switched(Sums::default(), 0) && trial.is_aside());
    trial.switched(Sums::default(), 0);
    assert!(trial.reset() && !trial.is_aside());
    assert_eq!(trial.switches_aside, 1, "what was counted stays");
    assert!(trial.switched(Sums::default(), 0) && trial.is_aside());
}

#[test]
fn what_is_waited_long_after_a_switch_does_not_count() {
    let mut trial = Trial::default();
    let (mut waited_us, mut now_ns) = (0, 0);
    for _ in 0..100 {
        trial.switched(waits(waited_us), now_ns);
        waited_us += 1000;
        now_ns += SETTLING_NS;
        assert!(trial.counts());
        trial.waited(waits(waited_us), now_ns);
        assert!(!trial.counts());
        waited_us += 1_000_000;
        trial.waited(waits(waited_us), now_ns);
    }
    assert_eq!(trial.found().without_host_us, Some(1000.0));
}

#[test]
fn a_switch_that_is_heard_of_late_begins_with_what_was_noted_before() {
    let mut trial = Trial::default();
    let mut now_ns = 0;
    for switch in 0..100 {
        let begin_us = 1_000_000 * switch;
        assert!(trial.note(begin_us + 500_000));
        assert!(!trial.note(begin_us + 500_000), "nobody waited");
        // 20 ms of it before the switch is heard of, and 5 ms after.
        trial.switched(waits(begin_us + 520_000), now_ns);
        now_ns += SETTLING_NS;
        trial.waited(waits(begin_us + 525_000), now_ns);
        if let Some(without_us) = trial.found().without_host_us {
            assert_eq!(without_us, 25_000.0);
        }
    }
    assert!(trial.found().without_host_us.is_some());
}

#[test]
fn the_kernel_sums_up_late_and_what_was_before_a_change_does_not_count() {
    let mut trial = Trial::default();
    trial.switched(Sums::default(), 0);
    for switch in 1..1000 {
        trial.switched(waits(1_000_000 * switch), SETTLING_NS * switch / 1000);
        assert_eq!(trial.measured.switches, 0, "{switch}");
    }
    assert!(trial.is_aside());
}

#[test]
fn a_number_that_fell_is_no_wait() {
    let mut trial = Trial::default();
    for switch in 0..100 {
        trial.switched(waits((100 - switch) * 1_000_000), SETTLING_NS * switch);
    }
    assert_eq!(trial.found().without_host_us, Some(0.0));
    assert!(trial.is_aside());
}

#[test]
fn a_host_that_does_harm_is_soon_stopped() {
    let mut machine = Machine::new(100, 20);
    let turns = machine.turns(200);
    // 800 ms are twice what is waited without it in 20 switches.
    let tried = 8;
    assert_eq!(turns[1], (Turn::Host, tried));
    // It paid until then.
    (machine.with_ms, machine.without_ms) = (1, 100);
    while machine.trial.better != Turn::Host {
        machine.switch();
    }
    machine.with_ms = 110;
    let stay = machine.turns(3 * MEASURED)[0];
    assert!(stay.1 <= 2 * MEASURED, "{stay:?}");
}
