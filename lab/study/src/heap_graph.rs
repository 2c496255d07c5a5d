//! The object graphs of Java and JavaScript programs (Fleet, ASPLOS '24, sections 4.2, 4.3 and 5.3.1).
//!
//! Fleet keeps two sets of objects in memory for the next launch. *Near-root objects* (NRO) are those whose shortest path
//! from a root has fewer than D references; the roots' own objects have depth 0. *Foreground young objects* (FYO) are
//! those allocated after the last collection before the program leaves. Fleet moves both to pages of their own. The
//! study says how large the sets are, on how many pages their objects lie where the program left them, and how many pages they
//! take once grouped. How often a launch touches them is not in a dump.
//!
//! Paths go through the fields of a dump and from each object to its class, which is a reference in Android's runtime,
//! and through what `java.lang.ref.Reference` refers to. Class objects of the boot loader are roots in HotSpot. What
//! references and roots of a V8 snapshot are says [`warmswap_heapdump::v8`].
//!
//! There is no study of lifetimes (Figure 5): a dump identifies an object by its address, which the next collection changes.

use std::path::Path;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_columns::Described;
use warmswap_heapdump::{
    DumpError, DumpFile, Layout, ObjectGraph, ObjectId, ObjectKind, Root, RootKind, WhichDump,
};
use warmswap_page::quantile::Sorted;

use crate::error::StudyError;
use crate::mean::share;
use crate::paper::Published;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// The depth D that the paper chooses.
pub const PAPER_DEPTH: u32 = 2;

/// Near-root objects at that depth, as a share of the heap.
pub const PAPER_NEAR_ROOT: Published = Published::new(0.104, "Fleet, section 4.2");

/// Foreground young objects, as a share of the heap.
pub const PAPER_YOUNG: Published = Published::new(0.093, "Fleet, section 4.2");

/// Both, as a share of the heap.
pub const PAPER_LAUNCH: Published = Published::new(0.155, "Fleet, section 4.2");

/// Sizes up to which objects are counted, for the distribution of Figure 7.
const SIZE_LIMITS_BYTES: [u64; 10] = [16, 24, 32, 48, 64, 128, 256, 512, 1024, 4095];

/// A layout by which fewer objects end where the next one begins is none that the virtual machine used, or objects lie
/// scattered.
const FITS: f64 = 0.9;

/// More references or roots than this without an object are no oddity of one writer: the dump lacks a part of the heap.
const MANY_DANGLING: f64 = 0.01;

/// From this share of the bytes on, what no path leads to changes every figure by depth.
const MANY_UNREACHED: f64 = 0.5;

/// From this share of the bytes on, memory outside of the heap is worth a line.
const MUCH_NATIVE: f64 = 0.01;

/// The depth of objects that no path leads to.
const UNREACHED: u32 = u32::MAX;

/// How much memory a set of objects takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
    /// Number of objects.
    pub objects: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// Pages that hold at least a part of one of them, as they are laid out; `None` where the dump does not say where
    /// objects lie.
    pub pages: Option<u64>,
}

impl Extent {
    /// Pages that they would take if they lay on pages of their own.
    pub fn grouped_pages(self) -> u64 {
        self.bytes.div_ceil(PAGE_BYTES)
    }
}

/// Objects up to a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeShare {
    /// The size, header and padding included.
    pub up_to_bytes: u64,
    /// Share of the objects that are no larger.
    pub objects: f64,
    /// Share of the bytes that such objects have.
    pub bytes: f64,
}

/// The distribution of object sizes (Figure 7).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectSizes {
    /// Mean size, in bytes.
    pub mean_bytes: f64,
    /// Half of the objects are no larger.
    pub median_bytes: u64,
    /// Of 100 objects, 99 are no larger.
    pub p99_bytes: u64,
    /// The cumulative distribution; the last entry is of objects smaller than a page.
    pub cumulative: Vec<SizeShare>,
}

/// Objects at one depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DepthRow {
    /// References on the shortest path from a root.
    pub depth: u32,
    /// The objects there.
    pub extent: Extent,
}

