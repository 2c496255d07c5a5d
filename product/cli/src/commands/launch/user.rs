//! The user that called sudo.

use anyhow::{Context as _, Result};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::Command;

use warmswap_output::BadInput;

/// A user as the machine knows it.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    number: u32,
    group: u32,
    name: OsString,
    home: PathBuf,
    shell: OsString,
    groups: Vec<u32>,
}

/// The user whom sudo runs this process for; `None` where that is root, or not sudo.
///
/// # Errors
/// The machine does not know that user.
pub fn who_asked() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let Some(text) = std::env::var_os("SUDO_UID") else {
        return Ok(None);
    };
    let number: u32 = text
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| BadInput(format!("SUDO_UID is no user: {}", text.display())))?;
    if number == 0 {
        return Ok(None);
    }
    User::find(number).map(Some)
}

/// What a program of the machine prints, which asks all that the machine knows users from.
fn ask(program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    anyhow::ensure!(
        output.status.success(),
        "`{program} {}` finds nothing: is this a user of this machine? --as-root starts the program as root",
        arguments.join(" ")
    );
    Ok(output.stdout)
}

impl User {
    fn find(number: u32) -> Result<Self> {
        let number = number.to_string();
        let groups = ask("id", &["-G", &number])?;
        let groups = String::from_utf8_lossy(&groups);
        let groups = groups.split_whitespace().map(str::parse);
        let groups = groups.collect::<Result<Vec<u32>, _>>()?;
        Self::read(&ask("getent", &["passwd", &number])?, groups)
            .context("an odd line of passwd(5)")
    }

    /// A line of passwd(5).
    fn read(line: &[u8], groups: Vec<u32>) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let fields: Vec<&OsStr> = line
            .split(|&byte| byte == b':')
            .map(OsStr::from_bytes)
            .collect();
        let [name, _, number, group, _, home, shell] = fields[..] else {
            return None;
        };
        let id = |field: &OsStr| field.to_str()?.parse().ok();
        Some(Self {
            number: id(number)?,
            group: id(group)?,
            name: name.to_owned(),
            home: PathBuf::from(home),
            shell: OsString::from_vec(shell.as_bytes().to_vec()),
            groups,
        })
    }

    /// Gives this thread the user's rights and no others, for good, and `command` the user's environment. For a process
    /// of one thread that becomes the program next.
    ///
    /// # Errors
    /// The system refuses.
    pub fn become_it(self, command: &mut Command) -> Result<()> {
        let groups: Vec<Gid> = self
            .groups
            .iter()
            .map(|&group| Gid::from_raw(group))
            .collect();
        let (user, group) = (Uid::from_raw(self.number), Gid::from_raw(self.group));
        set_thread_groups(&groups)
            .and_then(|()| set_thread_gid(group))
            .and_then(|()| set_thread_uid(user))
            .with_context(|| format!("cannot become user {}", self.number))?;
        command
            .env("HOME", &self.home)
            .env("USER", &self.name)
            .env("LOGNAME", &self.name)
            .env("SHELL", &self.shell)
            .env_remove("MAIL");
        for name in [
            "SUDO_COMMAND",
            "SUDO_USER",
            "SUDO_UID",
            "SUDO_GID",
            "SUDO_HOME",
        ] {
            command.env_remove(name);
        }
        // Where the user's session is, which sudo forgets.
        let session = PathBuf::from(format!("/run/user/{}", self.number));
        if session.is_dir() {
            command.env("XDG_RUNTIME_DIR", &session);
            let bus = session.join("bus");
            if bus.exists() {
                command.env(
                    "DBUS_SESSION_BUS_ADDRESS",
                    format!("unix:path={}", bus.display()),
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_passwd_is_read() {
        let user = User::read(b"me:x:1000:1001:Me,,,:/home/me:/bin/zsh\n", vec![1001, 27]);
        let expected = User {
            number: 1000,
            group: 1001,
            name: "me".into(),
            home: "/home/me".into(),
            shell: "/bin/zsh".into(),
            groups: vec![1001, 27],
        };
        assert_eq!(user, Some(expected));
        for odd in ["", "me:x:1000", "me:x:a:1:::", "me:x:1:1::::"] {
            assert_eq!(User::read(odd.as_bytes(), Vec::new()), None, "{odd}");
        }
    }
}
