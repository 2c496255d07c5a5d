//! `warmswap top`: the daemon's applications and the paged programs that run, live.

mod apps;
mod columns;
mod model;
mod terminal;
mod view;

use self::apps::Apps;
use self::model::{Look, Top};
use self::terminal::Screen;
use super::daemon::DaemonSocket;
use super::status::ask;
use crate::exit::BadInput;
use anyhow::Result;
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{IsTerminal as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use warmswap_control::{
    AppEvent, Client, ClientError, DaemonStatus, ProgramStats, Request, running,
};

/// How long a key may wait to be seen.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// How long a program has to take a switch.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(2);

/// How often.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    daemon: DaemonSocket,
    /// Time between two looks, in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval: u64,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    Up,
    Down,
    Sort,
    Background,
    Foreground,
    Other,
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('c') if control => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
        KeyCode::Tab => Some(Key::Other),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Char('b') => Some(Key::Background),
        KeyCode::Char('f') => Some(Key::Foreground),
        _ => None,
    }
}

/// Shows the programs until its user has seen enough.
pub fn run(args: TopArgs) -> Result<()> {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        let why = "top needs a terminal; `warmswap status` prints the programs once";
        return Err(BadInput(why.to_owned()).into());
    }
    let interval = Duration::from_millis(args.interval);
    let (looks, seen) = channel();
    let (ended, end) = channel::<()>();
    let daemon = args.daemon.clone();
    let looker = std::thread::spawn(move || look_on(interval, &daemon, &looks, &end));
    let result = show(&args.daemon, &seen);
    drop(ended);
    // It waits for a program that is slow to answer, at most.
    let _ = looker.join();
    result
}

/// What was seen at one moment.
struct Seen {
    programs: Look,
    daemon: Option<DaemonStatus>,
}

/// The two pictures.
#[derive(Default)]
struct Pictures {
    top: Top,
    /// `None` where no daemon answers.
    apps: Option<Apps>,
    /// The programs are shown though there is a daemon.
    programs: bool,
}

impl Pictures {
    fn update(&mut self, seen: Seen) {
        self.top.update(seen.programs);
        match seen.daemon {
            Some(status) => self.apps.get_or_insert_default().update(status),
            None => self.apps = None,
        }
    }

    /// The applications, where they are what is shown.
    fn shown_apps(&mut self) -> Option<&mut Apps> {
        self.apps.as_mut().filter(|_| !self.programs)
    }

    fn press(&mut self, key: Key, daemon: &DaemonSocket) {
        if key == Key::Other {
            self.programs = !self.programs && self.apps.is_some();
            return;
        }
        let Some(apps) = self.shown_apps() else {
            return press_program(&mut self.top, key);
        };
        match key {
            Key::Up => apps.select(-1),
            Key::Down => apps.select(1),
            Key::Sort => apps.sort_by_next(),
            Key::Background | Key::Foreground => {
                let Some(name) = apps.selected().map(str::to_owned) else {
                    return;
                };
                let event = if key == Key::Background {
                    AppEvent::Background
                } else {
                    AppEvent::Switch
                };
                self.top.message = match daemon.tell(&name, event) {
                    Ok(()) => format!("the daemon was told of {name}"),
                    Err(error) => error.to_string(),
                };
            }
            Key::Quit | Key::Other => {}
        }
    }
}

fn press_program(top: &mut Top, key: Key) {
    match key {
        Key::Up => top.select_previous(),
        Key::Down => top.select_next(),
        Key::Sort => top.sort_by_next(),
        Key::Background => switch(top, &Request::Background),
        Key::Foreground => switch(top, &Request::Foreground),
        Key::Quit | Key::Other => {}
    }
}

/// Draws and handles keys, with the terminal as it was at every way out.
fn show(daemon: &DaemonSocket, seen: &Receiver<Seen>) -> Result<()> {
    let mut screen = Screen::open()?;
    let mut pictures = Pictures::default();
    while !screen.is_ended() {
        let message = pictures.top.message.clone();
        match pictures.shown_apps() {
            Some(apps) => screen.draw(|frame| apps.draw(&message, frame))?,
            None => screen.draw(|frame| view::draw(&pictures.top, frame))?,
        }
        if event::poll(KEY_WAIT)?
            && let Event::Key(event) = event::read()?
        {
            match key(event) {
                Some(Key::Quit) => break,
                Some(key) => pictures.press(key, daemon),
                None => {}
            }
        }
        seen.try_iter().for_each(|seen| pictures.update(seen));
    }
    Ok(())
}

fn switch(top: &mut Top, request: &Request) {
    let Some((name, socket)) = top.selected_program() else {
        return;
    };
    let tell = |socket: &Path| Client::connect(socket, SWITCH_TIMEOUT)?.tell(request);
    top.message = match tell(socket) {
        Ok(()) => format!("{name} was told"),
        Err(error) => error.to_string(),
    };
}

/// Asks the daemon and all programs at each interval, until nobody listens any more.
fn look_on(interval: Duration, daemon: &DaemonSocket, looks: &Sender<Seen>, end: &Receiver<()>) {
    loop {
        let begin = Instant::now();
        let ask_one = |socket: PathBuf| -> Option<(PathBuf, Result<ProgramStats, String>)> {
            match ask(&socket) {
                Ok(stats) => Some((socket, Ok(stats))),
                Err(ClientError::Missing { .. } | ClientError::Dead { .. }) => None,
                Err(error) => Some((socket, Err(error.to_string()))),
            }
        };
        let sockets = running().into_iter().map(|program| program.socket);
        let answers = sockets.filter_map(ask_one).collect();
        let seen = Seen {
            // One that is there and does not answer is shown as none; `status` says why.
            daemon: daemon.status().ok().flatten(),
            programs: Look {
                at: Instant::now(),
                answers,
            },
        };
        let wait = interval.saturating_sub(begin.elapsed());
        if looks.send(seen).is_err() || end.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
        key(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn keys_have_meanings() {
        let plain = KeyModifiers::NONE;
        assert_eq!(pressed(KeyCode::Char('q'), plain), Some(Key::Quit));
        assert_eq!(
            pressed(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Key::Quit)
        );
        assert_eq!(pressed(KeyCode::Char('c'), plain), None);
        assert_eq!(pressed(KeyCode::Down, plain), Some(Key::Down));
        assert_eq!(pressed(KeyCode::Char('b'), plain), Some(Key::Background));
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), plain, KeyEventKind::Release);
        assert_eq!(key(released), None);
    }
}
