//! Imports directories of made-up files.
//!
//! The first byte of the input chooses the forms of the files; the rest is cut at the bytes 0xfe into the
//! files. Pages are made here, since an input of their size would keep the fuzzer from trying much.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmswap_page::PAGE_BYTES;
use warmswap_trace::TraceReader;
use warmswap_trace::import::ariadne::{HEADER_BYTES, import};

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else {
        return;
    };
    let mut parts = rest.split(|&b| b == 0xfe);
    let mut part = || parts.next().unwrap_or_default();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("write");

    let swap_outs = part();
    let lines = swap_outs
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty());
    let page = |line: &[u8]| [line.len() as u8; PAGE_BYTES];
    if mode & 1 == 0 {
        let mut joined = Vec::new();
        for line in lines {
            let mut header = if mode & 2 == 0 {
                [b"TEST^^^#", line, b"#^^^"].concat()
            } else {
                line.to_vec()
            };
            header.resize(HEADER_BYTES, b' ');
            joined.extend_from_slice(&header);
            joined.extend_from_slice(&page(line));
        }
        write("swapout_trace.txt", &joined);
    } else {
        write("swapout_trace.txt.meta", swap_outs);
        write(
            "swapout_trace.txt.data",
            &lines.flat_map(page).collect::<Vec<_>>(),
        );
    }
    let form = if mode & 4 == 0 { "" } else { ".meta" };
    write(&format!("ttid_swapin_trace.txt{form}"), part());
    write(&format!("swapin_trace.txt{form}"), part());
    if mode & 8 == 0 {
        write("lru_list.txt", part());
    }

    let out = dir.path().join("out.wst");
    match import(dir.path(), &out) {
        Ok(_) => TraceReader::open(&out)
            .and_then(|r| r.verify(|_, _| {}))
            .expect("what was imported is a good trace"),
        Err(_) => assert!(!out.exists()),
    }
});
