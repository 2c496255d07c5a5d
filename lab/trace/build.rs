//! Makes `cfg(fuzzing)`, which cargo-fuzz sets, known to the compiler.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
}
