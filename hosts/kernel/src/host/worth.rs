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
/// No change counts for less time than this: the kernel sums up every 2 s.
const SETTLING_NS: u64 = 4_000_000_000;
/// Switches that do not count at the very beginning: after the starts of programs much comes back that should not have left.
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
/// Nobody is made to wait for more in all, in microseconds, for the sake of a measurement without the host. Before the host was
/// measured, [`FEW_MEASURED`] switches are wanted all the same: by two long waits it was tried, and stayed, in 34 of 36 switches of a
/// session in which zram made relaunches 15 ms slower.
const MUCH_US: u64 = 400_000;
const FEW_MEASURED: u32 = MEASURED / 2;
/// The host pays if programs wait at most this part of what they wait without it.
const PAYS: f64 = 0.75;
/// And if it takes so much CPU time at most for what it saves of waiting, the kernel's own threads included. With 1000 MiB in
/// place of 1400 it takes 1.2 times as much, and all together take less than without it; with 1200 MiB 2.1 times, and all
/// together take more.
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

    /// The mean of a switch.
    fn mean(&self, total_us: u64) -> f64 {
        total_us as f64 / f64::from(self.switches.max(1))
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
    /// While the host begins, and what it does does not count yet.
    beginning: Waits,
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
            if !self.is_aside() {
                self.beginning.add(before, now);
            }
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
            Turn::Kernel => {
                let is_known = self.found.with_host_us.is_some();
                let are_few = !is_known && self.measured.switches < FEW_MEASURED;
                self.measured.total_us >= MUCH_US && !are_few
            }
            Turn::Host => self.stay.is_none() && self.is_too_much(),
        };
        if is_enough && self.measured.switches == 0 {
            // It did not get further than that.
            self.measured = std::mem::take(&mut self.beginning);
        }
        (is_enough || self.measured.switches >= MEASURED) && self.decide(now_ns)
    }

    /// Programs wait twice as long as without the host by now, or it took more than all of that is worth; its beginning counts,
    /// too, so that nobody pays for more than a trial is worth.
    fn is_too_much(&self) -> bool {
        let without_us = self.found.without_host_us.unwrap_or(f64::MAX);
        let all_us = without_us * f64::from(MEASURED);
        let sum = |of: fn(&Waits) -> u64| of(&self.measured) + of(&self.beginning);
        let switches = self.measured.switches + self.beginning.switches;
        let spared_us = self.kswapd_without_us * f64::from(switches);
        let cpu_us = sum(|waits| waits.host_cpu_us) + sum(|waits| waits.kswapd_us);
        sum(|waits| waits.total_us) as f64 >= 2.0 * all_us
            || cpu_us as f64 - spared_us >= WORTH * all_us
    }

    /// This turn is measured: whether it changes.
    fn decide(&mut self, now_ns: u64) -> bool {
        let measured = std::mem::take(&mut self.measured);
        let mean_us = measured.mean(measured.total_us);
        let is_aside = self.is_aside();
        let without_us = self.found.without_host_us.unwrap_or(f64::MAX);
        let is_in_vain = !is_aside && mean_us >= without_us;
        self.switches_in_vain += u64::from(is_in_vain) * u64::from(measured.switches);
        match is_aside {
            true => {
                self.found.without_host_us = Some(mean_us);
                self.kswapd_without_us = measured.mean(measured.kswapd_us);
            }
            false => {
                self.kswapd_with_us = measured.mean(measured.kswapd_us);
                self.found.with_host_us = Some(mean_us);
                self.found.host_cpu_us = Some(measured.mean(measured.host_cpu_us));
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
        self.beginning = Waits::default();
    }
}

#[cfg(test)]
mod tests;
