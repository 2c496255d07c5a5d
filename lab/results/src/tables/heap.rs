//! Object graphs of JVM programs: the figures of the Fleet paper.

use warmswap_study::heap_graph::{
    Extent, HeapStudy, PAGE_BYTES, PAPER_DEPTH, PAPER_LAUNCH, PAPER_NEAR_ROOT, PAPER_YOUNG,
};

use super::cells::fraction;
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// Sizes that the table of the distribution shows.
const SIZES_SHOWN_BYTES: [u64; 7] = [24, 32, 64, 128, 256, 1024, PAGE_BYTES - 1];

/// All tables of the study.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn heap(studies: &[HeapStudy]) -> Result<Vec<Table>, TableError> {
    let tables = vec![
        heaps(studies),
        sizes(studies)?,
        depths(studies)?,
        sets(studies)?,
        pages(studies)?,
    ];
    Ok(tables)
}

fn dump_column() -> Column {
    Column::new("dump", "dump", Kind::Text)
}

fn percent(key: &str, title: &str) -> Column {
    Column::new(key, title, Kind::Percent)
}

fn share(part: u64, whole: u64) -> Quantity {
    fraction((whole > 0).then(|| part as f64 / whole as f64))
}

fn count(pages: Option<u64>) -> Quantity {
    pages.map_or(Quantity::Missing, Quantity::Count)
}

/// A share of pages, where it is known on how many objects lie.
fn page_share(part: Option<u64>, whole: Option<u64>) -> Quantity {
    match (part, whole) {
        (Some(part), Some(whole)) => share(part, whole),
        _ => Quantity::Missing,
    }
}

fn heaps(studies: &[HeapStudy]) -> Table {
    let keys = [
        "dump",
        "objects",
        "heap_bytes",
        "heap_pages",
        "references",
        "dangling_references",
        "roots",
        "deepest",
        "unreached_bytes",
        "layout_fit",
    ];
    let table = Table::select("Heaps", studies, &keys).note(
        "Layout fits: objects that end where the next one begins, with sizes as computed. \
         Deepest: references on the longest of the shortest paths from a root.",
    );
    let notes = studies.iter().flat_map(|study| {
        let label = study.label();
        study
            .notes
            .iter()
            .map(move |note| format!("{label}: {note}."))
    });
    notes.fold(table, Table::note)
}

fn sizes(studies: &[HeapStudy]) -> Result<Table, TableError> {
    let mut columns = vec![
        dump_column(),
        Column::new("mean_bytes", "mean", Kind::Bytes),
        Column::new("median_bytes", "median", Kind::Bytes),
        Column::new("p99_bytes", "p99", Kind::Bytes),
    ];
    for limit in SIZES_SHOWN_BYTES {
        let (key, title) = match limit {
            1024 => ("up_to_1024_bytes".to_owned(), "≤ 1K".to_owned()),
            _ if limit == PAGE_BYTES - 1 => ("below_page".to_owned(), "< page".to_owned()),
            _ => (format!("up_to_{limit}_bytes"), format!("≤ {limit}")),
        };
        columns.push(percent(&key, &title));
    }
    columns.push(percent("below_page_bytes", "bytes"));
    let mut table = Table::new("Sizes of objects (Figure 7): share of the objects", columns);
    for study in studies {
        let cumulative = &study.sizes.cumulative;
        let at = |limit: u64| cumulative.iter().find(|share| share.up_to_bytes == limit);
        let mut row = vec![
            Quantity::Text(study.label()),
            Quantity::Bytes(study.sizes.mean_bytes.round() as u64),
            Quantity::Bytes(study.sizes.median_bytes),
            Quantity::Bytes(study.sizes.p99_bytes),
        ];
        row.extend(SIZES_SHOWN_BYTES.map(|limit| fraction(at(limit).map(|share| share.objects))));
        row.push(fraction(at(PAGE_BYTES - 1).map(|share| share.bytes)));
        table.row(row)?;
    }
    table.footnote(
        "Last column: share of the bytes in objects smaller than a page. Paper: the majority of objects is \
         significantly smaller than a page (Fleet, section 4.3 and Figure 7).",
    );
    Ok(table)
}

