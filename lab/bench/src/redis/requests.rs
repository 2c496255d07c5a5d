//! What the servers hold, and what they are asked for.

use std::time::Instant;

use rand::SeedableRng as _;
use rand::distr::{Distribution as _, Uniform};
use rand::rngs::SmallRng;
use rand_distr::Zipf;
use serde::Serialize;
use warmswap_page::PAGE_BYTES;

use super::server::Server;
use crate::{BenchError, Pages};

/// Keys that are sent to a server at a time.
const BATCH: usize = 500;
/// The skew of YCSB's requests.
const SKEW: f64 = 0.99;

/// How the keys that are asked for are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Each as often as any other.
    Uniform,
    /// A few very often (Zipf's law with 0.99), spread over all of the data.
    Zipfian,
}

impl Choice {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Zipfian];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
        }
    }
}

/// Requests of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub choice: Choice,
    pub requests: usize,
    pub connections: usize,
    pub seed: u64,
}

/// What came of a turn.
#[derive(Debug, Clone)]
pub struct Turn {
    pub choice: Choice,
    /// Time on the wall.
    pub seconds: f64,
    /// How long each request took.
    pub waits_ns: Vec<u64>,
    /// CPU time of the server.
    pub cpu_ns: u64,
    /// Faults of the server for which a page had to come back.
    pub faults: u64,
    /// Memory of the server afterwards.
    pub memory_bytes: u64,
}

impl Turn {
    pub fn requests_per_second(&self) -> f64 {
        self.waits_ns.len() as f64 / self.seconds
    }

    /// The share of each request in something.
    pub fn a_request(&self, total: u64) -> f64 {
        total as f64 / self.waits_ns.len().max(1) as f64
    }
}

/// Values: pieces of recorded pages, each with its key's number in front.
#[derive(Debug)]
pub struct Data {
    bytes: Vec<u8>,
    keys: usize,
    value_bytes: usize,
}

impl Data {
    pub fn new(pages: &Pages, keys: usize, value_bytes: usize) -> Self {
        Self {
            bytes: pages.iter().flatten().copied().collect(),
            keys,
            value_bytes,
        }
    }

    fn value(&self, key: usize) -> Vec<u8> {
        // What is taken again begins elsewhere, so that no two values are alike.
        let pieces = (self.bytes.len() - PAGE_BYTES) / self.value_bytes;
        let start = key % pieces * self.value_bytes + key / pieces * 8 % PAGE_BYTES;
        let mut value = self.bytes[start..][..self.value_bytes].to_vec();
        value[..8].copy_from_slice(&(key as u64).to_le_bytes());
        value
    }

    /// Gives a server all keys.
    pub fn fill(&self, socket: String) -> Result<(), BenchError> {
        let mut connection = redis::Client::open(socket)?.get_connection()?;
        for first in (0..self.keys).step_by(BATCH) {
            let mut batch = redis::pipe();
            for key in first..self.keys.min(first + BATCH) {
                batch.set(name(key), self.value(key)).ignore();
            }
            batch.query::<()>(&mut connection)?;
        }
        Ok(())
    }

    /// Asks a server, first without measuring; every answer is compared with what was stored.
    pub fn ask(&self, server: &Server, load: Load) -> Result<Turn, BenchError> {
        let each = load.requests / load.connections;
        self.ask_at_once(server, load, each / 2, 0)?;
        let (faults, cpu, begin) = (server.faults()?, server.cpu_ns()?, Instant::now());
        let waits_ns = self.ask_at_once(server, load, each, 1)?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Turn {
            choice: load.choice,
            seconds,
            waits_ns,
            cpu_ns: server.cpu_ns()? - cpu,
            faults: server.faults()? - faults,
            memory_bytes: server.memory_bytes()?,
        })
    }

    fn ask_at_once(
        &self,
        server: &Server,
        load: Load,
        each: usize,
        phase: u64,
    ) -> Result<Vec<u64>, BenchError> {
        let socket = server.socket();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..load.connections as u64)
                .map(|thread| {
                    let seed = load.seed << 32 | phase << 16 | thread;
                    let socket = socket.clone();
                    scope.spawn(move || self.ask_one_by_one(socket, load.choice, each, seed))
                })
                .collect();
            let mut waits = Vec::with_capacity(load.requests);
            for thread in threads {
                waits.extend(thread.join().map_err(|_| BenchError::Thread)??);
            }
            Ok(waits)
        })
    }

    fn ask_one_by_one(
        &self,
        socket: String,
        choice: Choice,
        count: usize,
        seed: u64,
    ) -> Result<Vec<u64>, BenchError> {
        let mut connection = redis::Client::open(socket)?.get_connection()?;
        let mut random = SmallRng::seed_from_u64(seed);
        let keys = Keys::new(choice, self.keys)?;
        let mut waits = Vec::with_capacity(count);
        for _ in 0..count {
            let key = keys.next(&mut random);
            let request = redis::Cmd::get(name(key));
            let begin = Instant::now();
            let value: Vec<u8> = request.query(&mut connection)?;
            waits.push(begin.elapsed().as_nanos() as u64);
            if value != self.value(key) {
                return Err(BenchError::WrongAnswer { key: name(key) });
            }
        }
        Ok(waits)
    }
}

fn name(key: usize) -> String {
    format!("key:{key:09}")
}

/// Which key is asked for next.
enum Keys {
    Uniform(Uniform<usize>),
    Zipfian { ranks: Zipf<f64>, keys: usize },
}

impl Keys {
    fn new(choice: Choice, keys: usize) -> Result<Self, BenchError> {
        let bad = |_| BenchError::NoKeys;
        Ok(match choice {
            Choice::Uniform => Self::Uniform(Uniform::new(0, keys).map_err(bad)?),
            Choice::Zipfian => Self::Zipfian {
                ranks: Zipf::new(keys as f64, SKEW).map_err(|_| BenchError::NoKeys)?,
                keys,
            },
        })
    }

    fn next(&self, random: &mut SmallRng) -> usize {
        match self {
            Self::Uniform(keys) => keys.sample(random),
            Self::Zipfian { ranks, keys } => {
                let rank = ranks.sample(random) as usize - 1;
                // Popular keys are not neighbours: a step that is prime to the number of keys visits all.
                (rank * step(*keys)) % keys
            }
        }
    }
}

/// A number near the golden section of `keys` that has no factor in common with it.
fn step(keys: usize) -> usize {
    let coprime = |n: &usize| {
        let (mut a, mut b) = (*n, keys);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (keys * 618 / 1000..).find(coprime).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipfian_keys_are_all_keys_and_few_are_popular() {
        let keys = 1000;
        let zipfian = Keys::new(Choice::Zipfian, keys).expect("keys");
        let mut random = SmallRng::seed_from_u64(1);
        let mut counts = vec![0; keys];
        for _ in 0..20_000 {
            counts[zipfian.next(&mut random)] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let popular: i32 = counts[..100].iter().sum();
        assert!((12_000..16_000).contains(&popular), "{popular}");
        let step = step(keys);
        let mut all: Vec<_> = (0..keys).map(|rank| rank * step % keys).collect();
        all.sort_unstable();
        assert_eq!(all, (0..keys).collect::<Vec<_>>());
    }
}
