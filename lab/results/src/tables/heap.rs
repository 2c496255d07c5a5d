//! Object graphs of Java and JavaScript programs: the figures of the Fleet paper.

use warmswap_study::heap_graph::{
    Extent, HeapStudy, LaunchSet, PAGE_BYTES, PAPER_DEPTH, PAPER_LAUNCH, PAPER_NEAR_ROOT,
    PAPER_YOUNG,
};

use super::cells::{names, share};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Column, Described, Table, Value as _};
use warmswap_study::Published;

/// Sizes that the table of the distribution shows.
const SIZES_SHOWN_BYTES: [u64; 7] = [24, 32, 64, 128, 256, 1024, PAGE_BYTES - 1];

/// All tables of the study.
#[must_use]
pub fn heap(studies: &[HeapStudy]) -> Vec<Table> {
    vec![
        heaps(studies),
        sizes(studies),
        depths(studies),
        nearest(studies),
        pages(studies),
    ]
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

fn sizes(studies: &[HeapStudy]) -> Table {
    let mut columns = names(["dump"]);
    let of_size = [
        ("mean_bytes", "mean"),
        ("median_bytes", "median"),
        ("p99_bytes", "p99"),
    ];
    columns.extend(of_size.map(|(key, title)| Column::new(key, title, Kind::Bytes)));
    let percent = |key: &str, title: &str| Column::new(key, title, Kind::Percent);
    columns.extend(SIZES_SHOWN_BYTES.map(|limit| match limit {
        1024 => percent("up_to_1024_bytes", "≤ 1K"),
        _ if limit == PAGE_BYTES - 1 => percent("below_page", "< page"),
        _ => percent(&format!("up_to_{limit}_bytes"), &format!("≤ {limit}")),
    }));
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
        let mut shares: Vec<_> = SIZES_SHOWN_BYTES
            .map(|limit| at(limit).map(|share| share.objects))
            .into();
        shares.push(at(PAGE_BYTES - 1).map(|share| share.bytes));
        row.extend(shares.iter().map(|share| share.quantity(Kind::Percent)));
        table.row(row);
    }
    table.note(
        "Last column: share of the bytes in objects smaller than a page. Paper: the majority of objects is \
         significantly smaller than a page (Fleet, section 4.3 and Figure 7).",
    )
}

#[derive(Described)]
#[column(dump = self.study.label(), text)]
#[column(depth = self.depth, text)]
#[column(objects = self.extent.objects, count)]
#[column(objects_share = share(self.extent.objects, self.study.heap.objects), percent, "of all")]
#[column(bytes = self.extent.bytes, bytes)]
#[column(bytes_share = share(self.extent.bytes, self.study.heap.bytes), percent, "of all")]
#[column(pages = self.extent.pages, count, "on pages")]
#[column(pages_share = page_share(self.extent.pages, self.study), percent, "of all")]
struct DepthRow<'a> {
    study: &'a HeapStudy,
    depth: String,
    extent: Extent,
}

/// A share of pages, where it is known on how many objects lie.
fn page_share(part: Option<u64>, study: &HeapStudy) -> Option<f64> {
    share(part?, study.heap.pages?)
}

fn depths(studies: &[HeapStudy]) -> Table {
    let rows = studies.iter().flat_map(|study| {
        let depths = study.depths.iter();
        let depths = depths.map(|row| (row.depth.to_string(), row.extent));
        let others = [
            ("deeper".to_owned(), study.deeper),
            ("unreached".to_owned(), study.unreached),
        ];
        let rows = depths.chain(others);
        rows.map(move |(depth, extent)| DepthRow {
            study,
            depth,
            extent,
        })
    });
    Table::of("Objects by shortest path from a root", rows)
}

/// The sets of one dump at one value of D.
struct Sets<'a> {
    study: &'a HeapStudy,
    set: &'a LaunchSet,
}

fn sets(studies: &[HeapStudy]) -> impl Iterator<Item = Sets<'_>> {
    studies.iter().flat_map(|study| {
        let sets = study.launch_sets.iter();
        sets.map(move |set| Sets { study, set })
    })
}

impl Sets<'_> {
    fn objects(&self, extent: Option<Extent>) -> Option<f64> {
        share(extent?.objects, self.study.heap.objects)
    }

    fn bytes(&self, extent: Option<Extent>) -> Option<f64> {
        share(extent?.bytes, self.study.heap.bytes)
    }

    fn laid_out(&self, extent: Option<Extent>) -> Option<f64> {
        page_share(extent?.pages, self.study)
    }

    fn grouped(&self, extent: Option<Extent>) -> Option<f64> {
        page_share(extent.map(Extent::grouped_pages), self.study)
    }

    fn saved(&self) -> Option<f64> {
        let largest = self.set.launch.unwrap_or(self.set.near_root);
        Some(largest.pages? as f64 / largest.grouped_pages().max(1) as f64)
    }

    fn paper(&self, published: &Published) -> Option<f64> {
        (self.set.depth == PAPER_DEPTH).then_some(published.value)
    }
}

#[derive(Described)]
#[column(dump = self.0.study.label(), text)]
#[column(depth = self.0.set.depth, count, "D")]
#[column(near_root_objects = self.0.objects(Some(self.0.set.near_root)), percent, "NRO objects")]
#[column(near_root = self.0.bytes(Some(self.0.set.near_root)), percent, "NRO bytes", paper = self.0.paper(&PAPER_NEAR_ROOT))]
#[column(young_objects = self.0.objects(self.0.study.young), percent, "FYO objects")]
#[column(young = self.0.bytes(self.0.study.young), percent, "FYO bytes", paper = self.0.paper(&PAPER_YOUNG))]
#[column(launch = self.0.bytes(self.0.set.launch), percent, "both", paper = self.0.paper(&PAPER_LAUNCH))]
struct NearestRow<'a>(Sets<'a>);

fn nearest(studies: &[HeapStudy]) -> Table {
    let title = "Near-root and young objects, as shares of the heap (Figure 6b, memory)";
    Table::of(title, sets(studies).map(NearestRow)).note(
        "NRO: fewer than D references from a root, whose object counts as 0. FYO: allocated after the mark.",
    )
}

#[derive(Described)]
#[column(dump = self.0.study.label(), text)]
#[column(depth = self.0.set.depth, count, "D")]
#[column(near_root_pages = self.0.laid_out(Some(self.0.set.near_root)), percent, "NRO laid out")]
#[column(near_root_grouped = self.0.grouped(Some(self.0.set.near_root)), percent, "grouped")]
#[column(young_pages = self.0.laid_out(self.0.study.young), percent, "FYO laid out")]
#[column(young_grouped = self.0.grouped(self.0.study.young), percent, "grouped")]
#[column(launch_pages = self.0.laid_out(self.0.set.launch), percent, "both laid out")]
#[column(launch_grouped = self.0.grouped(self.0.set.launch), percent, "grouped")]
#[column(saved = self.0.saved(), ratio, "saves")]
struct PagesRow<'a>(Sets<'a>);

fn pages(studies: &[HeapStudy]) -> Table {
    let title = "Pages that hold near-root and young objects, as shares of the heap's pages";
    Table::of(title, sets(studies).map(PagesRow)).note(
        "Laid out: pages that hold at least one such object where the program left it. Grouped: pages that they \
         would fill by themselves. Saves: the former over the latter, of both sets.",
    )
}