/// The sets of the paper at one value of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchSet {
    /// Objects with a depth below this are near the roots.
    pub depth: u32,
    /// Near-root objects.
    pub near_root: Extent,
    /// Near-root and young objects together, each once; `None` where young objects are not known.
    pub launch: Option<Extent>,
}

/// All about one dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(dump = self.label(), text)]
#[column(objects = self.heap.objects, count)]
#[column(heap_bytes = self.heap.bytes, "heap")]
#[column(heap_pages = self.heap.pages, "pages")]
#[column(unreached_bytes = share(self.unreached.bytes, self.heap.bytes), percent, "unreached bytes", kept)]
pub struct HeapStudy {
    /// The dump, by the name of its file.
    pub dump: String,
    /// Its number in the file, from 1.
    pub dump_number: u32,
    /// Dumps in the file.
    pub dumps_in_file: u32,
    /// The whole heap.
    pub heap: Extent,
    /// Number of references that are not null.
    #[column]
    pub references: u64,
    /// References to what is no object of the dump.
    #[serde(default)]
    #[column("dangling", kept)]
    pub dangling_references: u64,
    /// Number of objects that are roots.
    #[column]
    pub roots: u64,
    /// The layout by which sizes in memory were computed, or that the dump says them.
    pub layout: String,
    /// Share of the objects that end where the next one begins under this layout; `None` where the dump does not say
    /// where objects lie.
    #[column(percent, "layout fits", kept)]
    pub layout_fit: Option<f64>,
    /// What a reader of the figures has to know about this dump.
    pub notes: Vec<String>,
    /// Sizes of the objects.
    pub sizes: ObjectSizes,
    /// Depths from 0 to below the largest D.
    pub depths: Vec<DepthRow>,
    /// Objects that are deeper.
    pub deeper: Extent,
    /// The largest depth of all.
    #[column]
    pub deepest: u32,
    /// Objects that no path leads to: garbage, and what only the virtual machine refers to.
    pub unreached: Extent,
    /// Objects allocated behind the mark, if there was one to look for.
    pub young: Option<Extent>,
    /// The sets of the paper for D from 1.
    pub launch_sets: Vec<LaunchSet>,
}

impl HeapStudy {
    /// The dump's name, with its number in a file of several.
    #[must_use]
    pub fn label(&self) -> String {
        match self.dumps_in_file {
            0 | 1 => self.dump.clone(),
            _ => format!("{} #{}", self.dump, self.dump_number),
        }
    }
}

/// Which dumps of a file to study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dumps {
    /// One of them.
    One(WhichDump),
    /// Each by itself.
    Each,
}

impl FromStr for Dumps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "first" => Self::One(WhichDump::First),
            "last" => Self::One(WhichDump::Last),
            "each" => Self::Each,
            number => match number.parse() {
                Ok(number) if number > 0 => Self::One(WhichDump::Number(number)),
                _ => return Err("expected first, last, each or a number from 1".to_owned()),
            },
        })
    }
}

