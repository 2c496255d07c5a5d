//! What `top` knows: the programs at the last look, and how fast they change.

use std::path::{Path, PathBuf};
use std::time::Instant;
use warmswap_control::ProgramStats;

/// What all programs said at one moment.
#[derive(Debug)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// By socket: what the program says, or why it says nothing.
    pub answers: Vec<(PathBuf, Result<ProgramStats, String>)>,
}

/// A program at the last look.
#[derive(Debug)]
pub struct Row {
    /// Where it listens.
    pub socket: PathBuf,
    /// What it says.
    pub stats: ProgramStats,
    /// How fast it changes; `None` at first sight.
    pub rates: Option<Rates>,
}

/// Changes since the look before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Faults a second.
    pub faults_per_second: f64,
    /// Pages that left a second.
    pub pages_out_per_second: f64,
    /// Share of one processor that the pager took.
    pub pager_share: f64,
}

/// In which order programs stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By process number.
    #[default]
    Pid,
    /// Most resident memory first.
    Resident,
    /// Most faults a second first.
    Faults,
}

impl Order {
    /// For the title.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Resident => "resident memory",
            Self::Faults => "faults",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Pid => Self::Resident,
            Self::Resident => Self::Faults,
            Self::Faults => Self::Pid,
        }
    }
}

/// All that is shown.
#[derive(Debug, Default)]
pub struct Top {
    /// Programs in order.
    pub rows: Vec<Row>,
    /// Programs that listen and do not answer: why.
    pub silent: Vec<String>,
    /// How the rows are ordered.
    pub order: Order,
    /// The last thing that happened, for the bottom line.
    pub message: String,
    /// Whether there was a look yet.
    pub looked: bool,
    /// The selected program stays selected when rows move.
    pub(super) selected_pid: Option<u32>,
    /// When the last look was.
    pub(super) last_at: Option<Instant>,
}

impl Top {
    /// Takes a look in.
    pub fn update(&mut self, look: Look) {
        let last_at = self.last_at.replace(look.at);
        let seconds = last_at.map(|at| look.at.saturating_duration_since(at).as_secs_f64());
        let before = std::mem::take(&mut self.rows);
        self.silent.clear();
        for (socket, answer) in look.answers {
            match answer {
                Ok(stats) => {
                    let same = |row: &&Row| row.stats.pid == stats.pid && row.socket == socket;
                    let last = before.iter().find(same).map(|row| &row.stats);
                    self.rows.push(Row {
                        rates: rates(last, &stats, seconds),
                        socket,
                        stats,
                    });
                }
                Err(error) => self.silent.push(error),
            }
        }
        self.looked = true;
        self.sort();
    }

    /// Stands the programs in the next order.
    pub fn sort_by_next(&mut self) {
        self.order = self.order.next();
        self.sort();
    }

    fn sort(&mut self) {
        self.rows.sort_by_key(|row| row.stats.pid);
        let faults = |row: &Row| row.rates.map_or(0.0, |rates| rates.faults_per_second);
        match self.order {
            Order::Pid => {}
            Order::Resident => self
                .rows
                .sort_by_key(|row| std::cmp::Reverse(row.stats.resident_bytes)),
            Order::Faults => self.rows.sort_by(|a, b| faults(b).total_cmp(&faults(a))),
        }
    }

    /// The selected row; the first one where the selected program has gone.
    pub fn selected(&self) -> Option<usize> {
        let selected = |row: &Row| Some(row.stats.pid) == self.selected_pid;
        let found = self.rows.iter().position(selected);
        found.or((!self.rows.is_empty()).then_some(0))
    }

    /// Name and socket of the selected program.
    pub fn selected_program(&self) -> Option<(String, &Path)> {
        let row = self.rows.get(self.selected()?)?;
        let name = format!("{} ({})", row.stats.name, row.stats.pid);
        Some((name, &row.socket))
    }

    /// Selects the row above.
    pub fn select_previous(&mut self) {
        self.select(|index| index.saturating_sub(1));
    }

