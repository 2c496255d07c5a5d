//! Whether it pays that the host pages out: by how long programs wait for memory with it, and without.
//!
//! Where memory nearly suffices the kernel drops pages of files that nobody uses, and programs hardly wait. A host that pages
//! out ahead of need costs CPU time there, and gains nothing. Where memory is short, it saves most of the waiting. No count of
//! pages tells which of the two it is, so both are measured: the host stands aside at first, and takes part where programs
//! wait; how long they do is the kernel's pressure stall information. Whoever had them wait less goes on, and the other is tried
//! again ever more seldom. Where they hardly wait without the host, nothing is tried.

use serde::{Deserialize, Serialize};

/// Switches after a change that do not count: what the one before left free lasts for a while.
const SETTLING: u32 = 3;
/// The same when the host begins: it pages out what it would have before, and learns what launches touch. In the first 16 switches it
/// took 50 ms of CPU time each for the six programs in 796 MiB, 32 where it had always taken part.
const LEARNING: u32 = 10;
/// And so long at least: the kernel sums up every 2 s.
const SETTLING_NS: u64 = 4_000_000_000;
/// The same at the beginning: after the starts of programs much comes back that should not have left.
const FIRST_SETTLING: u32 = 10;
/// Switches by which a mean is taken.
const MEASURED: u32 = 20;
/// A mean wait of a switch, in microseconds, of which there is little to gain. Five programs of the tuning set that take 1.56 GiB,
/// without the host and with it, two seeds each (wait; mean of a relaunch; CPU time): in 1400 MiB 7.8 and 7.5 ms (52 and 52 ms;
/// 7.2 and 8.2 s), 5.1 and 7.4 ms (46 and 50 ms; 6.2 and 7.3 s); in 1200 MiB 22 and 7.8 ms (59 and 52 ms; 8.4 and 9.1 s).
const LITTLE_US: f64 = 20_000.0;
/// No wait counts for more, in microseconds: that of a program's start can outweigh twenty others. The slowest relaunches are not left
/// out, since they gain most: six programs in 796 MiB, of which one waits for hundreds of milliseconds now and then, have means of 40
/// and 32 ms without the host, and of 15 and 11 ms with it (relaunches 49 and 42 ms, 47 and 36 ms).
const LONG_US: u64 = 200_000;
/// Nobody is made to wait for more in all, in microseconds, for the sake of a measurement without the host.
const MUCH_US: u64 = 400_000;
/// The host pays if programs wait at most this part of what they wait without it.
const PAYS: f64 = 0.75;
/// And if it takes so much CPU time at most for what it saves of waiting, the kernel's own threads included. With 1000 MiB in place of 1400 it takes 1.2 times as much,
/// and all together take less than without it; with 1200 MiB 2.1 times, and all together take more.
const WORTH: f64 = 1.5;
/// Switches until the other way is tried, after it was found to be the worse one: twice as many each time.
const FIRST_STAY: u32 = 32;
const LONGEST_STAY: u32 = 512;
/// The host is tried at once where programs wait so many times as long as they did when it was of no use.
const WORSE: f64 = 2.0;

/// Who pages out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// The host, ahead of need.
    #[default]
    Host,
    /// The kernel alone: the host stands aside.
    Kernel,
}

/// How long programs wait for memory after a switch, and what follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Worth {
    /// Whose turn it is.
    pub turn: Turn,
    /// The mean wait of a switch, in microseconds, as it was measured last while the host took part.
    pub with_host_us: Option<f64>,
    /// The same while it stood aside.
    pub without_host_us: Option<f64>,
    /// CPU time of the host for a switch, in microseconds, while it took part.
    pub host_cpu_us: Option<f64>,
}

/// Sums since some time, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// What programs waited for memory, and the kernel's threads that reclaim for it.
    pub waited_us: u64,
    /// CPU time of the host.
    pub host_cpu_us: u64,
    /// CPU time of these threads. The host works in their place, or besides.
    pub kswapd_us: u64,
}

/// Waits of some switches.
#[derive(Debug, Default)]
struct Waits {
    switches: u32,
    /// Of each at most [`LONG_US`].
    total_us: u64,
    host_cpu_us: u64,
    kswapd_us: u64,
}

