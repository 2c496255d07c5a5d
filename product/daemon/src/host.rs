//! What the daemon needs of a host: the kernel host, or one that tests watch.

use warmswap_kernel::application::ProcessId;
use warmswap_kernel::host::Tick;
use warmswap_kernel::upkeep::Upkeep;
use warmswap_kernel::{AppId, Application, Goal, HostConfig, HostError, HostStatus};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::Root;

use crate::config::Config;

/// A host over applications, driven by one thread.
pub trait Host {
    /// Watches one more application, and teaches what is kept of it. What is kept and cannot be used is
    /// returned as a warning.
    ///
    /// # Errors
    /// [`HostError`] when the name is taken, or there are too many.
    fn add(&mut self, application: Application) -> Result<(AppId, Option<String>), HostError>;

    /// Watches an application no more.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    fn remove(&mut self, app: AppId) -> Result<(), HostError>;

    /// The application comes to the foreground, and its launch window opens.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    fn switch_to(&mut self, app: AppId) -> Result<(), HostError>;

    /// Its launch window closes.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    fn launch_done(&mut self, app: AppId) -> Result<(), HostError>;

    /// It goes to the background.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    fn background(&mut self, app: AppId) -> Result<(), HostError>;

    /// One step.
    fn tick(&mut self) -> Tick;

    /// Its processes as they were last found.
    ///
    /// # Errors
    /// [`HostError::NoSuchApp`].
    fn processes(&self, app: AppId) -> Result<Vec<ProcessId>, HostError>;

    /// Keeps what was learned since it was kept last.
    ///
    /// # Errors
    /// What could not be saved, for people.
    fn save(&mut self) -> Result<(), String>;

    /// The same of one application.
    ///
    /// # Errors
    /// What could not be saved, for people.
    fn save_app(&mut self, app: AppId) -> Result<(), String>;

    /// All that it knows.
    fn status(&self) -> HostStatus;
}

impl Host for warmswap_kernel::Host {
    fn add(&mut self, application: Application) -> Result<(AppId, Option<String>), HostError> {
        let app = warmswap_kernel::Host::add(self, application)?;
        let warning = self.load_learned(app).err();
        Ok((app, warning.map(|error| error.to_string())))
    }

    fn remove(&mut self, app: AppId) -> Result<(), HostError> {
        warmswap_kernel::Host::remove(self, app)
    }

    fn switch_to(&mut self, app: AppId) -> Result<(), HostError> {
        warmswap_kernel::Host::switch_to(self, app)
    }

    fn launch_done(&mut self, app: AppId) -> Result<(), HostError> {
        warmswap_kernel::Host::launch_done(self, app)
    }

    fn background(&mut self, app: AppId) -> Result<(), HostError> {
        warmswap_kernel::Host::background(self, app)
    }

    fn tick(&mut self) -> Tick {
        warmswap_kernel::Host::tick(self)
    }

    fn processes(&self, app: AppId) -> Result<Vec<ProcessId>, HostError> {
        warmswap_kernel::Host::processes(self, app)
    }

    fn save(&mut self) -> Result<(), String> {
        self.save_learned().map_err(|error| error.to_string())
    }

    fn save_app(&mut self, app: AppId) -> Result<(), String> {
        self.save_learned_of(app).map_err(|error| error.to_string())
    }

    fn status(&self) -> HostStatus {
        warmswap_kernel::Host::status(self)
    }
}

/// The kernel host that is configured.
///
/// # Errors
/// [`HostError`].
pub fn kernel_host(config: &Config, root: &Root) -> Result<warmswap_kernel::Host, HostError> {
    warmswap_kernel::Host::new(host_config(config), root)
}

fn host_config(config: &Config) -> HostConfig {
    let host = &config.host;
    let bytes = |size: &Option<crate::config::size::Size>| {
        size.as_ref()
            .map(|size| size.bytes)
            .filter(|&bytes| bytes > 0)
    };
    let age_s = |age_s: u64| (age_s > 0).then_some(age_s);
    let pages_per_mib = (1 << 20) / PAGE_BYTES as u64;
    let defaults = HostConfig::default();
    HostConfig {
        scheme: host.scheme.clone(),
        goal: Goal {
            budget_bytes: bytes(&host.budget),
            free_bytes: bytes(&host.keep_available),
            ahead_of_kernel: host.ahead_of_kernel,
            pressure_percent: (host.pressure_percent > 0).then_some(host.pressure_percent as f64),
            ..Goal::default()
        },
        page_out_pages_per_second: host.page_out_mib_per_second * pages_per_mib,
        prepage_threads: if host.prefetch {
            defaults.prepage_threads.max(1)
        } else {
            0
        },
        may_stand_aside: host.stand_aside,
        mlock_files: host.mlock_files,
        upkeep: Upkeep {
            recompress_after_s: age_s(host.recompress_after_s),
            write_back_after_s: age_s(host.write_back_after_s),
        },
        launch_window_ms: host.launch_window_ms,
        learned_folder: Some(config.daemon.state_folder.clone()),
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::size::Facts;
    use std::path::Path;

    #[test]
    fn what_is_configured_reaches_the_host() {
        let facts = Facts { ram_bytes: 8 << 30 };
        let mut config = Config::defaults(facts);
        let text = "[host]\nscheme = zram\nahead-of-kernel = no\nkeep-available = ram / 4\nbudget = 100\n\
                    pressure-percent = 20\nprefetch = no\nstand-aside = no\nmlock-files = no\n\
                    recompress-after-seconds = 600\nwrite-back-after-seconds = 0\npage-out-mib-per-second = 10\nlaunch-window-ms = 500\n[daemon]\nstate-folder = /x\n";
        let before = host_config(&config);
        assert!(before.goal.ahead_of_kernel && before.goal.free_bytes.is_none());
        assert_eq!(
            (before.goal.budget_bytes, before.goal.pressure_percent),
            (None, None)
        );
        assert!(before.prepage_threads > 0 && before.may_stand_aside && before.mlock_files);
        assert_eq!(before.scheme, HostConfig::default().scheme);

        config.merge(text, Path::new("/c")).unwrap();
        let after = host_config(&config);

        assert_eq!(after.scheme, "zram");
        assert!(!after.goal.ahead_of_kernel);
        assert_eq!(after.goal.free_bytes, Some(2 << 30));
        assert_eq!(
            (after.goal.budget_bytes, after.goal.pressure_percent),
            (Some(100 << 20), Some(20.0))
        );
        assert_eq!((after.prepage_threads, after.launch_window_ms), (0, 500));
        assert!(!after.may_stand_aside && !after.mlock_files);
        assert!(before.upkeep.is_nothing());
        assert_eq!(
            (
                after.upkeep.recompress_after_s,
                after.upkeep.write_back_after_s
            ),
            (Some(600), None)
        );
        assert_eq!(after.page_out_pages_per_second, 2560);
        assert_eq!(after.learned_folder.as_deref(), Some(Path::new("/x")));
    }
}
