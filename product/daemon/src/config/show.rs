//! The configuration as text: what holds, and an example with every key.

use serde::Serialize;

use super::Config;
use super::keys::{Key, Section};
use super::sections::{
    AppSection, DaemonSection, DiscoverSection, HostSection, SignalsSection, ZramSection,
};
use super::size::Facts;
use super::value;

/// Width of the comments of the example, in characters.
const WIDTH: usize = 100;

/// One value that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Its section.
    pub section: String,
    /// Its key.
    pub key: &'static str,
    /// The value, as it would be written.
    pub value: String,
    /// What it comes to on this machine, where it is an expression.
    pub comes_to: Option<String>,
    /// File and line; `None` for a default.
    pub origin: Option<String>,
}

impl Config {
    /// Every value that holds, section by section.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        self.list("daemon", &self.daemon, &mut settings);
        self.list("host", &self.host, &mut settings);
        for (name, zram) in &self.zram {
            self.list(name, zram, &mut settings);
        }
        self.list("signals", &self.signals, &mut settings);
        self.list("discover", &self.discover, &mut settings);
        for (name, app) in &self.apps {
            self.list(&format!("app.{}", value::key(name)), app, &mut settings);
        }
        settings
    }

    fn list<T: Section>(&self, section: &str, values: &T, to: &mut Vec<Setting>) {
        to.extend(T::KEYS.iter().map(|key| {
            Setting {
                section: section.to_owned(),
                key: key.name,
                value: (key.show)(values),
                comes_to: (key.comes_to)(values),
                origin: self
                    .origins
                    .get(&(section.to_owned(), key.name))
                    .map(ToString::to_string),
            }
        }));
    }

    /// What holds, in the syntax of the files; comments say where each value comes from.
    #[must_use]
    pub fn effective(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            text += &format!("# read: {}\n", file.display());
        }
        if self.files.is_empty() {
            text += "# no file is there: all of this is default\n";
        }
        let mut section = String::new();
        for setting in self.settings() {
            if setting.section != section {
                section.clone_from(&setting.section);
                text += &format!("\n[{section}]\n");
            }
            let comment: Vec<String> = setting.comes_to.into_iter().chain(setting.origin).collect();
            if !comment.is_empty() {
                text += &format!("# {}\n", comment.join(", "));
            }
            text += &assignment("", setting.key, &setting.value);
        }
        text
    }
}

/// An example of all keys with their defaults, all of them comments but for one device.
#[must_use]
pub fn example() -> String {
    // No default of the example depends on the machine: expressions are shown as they are written.
    let facts = Facts { ram_bytes: 8 << 30 };
    let mut text = String::from(
        "# Configuration of `warmswap daemon`.\n\
         #\n\
         # The first of /etc, /run, /usr/local/lib and /usr/lib with a warmswap.toml counts; then *.toml of\n\
         # warmswap.d in the same folders, by name. `warmswap config --effective` prints what holds. Sizes\n\
         # are numbers of MiB, or texts with a unit (\"2G\") or an expression of `ram`, the machine's memory\n\
         # (\"min(ram / 2, 4G)\").\n",
    );
    describe::<DaemonSection>("daemon", facts, &mut text);
    describe::<HostSection>("host", facts, &mut text);
    describe::<ZramSection>("zram0", facts, &mut text);
    describe::<SignalsSection>("signals", facts, &mut text);
    describe::<DiscoverSection>("discover", facts, &mut text);
    describe::<AppSection>("app.NAME", facts, &mut text);
    text
}

/// The manual page warmswap.toml(5), in the language of man(7).
#[must_use]
pub fn man_page() -> String {
    let facts = Facts { ram_bytes: 8 << 30 };
    let mut text = String::from(
        ".TH WARMSWAP.TOML 5\n\
         .SH NAME\nwarmswap.toml \\- configuration of the warmswap daemon\n\
         .SH SYNOPSIS\n\
         .I /etc/warmswap.toml\n.br\n.I /etc/warmswap.d/*.toml\n.br\n\
         and the same in /run, /usr/local/lib and /usr/lib\n\
         .SH DESCRIPTION\n\
         The first of these folders with a warmswap.toml counts. Files of the drop\\-in folders come after it, \
         sorted by name, and win over it; of those with one name only the first folder\\(aqs counts, so that \
         an empty file in /etc switches another one off. The files are TOML: [SECTION], KEY = VALUE, text in quotes, \
         comments behind #. What is not known, or wrong, keeps the daemon from starting, and is named with file and \
         line.\n\
         .PP\nSizes are numbers of MiB, or texts with an expression: numbers, which may have a unit behind them \
         (512M, 2G), + \\- * / % ^, parentheses, min(), max() and others, and ram, the machine's memory.\n\
         .PP\n.B warmswap config \\-\\-effective\nprints what holds, and where it was written.\n",
    );
    page_section::<DaemonSection>("daemon", facts, &mut text);
    page_section::<HostSection>("host", facts, &mut text);
    page_section::<ZramSection>("zram0", facts, &mut text);
    page_section::<SignalsSection>("signals", facts, &mut text);
    page_section::<DiscoverSection>("discover", facts, &mut text);
    page_section::<AppSection>("app.NAME", facts, &mut text);
    text.push_str(".SH SEE ALSO\n.BR warmswap-daemon (1),\n.BR warmswap-config (1)\n");
    text
}

fn page_section<T: Section>(name: &str, facts: Facts, text: &mut String) {
    let roff = |words: &str| {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        words.replace('\\', "\\e").replace('-', "\\-")
    };
    text.push_str(&format!(".SH \"[{name}]\"\n{}\n", roff(T::DOC)));
    let defaults = T::defaults(facts);
    for key in T::KEYS {
        let default = (key.show)(&defaults);
        text.push_str(&format!(
            ".TP\n.B {}\n{} Default: {}.\n",
            roff(key.name),
            roff(key.doc),
            roff(&default)
        ));
    }
}

fn describe<T: Section>(name: &str, facts: Facts, text: &mut String) {
    text.push('\n');
    comment(T::DOC, text);
    text.push_str(&format!("#[{name}]\n"));
    let defaults = T::defaults(facts);
    for Key {
        name, doc, show, ..
    } in T::KEYS
    {
        comment(doc, text);
        text.push_str(&assignment("#", name, &show(&defaults)));
    }
}

/// A key and its value, behind a mark; an array that is too wide in several lines.
fn assignment(mark: &str, key: &str, value: &str) -> String {
    let whole = format!("{mark}{key} = {value}\n");
    let items = match value.parse() {
        Ok(toml::Value::Array(items)) if whole.len() > WIDTH => items,
        _ => return whole,
    };
    let (mut text, mut line) = (String::new(), format!("{mark}{key} = ["));
    for item in items.iter().map(ToString::to_string) {
        if line.len() + item.len() + 1 > WIDTH {
            text += &format!("{}\n", line.trim_end());
            line = mark.to_owned();
        }
        line += &format!("{item}, ");
    }
    text + line.trim_end() + &format!("\n{mark}]\n")
}

/// Words in lines of comment.
fn comment(words: &str, text: &mut String) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