/// Reads dumps of the file at `path` and studies them for D from 1 to `depth_max`. Objects behind the last instance of the
/// class `young_after` are young.
///
/// # Errors
/// The dump cannot be read, has no instance of the class, or does not say where objects lie.
pub fn heap_study(
    path: &Path,
    dumps: Dumps,
    depth_max: u32,
    young_after: Option<&str>,
) -> Result<Vec<HeapStudy>, StudyError> {
    let failed = |source: DumpError| StudyError::HeapDump {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let mut file = DumpFile::open(path).map_err(failed)?;
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let name = Path::new(name.strip_suffix(".gz").unwrap_or(&name));
    let name = name.file_stem().unwrap_or_default().to_string_lossy();
    let mut which = match dumps {
        Dumps::One(which) => which,
        Dumps::Each => WhichDump::First,
    };
    let mut studies = Vec::new();
    loop {
        let graph = file.graph(which).map_err(failed)?;
        if graph.is_empty() {
            return Err(StudyError::NoObject {
                path: path.to_owned(),
                dump: graph.dump_number(),
            });
        }
        let mark = young_after.map(|class| mark(path, &graph, class));
        studies.push(heap_graph(&name, &graph, depth_max, mark.transpose()?));
        if dumps != Dumps::Each || graph.dump_number() == graph.dumps_in_file() {
            return Ok(studies);
        }
        which = WhichDump::Number(graph.dump_number() + 1);
    }
}

/// The object behind which young ones lie.
fn mark(path: &Path, graph: &ObjectGraph, class: &str) -> Result<ObjectId, StudyError> {
    let path = path.to_owned();
    if !graph.has_addresses() {
        return Err(StudyError::NoAddresses { path });
    }
    let found = graph.last_instance_of(class);
    found.ok_or_else(|| StudyError::NoInstance {
        path,
        class: class.to_owned(),
    })
}

/// Studies a graph for D from 1 to `depth_max`. Objects behind `mark` in the order of addresses are young.
pub fn heap_graph(
    name: &str,
    graph: &ObjectGraph,
    depth_max: u32,
    mark: Option<ObjectId>,
) -> HeapStudy {
    let depths = depths(graph);
    let depth = |object: ObjectId| depths[object.index()];
    let heap = extent(graph, |_| true);
    let unreached = extent(graph, |object| depth(object) == UNREACHED);
    let reached = depths.iter().copied().filter(|depth| *depth != UNREACHED);
    let launch_sets = (1..=depth_max).map(|limit| LaunchSet {
        depth: limit,
        near_root: extent(graph, |object| depth(object) < limit),
        launch: mark.map(|mark| extent(graph, |object| depth(object) < limit || object > mark)),
    });
    HeapStudy {
        dump: name.to_owned(),
        dump_number: graph.dump_number(),
        dumps_in_file: graph.dumps_in_file(),
        heap,
        references: graph.reference_count(),
        dangling_references: graph.dangling_references(),
        roots: graph.roots().len() as u64,
        layout: layout_name(graph.layout()),
        layout_fit: graph.has_addresses().then(|| graph.layout_fit()),
        notes: notes(graph, heap, unreached),
        sizes: sizes(graph, heap),
        depths: (0..depth_max)
            .map(|wanted| DepthRow {
                depth: wanted,
                extent: extent(graph, |object| depth(object) == wanted),
            })
            .collect(),
        deeper: extent(graph, |object| {
            depth(object) >= depth_max && depth(object) != UNREACHED
        }),
        deepest: reached.max().unwrap_or_default(),
        unreached,
        young: mark.map(|mark| extent(graph, |object| object > mark)),
        launch_sets: launch_sets.collect(),
    }
}

/// Which of several dumps it is, and what of its figures misleads.
fn notes(graph: &ObjectGraph, heap: Extent, unreached: Extent) -> Vec<String> {
    let mut notes = Vec::new();
    if graph.dumps_in_file() > 1 {
        let (number, all) = (graph.dump_number(), graph.dumps_in_file());
        notes.push(format!("dump {number} of {all} in this file"));
    }
    if graph.is_empty() {
        return notes;
    }
    notes.extend(layout_note(graph));
    let is_class = |root: &Root| root.kinds.contains(RootKind::StickyClass);
    if graph.layout().is_some() && !graph.roots().iter().any(is_class) {
        notes.push(
            "no class is a root, as in dumps by jhsdb: what only classes lead to is deeper than it was, or has no path"
                .to_owned(),
        );
    }
    let (references, roots) = (graph.reference_count(), graph.roots().len() as u64);
    let (no_reference, no_root) = (graph.dangling_references(), graph.dangling_roots());
    let native = extent(graph, |object| graph.kind(object) == ObjectKind::Native);
    for (what, part, all, many) in [
        (
            "references lead to objects that the dump lacks",
            no_reference,
            references + no_reference,
            MANY_DANGLING,
        ),
        (
            "roots lead to objects that the dump lacks",
            no_root,
            roots + no_root,
            MANY_DANGLING,
        ),
        (
            "bytes have no path that leads to them, so that depths mislead",
            unreached.bytes,
            heap.bytes,
            MANY_UNREACHED,
        ),
        (
            "bytes are native memory, outside of the heap that V8 collects",
            native.bytes,
            heap.bytes,
            MUCH_NATIVE,
        ),
    ] {
        if let Some(share) = share(part, all).filter(|share| *share >= many) {
            notes.push(format!("{:.1} % of the {what}", share * 100.0));
        }
    }
    notes
}

fn layout_name(layout: Option<Layout>) -> String {
    layout.map_or_else(
        || "as the dump says".to_owned(),
        |layout| layout.to_string(),
    )
}

/// Where sizes and pages are not what they are elsewhere.
fn layout_note(graph: &ObjectGraph) -> Option<String> {
    let layout = layout_name(graph.layout());
    if graph.layout().is_none() {
        return Some("objects have numbers and no addresses: pages are unknown".to_owned());
    }
    if !graph.has_addresses() {
        return Some(format!(
            "identifiers are no addresses: sizes are by fields, as in {layout}, and pages are unknown"
        ));
    }
    (graph.layout_fit() < FITS).then(|| {
        format!(
            "sizes and pages mislead: only {:.1} % of the objects end where the next one begins under the layout {layout}",
            graph.layout_fit() * 100.0
        )
    })
}

/// The length of the shortest path from a root to each object, breadth first as in Fleet's collector (section 5.3.1).
fn depths(graph: &ObjectGraph) -> Vec<u32> {
    let mut depths = vec![UNREACHED; graph.len()];
    let mut level: Vec<ObjectId> = graph
        .roots()
        .iter()
        .filter(|root| root.kinds.keeps_alive())
        .map(|root| root.object)
        .collect();
    for object in &level {
        depths[object.index()] = 0;
    }
    let mut next = Vec::new();
    for depth in 1.. {
        for object in level.drain(..) {
            let class = graph.class(graph.class_of(object)).object;
            for target in graph.references(object).iter().copied().chain(class) {
                if depths[target.index()] == UNREACHED {
                    depths[target.index()] = depth;
                    next.push(target);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        std::mem::swap(&mut level, &mut next);
    }
    depths
}

/// The extent of the objects that `is_in` chooses.
fn extent(graph: &ObjectGraph, is_in: impl Fn(ObjectId) -> bool) -> Extent {
    let mut extent = Extent::default();
    let mut pages = 0;
    // Objects come by address, so that pages that were counted lie before this one.
    let mut uncounted_page = 0;
    for object in graph.objects().filter(|object| is_in(*object)) {
        let (address, bytes) = (graph.address(object), graph.size_bytes(object));
        extent.objects += 1;
        extent.bytes += bytes;
        let first = (address / PAGE_BYTES).max(uncounted_page);
        let end = address.saturating_add(bytes).div_ceil(PAGE_BYTES);
        pages += end.saturating_sub(first);
        uncounted_page = uncounted_page.max(end);
    }
    extent.pages = graph.has_addresses().then_some(pages);
    extent
}

fn sizes(graph: &ObjectGraph, heap: Extent) -> ObjectSizes {
    if heap.objects == 0 {
        return ObjectSizes::default();
    }
    let sorted = Sorted::by(graph.objects().map(|o| graph.size_bytes(o)), u64::cmp);
    let cumulative = SIZE_LIMITS_BYTES.map(|up_to_bytes| {
        let count = sorted
            .samples()
            .partition_point(|bytes| *bytes <= up_to_bytes);
        let bytes: u64 = sorted.samples()[..count].iter().sum();
        SizeShare {
            up_to_bytes,
            objects: count as f64 / heap.objects as f64,
            bytes: bytes as f64 / heap.bytes as f64,
        }
    });
    ObjectSizes {
        mean_bytes: heap.bytes as f64 / heap.objects as f64,
        median_bytes: sorted.median().unwrap_or_default(),
        p99_bytes: sorted.per_mille(990).unwrap_or_default(),
        cumulative: cumulative.into(),
    }
}

#[cfg(test)]
mod tests;
