//! Reads files that are no heap dumps, or damaged ones, and walks through the graphs of those that can be read.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use warmswap_heapdump::ObjectGraph;

fuzz_target!(|data: &[u8]| {
    let Ok(graph) = ObjectGraph::read(&mut Cursor::new(data)) else {
        return;
    };
    let mut references = 0;
    let mut last_address = 0;
    for object in graph.objects() {
        assert!(graph.address(object) > last_address, "objects are in order");
        last_address = graph.address(object);
        assert!(graph.size_bytes(object) > 0);
        let _ = graph.class(graph.class_of(object));
        for target in graph.references(object) {
            assert!(target.index() < graph.len());
            references += 1;
        }
    }
    assert_eq!(references, graph.reference_count());
    for root in graph.roots() {
        assert!(root.object.index() < graph.len());
    }
    let _ = graph.last_instance_of("a.Node");
});