impl Waits {
    fn add(&mut self, before: Sums, now: Sums) {
        let kswapd_us = now.kswapd_us.saturating_sub(before.kswapd_us);
        // What programs wait while these threads work is left out along with them: no number tells it apart.
        let wait_us = now
            .waited_us
            .saturating_sub(before.waited_us)
            .saturating_sub(kswapd_us);
        self.switches += 1;
        self.host_cpu_us += now.host_cpu_us.saturating_sub(before.host_cpu_us);
        self.kswapd_us += kswapd_us;
        self.total_us += wait_us.min(LONG_US);
    }

    fn mean_host_cpu_us(&self) -> f64 {
        self.host_cpu_us as f64 / f64::from(self.switches.max(1))
    }

    fn mean_kswapd_us(&self) -> f64 {
        self.kswapd_us as f64 / f64::from(self.switches.max(1))
    }

    fn mean_us(&self) -> f64 {
        self.total_us as f64 / f64::from(self.switches.max(1))
    }
}

/// Measures the waits with the host and without, and decides at switches.
#[derive(Debug, Default)]
pub(super) struct Trial {
    found: Worth,
    pub switches_aside: u64,
    pub switches_in_vain: u64,
    is_begun: bool,
    /// What there had been in all at the last switch; none once what came since was counted for it.
    at_switch: Option<Sums>,
    /// What was waited in all when it was asked for after that.
    noted_us: Option<u64>,
    /// When the turn changed.
    changed_ns: u64,
    /// Switches that do not count yet.
    settling: u32,
    /// Since then, or since the last mean.
    measured: Waits,
    /// Switches until the other turn is tried; none while this one is.
    stay: Option<u32>,
    last_stay: u32,
    /// Who was found the better one last.
    better: Turn,
    /// What was waited without the host when that was the kernel.
    accepted_us: f64,
    /// CPU time of the kernel's threads for a switch, as it was measured last with the host and without.
    kswapd_with_us: f64,
    kswapd_without_us: f64,
}

impl Trial {
    pub fn found(&self) -> Worth {
        self.found
    }

    /// The host stands aside.
    pub fn is_aside(&self) -> bool {
        self.found.turn == Turn::Kernel
    }

    /// There was a switch.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// What is waited counts for the last switch.
    pub fn counts(&self) -> bool {
        self.at_switch.is_some()
    }

    /// The host stands aside until the first switch.
    pub fn stand_aside(&mut self, now_ns: u64) {
        self.change(Turn::Kernel, Some(0), now_ns);
    }

    /// The host has to take part, or nobody knows what programs wait. Whether it stood aside.
    pub fn reset(&mut self) -> bool {
        let known = Self {
            switches_aside: self.switches_aside,
            switches_in_vain: self.switches_in_vain,
            ..Self::default()
        };
        std::mem::replace(self, known).is_aside()
    }

    /// So long programs have waited for memory by now. A switch that is heard of late begins with what was waited at the last
    /// call. Whether anybody waited since.
    pub fn note(&mut self, waited_us: u64) -> bool {
        let last_us = self.noted_us.replace(waited_us);
        last_us.is_none_or(|last_us| waited_us > last_us)
    }

    /// The last switch was a while ago: what there was since then counts for it.
    pub fn waited(&mut self, now: Sums, now_ns: u64) {
        let Some(before) = self.at_switch.take() else {
            return;
        };
        self.noted_us = None;
        self.switches_aside += u64::from(self.is_aside());
        self.stay = self.stay.map(|stay| stay.saturating_sub(1));
        if self.settling > 0 || now_ns.saturating_sub(self.changed_ns) < SETTLING_NS {
            self.settling = self.settling.saturating_sub(1);
            return;
        }
        self.measured.add(before, now);
    }