fn depths(studies: &[HeapStudy]) -> Result<Table, TableError> {
    let columns = vec![
        dump_column(),
        Column::new("depth", "depth", Kind::Text),
        Column::new("objects", "objects", Kind::Count),
        percent("objects_share", "of all"),
        Column::new("bytes", "bytes", Kind::Bytes),
        percent("bytes_share", "of all"),
        Column::new("pages", "on pages", Kind::Count),
        percent("pages_share", "of all"),
    ];
    let mut table = Table::new("Objects by shortest path from a root", columns);
    for study in studies {
        let mut row = |depth: String, extent: Extent| {
            table.row([
                Quantity::Text(study.label()),
                Quantity::Text(depth),
                Quantity::Count(extent.objects),
                share(extent.objects, study.heap.objects),
                Quantity::Bytes(extent.bytes),
                share(extent.bytes, study.heap.bytes),
                count(extent.pages),
                page_share(extent.pages, study.heap.pages),
            ])
        };
        for depth in &study.depths {
            row(depth.depth.to_string(), depth.extent)?;
        }
        row("deeper".to_owned(), study.deeper)?;
        row("unreached".to_owned(), study.unreached)?;
    }
    Ok(table)
}

fn sets(studies: &[HeapStudy]) -> Result<Table, TableError> {
    let paper = |key: &str| Column::new(key, "paper", Kind::Percent).from(Origin::Paper);
    let columns = vec![
        dump_column(),
        Column::new("depth", "D", Kind::Count),
        percent("near_root_objects", "NRO objects"),
        percent("near_root_bytes", "NRO bytes"),
        paper("near_root_paper"),
        percent("young_objects", "FYO objects"),
        percent("young_bytes", "FYO bytes"),
        paper("young_paper"),
        percent("launch_bytes", "both"),
        paper("launch_paper"),
    ];
    let mut table = Table::new(
        "Near-root and young objects, as shares of the heap (Figure 6b, memory)",
        columns,
    );
    for study in studies {
        for set in &study.launch_sets {
            let heap = study.heap;
            let paper = |published: &warmswap_study::Published| {
                fraction((set.depth == PAPER_DEPTH).then_some(published.value))
            };
            let bytes = |extent: Option<Extent>| {
                extent.map_or(Quantity::Missing, |extent| share(extent.bytes, heap.bytes))
            };
            let young_objects = study.young.map_or(Quantity::Missing, |young| {
                share(young.objects, heap.objects)
            });
            table.row([
                Quantity::Text(study.label()),
                Quantity::Count(set.depth.into()),
                share(set.near_root.objects, heap.objects),
                bytes(Some(set.near_root)),
                paper(&PAPER_NEAR_ROOT),
                young_objects,
                bytes(study.young),
                paper(&PAPER_YOUNG),
                bytes(set.launch),
                paper(&PAPER_LAUNCH),
            ])?;
        }
    }
    table.footnote(
        "NRO: fewer than D references from a root, whose object counts as 0. FYO: allocated after the mark.",
    );
    Ok(table)
}

fn pages(studies: &[HeapStudy]) -> Result<Table, TableError> {
    let columns = vec![
        dump_column(),
        Column::new("depth", "D", Kind::Count),
        percent("near_root_pages", "NRO laid out"),
        percent("near_root_grouped", "grouped"),
        percent("young_pages", "FYO laid out"),
        percent("young_grouped", "grouped"),
        percent("launch_pages", "both laid out"),
        percent("launch_grouped", "grouped"),
        Column::new("saved", "saves", Kind::Ratio),
    ];
    let mut table = Table::new(
        "Pages that hold near-root and young objects, as shares of the heap's pages",
        columns,
    );
    for study in studies {
        for set in &study.launch_sets {
            let of_heap = |pages: Option<u64>| page_share(pages, study.heap.pages);
            let largest = set.launch.unwrap_or(set.near_root);
            let saved = largest.pages.map_or(Quantity::Missing, |pages| {
                Quantity::Ratio(pages as f64 / largest.grouped_pages().max(1) as f64)
            });
            table.row([
                Quantity::Text(study.label()),
                Quantity::Count(set.depth.into()),
                of_heap(set.near_root.pages),
                of_heap(Some(set.near_root.grouped_pages())),
                of_heap(study.young.and_then(|young| young.pages)),
                of_heap(study.young.map(Extent::grouped_pages)),
                of_heap(set.launch.and_then(|launch| launch.pages)),
                of_heap(set.launch.map(Extent::grouped_pages)),
                saved,
            ])?;
        }
    }
    table.footnote(
        "Laid out: pages that hold at least one such object where the program left it. Grouped: pages that they \
         would fill by themselves. Saves: the former over the latter, of both sets.",
    );
    Ok(table)
}
