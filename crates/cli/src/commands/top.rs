//! `warmswap top`: the paged programs that run, live.

mod model;
mod terminal;
mod view;

use self::model::{Look, Top};
use self::terminal::Screen;
use super::status::ask;
use crate::exit::BadInput;
use anyhow::Result;
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{IsTerminal as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use warmswap_control::{Client, ClientError, ProgramStats, Request, running};

/// How long a key may wait to be seen.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// How long a program has to take a switch.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(2);

/// How often.
#[derive(Debug, Args)]
pub struct TopArgs {
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
    let looker = std::thread::spawn(move || look_on(interval, &looks, &end));
    let result = show(&seen);
    drop(ended);
    // It waits for a program that is slow to answer, at most.
    let _ = looker.join();
    result
}

/// Draws and handles keys, with the terminal as it was at every way out.
fn show(seen: &Receiver<Look>) -> Result<()> {
    let mut screen = Screen::open()?;
    let mut top = Top::default();
    while !screen.is_ended() {
        screen.draw(|frame| view::draw(&top, frame))?;
        if event::poll(KEY_WAIT)?
            && let Event::Key(event) = event::read()?
        {
            match key(event) {
                Some(Key::Quit) => break,
                Some(Key::Up) => top.select_previous(),
                Some(Key::Down) => top.select_next(),
                Some(Key::Sort) => top.sort_by_next(),
                Some(Key::Background) => switch(&mut top, &Request::Background),
                Some(Key::Foreground) => switch(&mut top, &Request::Foreground),
                None => {}
            }
        }
        seen.try_iter().for_each(|look| top.update(look));
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

/// Asks all programs at each interval, until nobody listens any more.
fn look_on(interval: Duration, looks: &Sender<Look>, end: &Receiver<()>) {
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
        let look = Look {
            at: Instant::now(),
            answers,
        };
        let wait = interval.saturating_sub(begin.elapsed());
        if looks.send(look).is_err() || end.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
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
