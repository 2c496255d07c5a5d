//! The object graphs of JVM programs (Fleet, ASPLOS '24, sections 4.2, 4.3 and 5.3.1).
//!
//! Fleet keeps two sets of objects in memory for the next launch. *Near-root objects* (NRO) are those whose shortest path
//! from a root has fewer than D references; the roots' own objects have depth 0. *Foreground young objects* (FYO) are
//! those allocated after the last collection before the program leaves. Fleet moves both to pages of their own. The
//! study says how large the sets are, on how many pages their objects lie where the program left them, and how many pages they
//! take once grouped. How often a launch touches them is not in a dump.
//!
//! Paths go through the fields of a dump and from each object to its class, which is a reference in Android's runtime,
//! and through what `java.lang.ref.Reference` refers to. Class objects of the boot loader are roots in HotSpot.
//!
//! There is no study of lifetimes (Figure 5): a dump identifies an object by its address, which the next collection changes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use warmswap_hprof::{ObjectGraph, ObjectId};
use warmswap_page::quantile::Sorted;

use crate::error::StudyError;
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

/// The depth of objects that no path leads to.
const UNREACHED: u32 = u32::MAX;

/// How much memory a set of objects takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Number of objects.
    pub objects: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// Pages that hold at least a part of one of them, as they are laid out.
    pub pages: u64,
}

impl Extent {
    /// Pages that they would take if they lay on pages of their own.
    pub fn grouped_pages(self) -> u64 {
        self.bytes.div_ceil(PAGE_BYTES)
    }
}

/// Objects up to a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeShare {
    /// The size, header and padding included.
    pub up_to_bytes: u64,
    /// Share of the objects that are no larger.
    pub objects: f64,
    /// Share of the bytes that such objects have.
    pub bytes: f64,
}

/// The distribution of object sizes (Figure 7).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepthRow {
    /// References on the shortest path from a root.
    pub depth: u32,
    /// The objects there.
    pub extent: Extent,
}

/// The sets of the paper at one value of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchSet {
    /// Objects with a depth below this are near the roots.
    pub depth: u32,
    /// Near-root objects.
    pub near_root: Extent,
    /// Near-root and young objects together, each once; `None` where young objects are not known.
    pub launch: Option<Extent>,
}

/// All about one dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapStudy {
    /// The dump, by the name of its file.
    pub dump: String,
    /// The whole heap.
    pub heap: Extent,
    /// Number of references that are not null.
    pub references: u64,
    /// Number of objects that are roots.
    pub roots: u64,
    /// The layout by which sizes in memory were computed.
    pub layout: String,
    /// Share of the objects that end where the next one begins under this layout.
    pub layout_fit: f64,
    /// Sizes of the objects.
    pub sizes: ObjectSizes,
    /// Depths from 0 to below the largest D.
    pub depths: Vec<DepthRow>,
    /// Objects that are deeper.
    pub deeper: Extent,
    /// The largest depth of all.
    pub deepest: u32,
    /// Objects that no path leads to: garbage, and what only the virtual machine refers to.
    pub unreached: Extent,
    /// Objects allocated behind the mark, if there was one to look for.
    pub young: Option<Extent>,
    /// The sets of the paper for D from 1.
    pub launch_sets: Vec<LaunchSet>,
}