    /// An application comes to the foreground. Whether the turn changes.
    pub fn switched(&mut self, now: Sums, now_ns: u64) -> bool {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.change(Turn::Kernel, Some(0), now_ns);
            self.settling = FIRST_SETTLING;
            self.at_switch = Some(now);
            return true;
        }
        self.waited(now, now_ns);
        let noted_us = self.noted_us.take().unwrap_or(now.waited_us);
        self.at_switch = Some(Sums {
            waited_us: noted_us.min(now.waited_us),
            ..now
        });
        let is_enough = match self.found.turn {
            Turn::Kernel => self.measured.total_us >= MUCH_US,
            Turn::Host => self.stay.is_none() && self.is_too_much(),
        };
        (is_enough || self.measured.switches >= MEASURED) && self.decide(now_ns)
    }

    /// Programs wait twice as long as without the host by now, or it took more than all of that is worth.
    fn is_too_much(&self) -> bool {
        let without_us = self.found.without_host_us.unwrap_or(f64::MAX);
        let all_us = without_us * f64::from(MEASURED);
        let spared_us = self.kswapd_without_us * f64::from(self.measured.switches);
        let cpu_us = self.measured.host_cpu_us + self.measured.kswapd_us;
        self.measured.total_us as f64 >= 2.0 * all_us || cpu_us as f64 - spared_us >= WORTH * all_us
    }

    /// This turn is measured: whether it changes.
    fn decide(&mut self, now_ns: u64) -> bool {
        let measured = std::mem::take(&mut self.measured);
        let mean_us = measured.mean_us();
        let is_aside = self.is_aside();
        let without_us = self.found.without_host_us.unwrap_or(f64::MAX);
        let is_in_vain = !is_aside && mean_us >= without_us;
        self.switches_in_vain += u64::from(is_in_vain) * u64::from(measured.switches);
        match is_aside {
            true => {
                self.found.without_host_us = Some(mean_us);
                self.kswapd_without_us = measured.mean_kswapd_us();
            }
            false => {
                self.kswapd_with_us = measured.mean_kswapd_us();
                self.found.with_host_us = Some(mean_us);
                self.found.host_cpu_us = Some(measured.mean_host_cpu_us());
            }
        }
        let Some(stay) = self.stay else {
            return self.judge(now_ns);
        };
        let is_little = is_aside && mean_us < LITTLE_US;
        let is_worse = match is_aside {
            true => mean_us >= WORSE * self.accepted_us,
            false => is_in_vain,
        };
        let goes_on = is_little || (stay > 0 && !is_worse);
        if !goes_on {
            self.change(self.other(), None, now_ns);
        }
        !goes_on
    }

    /// Both turns were measured, this one now: the better one goes on, the longer the more often it was found to be that.
    fn judge(&mut self, now_ns: u64) -> bool {
        let (with_us, without_us) = (self.found.with_host_us, self.found.without_host_us);
        let host_cpu_us = self.found.host_cpu_us.unwrap_or(0.0);
        let cpu_us = host_cpu_us + self.kswapd_with_us - self.kswapd_without_us;
        let pays = with_us
            .zip(without_us)
            .is_some_and(|(with_us, without_us)| {
                without_us >= LITTLE_US
                    && with_us <= PAYS * without_us
                    && cpu_us <= WORTH * (without_us - with_us)
            });
        let better = if pays { Turn::Host } else { Turn::Kernel };
        self.accepted_us = without_us.unwrap_or(0.0);
        self.last_stay = match std::mem::replace(&mut self.better, better) == better {
            true => (2 * self.last_stay).clamp(FIRST_STAY, LONGEST_STAY),
            false => FIRST_STAY,
        };
        let is_changed = better != self.found.turn;
        self.stay = Some(self.last_stay);
        if is_changed {
            self.change(better, self.stay, now_ns);
        }
        is_changed
    }

    fn other(&self) -> Turn {
        match self.found.turn {
            Turn::Host => Turn::Kernel,
            Turn::Kernel => Turn::Host,
        }
    }

    fn change(&mut self, turn: Turn, stay: Option<u32>, now_ns: u64) {
        self.found.turn = turn;
        self.stay = stay;
        self.settling = match turn {
            Turn::Host => LEARNING,
            Turn::Kernel => SETTLING,
        };
        self.changed_ns = now_ns;
        self.measured = Waits::default();
    }
}

#[cfg(test)]
mod tests {
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
        // 400 ms.
        assert_eq!(turns[0], (Turn::Kernel, FIRST_SETTLING + 4));
        assert_eq!(turns[2], (Turn::Kernel, SETTLING + 4));
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
            machine.turns(FIRST_SETTLING + 4 + TRY_HOST);
            assert_eq!(machine.trial.found.turn, better);
            let host_cpu_us = machine.trial.found.host_cpu_us;
            assert_eq!(host_cpu_us, Some(host_takes_ms as f64 * 1000.0));
        }
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
            machine.turns(FIRST_SETTLING + 4 + TRY_HOST);
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
        let tried = LEARNING + 8;
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
}