    /// Selects the row below.
    pub fn select_next(&mut self) {
        let last = self.rows.len().saturating_sub(1);
        self.select(|index| (index + 1).min(last));
    }

    fn select(&mut self, change: impl FnOnce(usize) -> usize) {
        if let Some(index) = self.selected().map(change) {
            self.selected_pid = self.rows.get(index).map(|row| row.stats.pid);
        }
    }
}

fn rates(last: Option<&ProgramStats>, now: &ProgramStats, seconds: Option<f64>) -> Option<Rates> {
    let (last, seconds) = (last?, seconds.filter(|&seconds| seconds > 0.0)?);
    // Counts fall where another program took the process over (exec).
    let per_second = |last: u64, now: u64| now.saturating_sub(last) as f64 / seconds;
    Some(Rates {
        faults_per_second: per_second(last.faults.total, now.faults.total),
        pages_out_per_second: per_second(last.swapped_out_pages, now.swapped_out_pages),
        pager_share: ((now.pager_cpu_seconds - last.pager_cpu_seconds) / seconds).max(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use warmswap_control::FaultCounts;

    fn answer(
        pid: u32,
        resident_bytes: u64,
        faults: u64,
    ) -> (PathBuf, Result<ProgramStats, String>) {
        let stats = ProgramStats {
            pid,
            resident_bytes,
            faults: FaultCounts {
                total: faults,
                ..FaultCounts::default()
            },
            pager_cpu_seconds: faults as f64 / 1000.0,
            ..ProgramStats::default()
        };
        (format!("/run/{pid}.sock").into(), Ok(stats))
    }

    fn pids(top: &Top) -> Vec<u32> {
        top.rows.iter().map(|row| row.stats.pid).collect()
    }

    #[test]
    fn rates_come_with_the_second_look() {
        let mut top = Top::default();
        let at = Instant::now();
        top.update(Look {
            at,
            answers: vec![answer(1, 0, 100)],
        });
        assert_eq!(top.rows[0].rates, None);

        let at = at + Duration::from_secs(2);
        top.update(Look {
            at,
            answers: vec![answer(1, 0, 300), answer(2, 0, 5)],
        });

        let rates = top.rows[0].rates.unwrap();
        assert_eq!(rates.faults_per_second, 100.0);
        assert!((rates.pager_share - 0.1).abs() < 1e-9, "{rates:?}");
        assert_eq!(top.rows[1].rates, None, "a newcomer");
        top.update(Look {
            at,
            answers: vec![answer(1, 0, 3)],
        });
        assert_eq!(top.rows[0].rates, None, "no time has passed");
    }

    #[test]
    fn the_selected_program_stays_selected_when_rows_move() {
        let mut top = Top::default();
        assert_eq!(top.selected(), None);
        top.select_next();
        let at = Instant::now();
        let answers = || vec![answer(1, 10, 0), answer(2, 30, 0), answer(3, 20, 0)];
        top.update(Look {
            at,
            answers: answers(),
        });
        assert_eq!(top.selected_program().unwrap().1, Path::new("/run/1.sock"));
        top.select_next();

        top.sort_by_next();
        assert_eq!((pids(&top), top.selected()), (vec![2, 3, 1], Some(0)));
        top.select_previous();
        assert_eq!(top.selected(), Some(0));
        (0..5).for_each(|_| top.select_next());
        assert_eq!(top.selected_program().unwrap().1, Path::new("/run/1.sock"));

        top.update(Look {
            at,
            answers: vec![answer(3, 20, 0)],
        });
        assert_eq!(top.selected(), Some(0), "the selected one has gone");
    }

    #[test]
    fn the_silent_are_not_rows() {
        let mut top = Top::default();
        let silent = ("/run/9.sock".into(), Err("no answer".to_owned()));
        top.update(Look {
            at: Instant::now(),
            answers: vec![answer(1, 0, 0), silent],
        });
        assert_eq!((pids(&top), top.silent.len()), (vec![1], 1));
    }
}