/// Reads the dump at `path` and studies it for D from 1 to `depth_max`. Objects behind the last instance of the class
/// `young_after` are young.
///
/// # Errors
/// The dump cannot be read, or has no instance of the class.
pub fn heap_study(
    path: &Path,
    depth_max: u32,
    young_after: Option<&str>,
) -> Result<HeapStudy, StudyError> {
    let graph = ObjectGraph::open(path).map_err(|source| StudyError::HeapDump {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let mark = match young_after {
        None => None,
        Some(class) => {
            Some(
                graph
                    .last_instance_of(class)
                    .ok_or_else(|| StudyError::NoInstance {
                        path: path.to_owned(),
                        class: class.to_owned(),
                    })?,
            )
        }
    };
    let name = path.file_stem().unwrap_or(path.as_os_str());
    Ok(heap_graph(&name.to_string_lossy(), &graph, depth_max, mark))
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
    let reached = depths.iter().copied().filter(|depth| *depth != UNREACHED);
    let launch_sets = (1..=depth_max).map(|limit| LaunchSet {
        depth: limit,
        near_root: extent(graph, |object| depth(object) < limit),
        launch: mark.map(|mark| extent(graph, |object| depth(object) < limit || object > mark)),
    });
    HeapStudy {
        dump: name.to_owned(),
        heap,
        references: graph.reference_count(),
        roots: graph.roots().len() as u64,
        layout: graph.layout().name.to_owned(),
        layout_fit: graph.layout_fit(),
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
        unreached: extent(graph, |object| depth(object) == UNREACHED),
        young: mark.map(|mark| extent(graph, |object| object > mark)),
        launch_sets: launch_sets.collect(),
    }
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
    // Objects come by address, so that pages that were counted lie before this one.
    let mut uncounted_page = 0;
    for object in graph.objects().filter(|object| is_in(*object)) {
        let (address, bytes) = (graph.address(object), graph.size_bytes(object));
        extent.objects += 1;
        extent.bytes += bytes;
        let first = (address / PAGE_BYTES).max(uncounted_page);
        let end = address.saturating_add(bytes).div_ceil(PAGE_BYTES);
        extent.pages += end.saturating_sub(first);
        uncounted_page = uncounted_page.max(end);
    }
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
mod tests {
    use super::*;
    use std::io::Cursor;
    use warmswap_hprof::writer::{ClassToWrite, DumpWriter};
    use warmswap_hprof::{FieldType, IdSize, RootKind};

    const NODE: u64 = 0x10_0000;
    const MARK: u64 = 0x10_0100;
    const ARRAYS: u64 = 0x10_0200;

    /// A page apart: a root (0x1000), its child (0x2000), a grandchild (0x3000), garbage (0x4000), the mark (0x5000), and
    /// behind it a young array of 8 KiB (0x6000), which the grandchild refers to. Classes lie on one page.
    fn graph() -> ObjectGraph {
        let mut dump = DumpWriter::new(2, IdSize::Eight);
        let class = |id, fields: &[FieldType]| ClassToWrite {
            id,
            fields: fields.to_vec(),
            ..ClassToWrite::default()
        };
        dump.class("Node", &class(NODE, &[FieldType::Object]));
        dump.class("Mark", &class(MARK, &[]));
        for (id, next) in [(0x1000, 0x2000), (0x2000, 0x3000), (0x4000, 0x1000)] {
            dump.instance(id, NODE, &[(FieldType::Object, next)]);
        }
        dump.object_array(0x3000, ARRAYS, &[0x6000, 0x1000, 0]);
        dump.instance(0x5000, MARK, &[]);
        dump.primitive_array(0x6000, FieldType::Byte, 8192 - 16);
        dump.root(RootKind::JavaFrame, 0x1000);
        dump.root(RootKind::JniGlobal, 0x5000);
        dump.root(RootKind::Unreachable, 0x4000);
        ObjectGraph::read(&mut Cursor::new(dump.finish())).unwrap()
    }

    fn study() -> HeapStudy {
        let graph = graph();
        heap_graph("test", &graph, 4, graph.last_instance_of("Mark"))
    }

    fn extent(objects: u64, bytes: u64, pages: u64) -> Extent {
        Extent {
            objects,
            bytes,
            pages,
        }
    }

    #[test]
    fn depths_follow_the_shortest_path_and_count_classes() {
        let study = study();
        let found: Vec<Extent> = study.depths.iter().map(|row| row.extent).collect();
        // Two instances; child and both classes; the array of references; the young array.
        assert_eq!(
            found,
            [
                extent(2, 32, 2),
                extent(3, 48, 2),
                extent(1, 32, 1),
                extent(1, 8192, 2)
            ]
        );
        assert_eq!(study.deepest, 3);
        assert_eq!(study.deeper, Extent::default());
        assert_eq!(study.unreached, extent(1, 16, 1));
    }

    #[test]
    fn sets_are_united_and_grouped() {
        let study = study();
        assert_eq!(study.heap, extent(8, 8320, 8));
        // Classes lie behind the mark as well.
        assert_eq!(study.young, Some(extent(3, 8224, 3)));
        let set = study.launch_sets[1];
        assert_eq!(set.depth, 2);
        assert_eq!(set.near_root, extent(5, 80, 4));
        assert_eq!(set.near_root.grouped_pages(), 1);
        assert_eq!(set.launch, Some(extent(6, 8272, 6)));
        assert_eq!(set.launch.unwrap().grouped_pages(), 3);
    }

    #[test]
    fn an_object_across_a_border_counts_on_both_pages() {
        let mut dump = DumpWriter::new(2, IdSize::Eight);
        dump.primitive_array(0x1ff0, FieldType::Long, 4);
        dump.primitive_array(0x2020, FieldType::Long, 1);
        let graph = ObjectGraph::read(&mut Cursor::new(dump.finish())).unwrap();
        let heap = heap_graph("test", &graph, 1, None).heap;
        assert_eq!(heap, extent(2, 72, 2));
    }

    #[test]
    fn sizes_are_cumulative() {
        let study = study();
        assert_eq!(study.sizes.median_bytes, 16);
        assert_eq!(study.sizes.mean_bytes, 1040.0);
        let below_page = study.sizes.cumulative.last().unwrap();
        assert_eq!(below_page.objects, 7.0 / 8.0);
        assert_eq!(below_page.bytes, 128.0 / 8320.0);
    }

    #[test]
    fn a_dump_without_objects_is_no_error() {
        let dump = DumpWriter::new(2, IdSize::Eight).finish();
        let graph = ObjectGraph::read(&mut Cursor::new(dump)).unwrap();
        let study = heap_graph("test", &graph, 2, None);
        assert_eq!(study.heap, Extent::default());
        assert_eq!(study.launch_sets[0].launch, None);
    }
}
