//! The picture.

use super::columns::{Column, fitting, whole_parts, widths};
use super::model::{Rates, Row, Top};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row as TableRow, Table, TableState};
use warmswap_control::ProgramStats;
use warmswap_report::tables::programs::{phase, quantile};
use warmswap_report::units::{Quantity, counted};

const HELP: &str = "q quit  ↑↓ select  s sort  b background  f foreground";

/// Columns; the program's name takes what is left.
const COLUMNS: [Column; 10] = [
    Column::new("PID", 7, 0),
    Column::new("PROGRAM", 10, 0),
    Column::new("PHASE", 10, 3),
    Column::new("RESIDENT", 9, 0),
    Column::new("POOL", 9, 2),
    Column::new("RATIO", 6, 6),
    Column::new("FAULTS/s", 9, 1),
    Column::new("p50", 8, 5),
    Column::new("p99", 8, 4),
    Column::new("PAGER", 7, 1),
];

/// The place of the name among them.
const NAME: usize = 1;

/// Lines of the selected program's details, with their frame.
const DETAIL_LINES: u16 = 6;

/// Draws everything.
pub fn draw(top: &Top, frame: &mut Frame) {
    let [head, rows, detail, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(DETAIL_LINES),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(top, head.width)), head);
    programs(top, frame, rows);
    if let Some(row) = top.selected().and_then(|index| top.rows.get(index)) {
        details(row, frame, detail);
    }
    let message = match (top.silent.first(), top.message.is_empty()) {
        (Some(silent), _) => silent.as_str(),
        (None, false) => top.message.as_str(),
        (None, true) => HELP,
    };
    frame.render_widget(Paragraph::new(message), bottom);
}

fn title(top: &Top, width: u16) -> Line<'static> {
    let sum = |value: fn(&ProgramStats) -> u64| {
        let bytes = top.rows.iter().map(|row| value(&row.stats));
        Quantity::Bytes(bytes.sum()).human()
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let name = "warmswap top";
    let rest = format!(
        "  {} by {}: {} resident, {} pool",
        counted(top.rows.len() as u64, "program", "programs"),
        top.order.name(),
        sum(|stats| stats.resident_bytes),
        sum(|stats| stats.pool_bytes),
    );
    let room = width.saturating_sub(name.len() as u16);
    Line::from(vec![
        Span::styled(name, bold),
        Span::raw(whole_parts(rest, room)),
    ])
}

fn programs(top: &Top, frame: &mut Frame, area: Rect) {
    if top.rows.is_empty() {
        let text = if top.looked {
            "No paged program runs. `warmswap run -- COMMAND` starts one."
        } else {
            "Looking …"
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let shown = fitting(&COLUMNS, area.width);
    let titles = shown.iter().map(|&at| COLUMNS[at].title);
    let head = TableRow::new(titles).style(bold);
    let rows = top.rows.iter().map(|program| {
        let cells = row(program);
        TableRow::new(shown.iter().map(|&at| cells[at].clone()))
    });
    let table = Table::new(rows, widths(&COLUMNS, &shown, NAME))
        .header(head)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(top.selected());
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(row: &Row) -> [Cell<'static>; COLUMNS.len()] {
    let stats = &row.stats;
    let rate = |value: fn(&Rates) -> Quantity| row.rates.as_ref().map_or(Quantity::Missing, value);
    let latency = &stats.fault_latency;
    let phase = phase(stats);
    let colour = match phase {
        "launch" => Style::new().fg(Color::Yellow),
        "foreground" => Style::new().fg(Color::Green),
        _ => Style::new().add_modifier(Modifier::DIM),
    };
    [
        Cell::from(stats.pid.to_string()),
        Cell::from(stats.name.clone()),
        Cell::from(phase).style(colour),
        Cell::from(Quantity::Bytes(stats.resident_bytes).human()),
        Cell::from(Quantity::Bytes(stats.pool_bytes).human()),
        Cell::from(
            stats
                .memory_ratio
                .map_or(Quantity::Missing, Quantity::Ratio)
                .human(),
        ),
        Cell::from(rate(|r| Quantity::Count(r.faults_per_second.round() as u64)).human()),
        Cell::from(quantile(latency, latency.p50_ns).human()),
        Cell::from(quantile(latency, latency.p99_ns).human()),
        Cell::from(rate(|r| Quantity::Fraction(r.pager_share)).human()),
    ]
}

fn details(row: &Row, frame: &mut Frame, area: Rect) {
    let stats = &row.stats;
    let block = Block::bordered().title(format!(" {} ({}) ", stats.name, stats.pid));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [budget, lines] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
    let used = stats.used_bytes as f64 / stats.budget_bytes.max(1) as f64;
    let label = format!(
        "{} of {} budget",
        Quantity::Bytes(stats.used_bytes).human(),
        Quantity::Bytes(stats.budget_bytes).human()
    );
    let gauge = Gauge::default()
        .gauge_style(Style::new().fg(Color::Blue))
        // A program may exceed its budget; a bar cannot.
        .ratio(used.clamp(0.0, 1.0))
        .label(label);
    frame.render_widget(gauge, budget);
    let count = |value| Quantity::Count(value).human();
    let faults = &stats.faults;
    let launch = stats
        .last_launch_ns
        .map_or(Quantity::Missing, Quantity::nanoseconds);
    let mut kinds = format!(
        "faults  {}: {} first touches, {} staged, {} pool, {} backing",
        count(faults.total),
        count(faults.first_touches),
        count(faults.staged),
        count(faults.pool),
        count(faults.backing)
    );
    if faults.file > 0 {
        kinds += &format!(", {} files", count(faults.file));
    }
    let pages = format!(
        "pages   {} out, {} in; {} virtual; launches {}, last {}",
        count(stats.swapped_out_pages),
        count(stats.swapped_in_pages),
        Quantity::Bytes(stats.virtual_bytes).human(),
        count(stats.launches.count),
        launch.human(),
    );
    let text = vec![
        Line::from(whole_parts(kinds, lines.width)),
        Line::from(whole_parts(pages, lines.width)),
        Line::from(format!("runs    {}", stats.command.join(" "))),
    ];
    frame.render_widget(Paragraph::new(text), lines);
}

#[cfg(test)]
mod tests;
