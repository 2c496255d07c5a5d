//! What the daemon needs of a host: the kernel host, or one that tests watch.

use warmswap_kernel::application::ProcessId;
use warmswap_kernel::host::Tick;
use warmswap_kernel::{AppId, Application, HostConfig, HostError, HostStatus};
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

    /// Leaves the pages of a process to itself.
    fn leave_to_itself(&mut self, id: ProcessId);

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

    fn leave_to_itself(&mut self, id: ProcessId) {
        warmswap_kernel::Host::leave_to_itself(self, id);
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
    HostConfig {
        bring_back: host.bring_back,
        prefetch: host.prefetch,
        write_back: host.write_back,
        recompress_after_s: (host.recompress_after_s > 0).then_some(host.recompress_after_s),
        learned_folder: Some(config.daemon.state_folder.clone()),
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
        let text = "[host]\nbring-back = false\nprefetch = false\nrecompress-after-seconds = 600\n\
                    write-back = false\n[daemon]\nstate-folder = \"/x\"\n";
        let before = host_config(&config);
        assert!(before.bring_back && before.prefetch && before.write_back);
        assert_eq!(before.recompress_after_s, None);

        config.merge(text, Path::new("/c")).unwrap();
        let after = host_config(&config);

        assert!(!after.bring_back && !after.prefetch && !after.write_back);
        assert_eq!(after.recompress_after_s, Some(600));
        assert_eq!(after.learned_folder.as_deref(), Some(Path::new("/x")));
    }
}
