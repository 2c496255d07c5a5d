//! The daemon's applications, as `top` shows them.

use super::columns::{Column, fitting, widths};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};
use warmswap_control::{AppStatus, DaemonStatus};
use warmswap_report::tables::daemon::{avoided_share, standing, summary};
use warmswap_report::units::{Quantity, Style as Units};

const HELP: &str = "q quit  ↑↓ select  s sort  b background  f foreground  tab programs";

/// Columns; the application's name takes what is left.
const COLUMNS: [Column; 9] = [
    Column::new("APPLICATION", 12, 0),
    Column::new("STANDING", 11, 0),
    Column::new("HOT", 9, 2),
    Column::new("WARM", 9, 5),
    Column::new("COLD", 9, 3),
    Column::new("SWAPPED", 9, 0),
    Column::new("AS", 9, 4),
    Column::new("RELAUNCH", 9, 1),
    Column::new("AVOIDED", 8, 1),
];

/// The place of the name among them.
const NAME: usize = 0;

/// In which order applications stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// Most memory first, swapped out or not.
    #[default]
    Memory,
    /// Most swapped out first.
    Swapped,
    /// By name.
    Name,
}

/// The applications at the last look.
#[derive(Debug, Default)]
pub struct Apps {
    status: DaemonStatus,
    order: Order,
    /// The selected application stays selected when rows move.
    selected: Option<String>,
}

impl Apps {
    /// Takes a look in.
    pub fn update(&mut self, status: DaemonStatus) {
        self.status = status;
        self.sort();
    }

    /// Stands the applications in the next order.
    pub fn sort_by_next(&mut self) {
        self.order = match self.order {
            Order::Memory => Order::Swapped,
            Order::Swapped => Order::Name,
            Order::Name => Order::Memory,
        };
        self.sort();
    }

    fn sort(&mut self) {
        let apps = &mut self.status.apps;
        apps.sort_by(|a, b| a.name.cmp(&b.name));
        match self.order {
            Order::Name => {}
            Order::Memory => {
                apps.sort_by_key(|app| std::cmp::Reverse(app.resident_bytes() + app.swapped_bytes));
            }
            Order::Swapped => apps.sort_by_key(|app| std::cmp::Reverse(app.swapped_bytes)),
        }
    }

    fn selected_row(&self) -> Option<usize> {
        let is_it = |app: &AppStatus| Some(&app.name) == self.selected.as_ref();
        let found = self.status.apps.iter().position(is_it);
        found.or((!self.status.apps.is_empty()).then_some(0))
    }

    /// The name of the selected application.
    pub fn selected(&self) -> Option<&str> {
        let app = self.status.apps.get(self.selected_row()?)?;
        Some(&app.name)
    }

    /// Moves the selection by so many rows.
    pub fn select(&mut self, rows: isize) {
        let Some(now) = self.selected_row() else {
            return;
        };
        let last = self.status.apps.len() - 1;
        let next = now.saturating_add_signed(rows).min(last);
        self.selected = Some(self.status.apps[next].name.clone());
    }

