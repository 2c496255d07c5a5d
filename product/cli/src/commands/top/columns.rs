//! Columns of a table that fit a terminal: what there is no room for is left out as a whole, never cut.

use ratatui::layout::Constraint;

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Characters of its longest value.
    pub width: u16,
    /// The highest goes first where there is no room; 0 stays.
    pub rank: u8,
}

impl Column {
    /// A column.
    pub const fn new(title: &'static str, width: u16, rank: u8) -> Self {
        Self { title, width, rank }
    }
}

/// The columns that fit, by index; with a space between two of them.
pub fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    loop {
        let needed: usize = shown
            .iter()
            .map(|&at| usize::from(columns[at].width) + 1)
            .sum();
        let first_to_go = shown
            .iter()
            .enumerate()
            .max_by_key(|&(_, &at)| columns[at].rank);
        match first_to_go {
            Some((place, &at)) if needed > usize::from(width) + 1 && columns[at].rank > 0 => {
                shown.remove(place);
            }
            _ => return shown,
        }
    }
}

/// Their widths; the one at `grows` takes what is left.
pub fn widths(columns: &[Column], shown: &[usize], grows: usize) -> Vec<Constraint> {
    let width = |&at: &usize| {
        if at == grows {
            Constraint::Min(columns[at].width)
        } else {
            Constraint::Length(columns[at].width)
        }
    };
    shown.iter().map(width).collect()
}

/// A line of parts with commas or semicolons between them, without the last parts that there is no room for.
pub fn whole_parts(line: String, width: u16) -> String {
    let width = usize::from(width);
    if line.chars().count() <= width {
        return line;
    }
    // Numbers have commas, too.
    let ends = line.match_indices([',', ';']).map(|(end, _)| end);
    let ends = ends.filter(|&end| line[end + 1..].starts_with(' '));
    let fits = |&end: &usize| line[..end].chars().count() + 2 <= width;
    let end = ends.take_while(fits).last().unwrap_or(0);
    format!("{} …", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_by_rank_until_the_others_fit() {
        let columns = [
            Column::new("a", 5, 0),
            Column::new("b", 5, 2),
            Column::new("c", 5, 1),
            Column::new("d", 5, 3),
        ];
        assert_eq!(fitting(&columns, 23), [0, 1, 2, 3]);
        assert_eq!(fitting(&columns, 22), [0, 1, 2]);
        assert_eq!(fitting(&columns, 12), [0, 2]);
        assert_eq!(fitting(&columns, 1), [0]);
    }

    #[test]
    fn lines_end_between_parts() {
        let line = "faults 3,500: 10 staged, 20 pool; 3 files".to_owned();
        assert_eq!(whole_parts(line.clone(), 50), line);
        assert_eq!(
            whole_parts(line.clone(), 36),
            "faults 3,500: 10 staged, 20 pool …"
        );
        assert_eq!(whole_parts(line.clone(), 30), "faults 3,500: 10 staged …");
        assert_eq!(whole_parts(line, 12), " …");
    }
}
