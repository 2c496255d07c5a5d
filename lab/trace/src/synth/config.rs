//! What a synthetic trace shall be like.

use warmswap_page::PAGE_BYTES;

/// One application of a synthetic trace.
#[derive(Clone, Debug, PartialEq)]
pub struct AppProfile {
    /// Its name.
    pub name: String,
    /// Anonymous memory 10 seconds after the launch, in 10^6 bytes (Ariadne, Table 1).
    pub initial_mb: f64,
    /// Anonymous memory 5 minutes after the launch, in 10^6 bytes (Ariadne, Table 1); reached with the
    /// last relaunch.
    pub full_mb: f64,
    /// Probability that an access of a relaunch is followed by one to the next page (Ariadne, Table 3).
    pub two_consecutive: f64,
    /// Probability that it is followed by accesses to the next three pages (Ariadne, Table 3).
    pub four_consecutive: f64,
}

/// A synthetic trace.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthConfig {
    /// Decides everything random.
    pub seed: u64,
    /// The applications. Default: the five of Table 1 of the Ariadne paper.
    pub apps: Vec<AppProfile>,
    /// Factor of all volumes; 0.01 makes a small trace. Default 1.
    pub scale: f64,
    /// Relaunches of each application, in rounds of random order. Default 5 (Ariadne, section 3).
    pub relaunches: u32,
    /// Hot pages, as a share of the initial volume. Default 0.2.
    pub hot_share: f64,
    /// Warm pages, touched in the execution after a relaunch, as a share of the initial volume.
    /// Default 0.3.
    pub warm_share: f64,
    /// Share of the hot set that was hot in the relaunch before. Default 0.70 (Ariadne, Figure 5).
    pub hot_similarity: f64,
    /// Share of the hot set of one relaunch that is hot or warm in the next. Default 0.98 (Figure 5).
    pub reuse: f64,
    /// Accesses to hot pages in an execution phase, per hot page. Default 0.5.
    pub hot_accesses_in_execution: f64,
    /// Share of accesses that write, apart from first ones, which always do. Default 0.3.
    pub write_share: f64,
    /// Share of writes that give the page another content. Default 0.5.
    pub change_share: f64,
    /// From one access to the next in a launch window, in ns. Default 2000.
    pub launch_access_ns: u64,
    /// Length of an execution phase, in ms. Default 10000.
    pub execution_ms: u64,
}

impl Default for SynthConfig {
    fn default() -> Self {
        let table = [
            ("Youtube", 177.0, 358.0, 0.86, 0.72),
            ("Twitter", 182.0, 273.0, 0.81, 0.61),
            ("Firefox", 560.0, 716.0, 0.69, 0.43),
            ("GEarth", 273.0, 429.0, 0.77, 0.54),
            ("BangDream", 326.0, 821.0, 0.61, 0.33),
        ];
        let profile =
            |(name, initial_mb, full_mb, two_consecutive, four_consecutive): (&str, _, _, _, _)| {
                AppProfile {
                    name: name.to_owned(),
                    initial_mb,
                    full_mb,
                    two_consecutive,
                    four_consecutive,
                }
            };
        Self {
            seed: 1,
            apps: table.map(profile).to_vec(),
            scale: 1.0,
            relaunches: 5,
            hot_share: 0.2,
            warm_share: 0.3,
            hot_similarity: 0.70,
            reuse: 0.98,
            hot_accesses_in_execution: 0.5,
            write_share: 0.3,
            change_share: 0.5,
            launch_access_ns: 2000,
            execution_ms: 10_000,
        }
    }
}

impl SynthConfig {
    /// The same configuration with `count` applications: the ones it has, over and over, numbered from
    /// the second time on.
    #[must_use]
    pub fn with_apps(mut self, count: usize) -> Self {
        let own = std::mem::take(&mut self.apps);
        let again = (0..).flat_map(|round| own.iter().map(move |app| (round, app)));
        let rename = |(round, app): (usize, &AppProfile)| match round {
            0 => app.clone(),
            _ => AppProfile {
                name: format!("{}-{}", app.name, round + 1),
                ..app.clone()
            },
        };
        self.apps = if own.is_empty() {
            own
        } else {
            again.take(count).map(rename).collect()
        };
        self
    }

    /// The same configuration, scaled so that all applications together own about `pages` pages in the end.
    #[must_use]
    pub fn with_pages(mut self, pages: u64) -> Self {
        let full_mb: f64 = self.apps.iter().map(|a| a.full_mb).sum();
        self.scale = pages as f64 * PAGE_BYTES as f64 / (full_mb * 1e6);
        self
    }

    /// Pages in `mb` 10^6 bytes at this scale, at least one.
    pub(crate) fn pages(&self, mb: f64) -> u64 {
        ((mb * 1e6 * self.scale / PAGE_BYTES as f64).round() as u64).max(1)
    }
}