    /// Draws everything; `message` takes the place of the help.
    pub fn draw(&self, message: &str, frame: &mut Frame) {
        let text = summary(&self.status, Units::PLAIN);
        let lines: Vec<Line> = text.lines().map(Line::raw).collect();
        let head = Paragraph::new(lines).wrap(Wrap { trim: true });
        let width = frame.area().width.max(1) as usize;
        let height = |line: &str| line.chars().count().div_ceil(width).max(1);
        let lines: usize = text.lines().map(height).sum();
        let half = usize::from(frame.area().height / 2);
        let [top, rows, bottom] = Layout::vertical([
            Constraint::Length(lines.min(half) as u16 + 1),
            Constraint::Min(2),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(head, top);
        self.draw_rows(frame, rows);
        let message = if message.is_empty() { HELP } else { message };
        frame.render_widget(Paragraph::new(message), bottom);
    }

    fn draw_rows(&self, frame: &mut Frame, area: Rect) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let shown = fitting(&COLUMNS, area.width);
        let head = Row::new(shown.iter().map(|&at| COLUMNS[at].title)).style(bold);
        let rows = self.status.apps.iter().map(|app| {
            let cells = row(app);
            Row::new(shown.iter().map(|&at| cells[at].clone()))
        });
        let table = Table::new(rows, widths(&COLUMNS, &shown, NAME))
            .header(head)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::default().with_selected(self.selected_row());
        frame.render_stateful_widget(table, area, &mut state);
    }
}

fn row(app: &AppStatus) -> [Cell<'static>; COLUMNS.len()] {
    let bytes = |value| Cell::from(Quantity::Bytes(value).human());
    let standing = standing(app);
    let colour = match standing {
        "launch" => Style::new().fg(Color::Yellow),
        "foreground" => Style::new().fg(Color::Green),
        _ => Style::new().add_modifier(Modifier::DIM),
    };
    let avoided = avoided_share(&app.relaunches);
    let avoided = avoided.map_or(Quantity::Missing, Quantity::Fraction);
    [
        Cell::from(app.name.clone()),
        Cell::from(standing).style(colour),
        bytes(app.hot_bytes),
        bytes(app.warm_bytes),
        bytes(app.cold_bytes),
        bytes(app.swapped_bytes),
        bytes(app.compressed_bytes),
        Cell::from(Quantity::Count(app.relaunch_count).human()),
        Cell::from(avoided.human()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use warmswap_control::{Phase, RelaunchStatus, SwapStatus};

    fn app(name: &str, hot_mib: u64, swapped_mib: u64) -> AppStatus {
        AppStatus {
            name: name.to_owned(),
            phase: Phase::Background,
            processes: 1,
            hot_bytes: hot_mib << 20,
            swapped_bytes: swapped_mib << 20,
            relaunch_count: 3,
            relaunches: vec![RelaunchStatus {
                faults: 10,
                faults_avoided: 90,
                ..RelaunchStatus::default()
            }],
            ..AppStatus::default()
        }
    }

    fn apps() -> Apps {
        let mut apps = Apps::default();
        apps.update(DaemonStatus {
            swap: SwapStatus {
                total_bytes: 1 << 30,
                free_bytes: 1 << 29,
                ..SwapStatus::default()
            },
            apps: vec![app("edit", 10, 70), app("web", 100, 50), app("chat", 5, 5)],
            ..DaemonStatus::default()
        });
        apps
    }

    fn picture(apps: &Apps) -> Vec<String> {
        picture_of(apps, 100)
    }

    fn picture_of(apps: &Apps, width: u16) -> Vec<String> {
        let height = 14;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| apps.draw("", frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn applications_stand_below_what_the_daemon_says() {
        let lines = picture(&apps());

        assert!(
            lines[0].starts_with("daemon: working: 3 applications"),
            "{lines:#?}"
        );
        let first = lines
            .iter()
            .position(|line| line.starts_with("APPLICATION"))
            .unwrap()
            + 1;
        let words: Vec<&str> = lines[first].split_whitespace().collect();
        assert_eq!(
            words,
            [
                "web",
                "background",
                "100",
                "MiB",
                "0",
                "B",
                "0",
                "B",
                "50.0",
                "MiB",
                "0",
                "B",
                "3",
                "90.0",
                "%"
            ]
        );
        assert!(lines[13].starts_with("q quit"), "{lines:#?}");
    }

    #[test]
    fn narrow_terminals_have_fewer_columns_and_whole_numbers() {
        let mut apps = apps();
        let large = AppStatus {
            hot_bytes: 1000 << 20,
            warm_bytes: 1001 << 20,
            cold_bytes: 1002 << 20,
            swapped_bytes: 1003 << 20,
            compressed_bytes: 1004 << 20,
            ..app("a-long-name-that-is-cut", 1, 1)
        };
        apps.status.apps = vec![large];
        let has = |width: u16| -> Vec<bool> {
            let text = picture_of(&apps, width).join("\n");
            let values = [
                "1,000 MiB",
                "1,001 MiB",
                "1,002 MiB",
                "1,003 MiB",
                "1,004 MiB",
                "90.0 %",
            ];
            values.iter().map(|value| text.contains(value)).collect()
        };
        assert_eq!(has(100), [true; 6]);
        assert_eq!(has(80), [true, false, true, true, false, true]);
        assert_eq!(has(60), [false, false, false, true, false, true]);
        for width in 40..100 {
            let text = picture_of(&apps, width).join("\n");
            let cut = text
                .split_whitespace()
                .any(|word| ["Mi", "M", "1,00", "1,0"].contains(&word));
            assert!(!cut, "{width}: {text}");
        }
    }

    #[test]
    fn the_selection_stays_with_its_application() {
        let mut apps = apps();
        assert_eq!(apps.selected(), Some("web"), "most memory");
        apps.select(1);
        assert_eq!(apps.selected(), Some("edit"));
        apps.sort_by_next();
        assert_eq!(
            (apps.selected(), apps.selected_row()),
            (Some("edit"), Some(0))
        );
        apps.select(-5);
        apps.select(5);
        assert_eq!(apps.selected(), Some("chat"));
        apps.update(DaemonStatus::default());
        assert_eq!(apps.selected(), None);
    }
}
