//! Reads files that are no snapshots of V8's heap, or damaged ones, and walks through the graphs of those that can be read.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use warmswap_heapdump::ObjectGraph;

fuzz_target!(|data: &[u8]| {
    let Ok(graph) = ObjectGraph::read(&mut Cursor::new(data)) else {
        return;
    };
    let mut references = 0;
    for object in graph.objects() {
        let _ = graph.size_bytes(object);
        let _ = graph.class(graph.class_of(object));
        for target in graph.references(object) {
            assert!(target.index() < graph.len());
            references += 1;
        }
    }
    assert_eq!(references, graph.reference_count());
    assert!(graph.roots().is_sorted_by_key(|root| root.object));
    assert!(graph.roots().iter().all(|root| root.object.index() < graph.len()));
});
