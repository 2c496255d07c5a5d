//! Ariadne: a hotness-aware and size-adaptive compressed swap technique (HPCA 2025).

use warmswap_bench::relaunch::{Arm, ArmResult, CpuParts};
use warmswap_codec::Codec;
use warmswap_replay::Sight;
use warmswap_study::chunk_size::{
    ChunkSizes, PAPER_RATIO_128B, PAPER_RATIO_128K, PAPER_SPEEDUP_LZ4, PAPER_SPEEDUP_LZO,
};
use warmswap_study::compare::{PAPER_LATENCY_VS_DRAM, PAPER_LATENCY_VS_ZRAM, SchemeRow};
use warmswap_study::compression::{
    CompressionRow, CompressionStudy, PAPER_COMPRESS, PAPER_CPU, PAPER_DECOMPRESS,
};
use warmswap_study::coverage::{CoverageRow, PAPER_ACCURACY, PAPER_COVERAGE};
use warmswap_study::launches::LaunchRow;
use warmswap_study::locality::{Locality, PAPER as PAPER_LOCALITY};
use warmswap_study::similarity::{PAPER_REUSED, PAPER_SIMILARITY};

use super::{Claim, LIVE_SCHEMES, Ours, Rule, Unit, cannot, claim, over_launches};
use crate::stored::Results;

const COMPARE: &str = "warmswap-lab compare TRACE --budget 200% --pressure full --schemes dram,swap,zram,\
    ariadne-ehl-1k-2k-16k,ariadne-al-1k-2k-16k,warmswap";
const LIVE: &str = "warmswap-lab bench relaunch --arms dram,zram";
const LIVE_FLASH: &str = "warmswap-lab bench relaunch --arms dram,zram,swap";
const HOTNESS_ORDER: &str = "warmswap-lab study hotness-order TRACE";
const COMPRESSION: &str = "warmswap-lab study compression TRACE";
const CHUNK_SIZE: &str = "warmswap-lab study chunk-size TRACE";
const SIMILARITY: &str = "warmswap-lab study similarity TRACE";
const LOCALITY: &str = "warmswap-lab study locality TRACE";
const COVERAGE: &str = "warmswap-lab study coverage TRACE";
const SENSITIVITY: &str = "warmswap-lab study sensitivity TRACE";
const EHL: &str = "ariadne-ehl-1k-2k-16k";
const AL: &str = "ariadne-al-1k-2k-16k";

pub(super) fn claims() -> Vec<Claim> {
    let locality = |pick: fn(usize) -> f64| (0..5).map(pick).sum::<f64>() / 5.0;
    vec![
        claim(
            ("Table 1", "section 2.1"),
            "warmswap-lab study launches TRACE",
        )
        .says(
            "From 10 s to 5 min after its launch, \
                an application's anonymous memory grows 1.3 to 2.5 times, 1.8 in the mean",
        )
        .paper(Some(1.78), Unit::Ratio)
        .ours(|results| over_launches(results, LaunchRow::growth))
        .rule(Rule::AtLeast(1.28, 1.05))
        .reason("programs of a desk take most of their memory at once"),
        claim(("Figure 2", "section 2.3"), LIVE)
            .says("Under zram a relaunch takes 2.1 times as long as from DRAM")
            .paper(Some(2.1), Unit::Ratio)
            .ours(|results| results.live_by(Arm::Zram, Arm::Dram))
            .rule(Rule::AtLeast(1.5, 1.05))
            .reason("the less a program computes in a relaunch, the more of it is swap"),
        claim(("Figure 2", "section 2.3"), COMPARE)
            .says("zram is faster than swap to flash")
            .paper(None, Unit::Ratio)
            .ours(|results| Ours::one(1.0 / scheme(results, "swap")?.latency_vs_zram?))
            .rule(Rule::AtMost(0.95, 1.0)),
        claim(("Figure 3", "section 2.3"), LIVE)
            .says("zram takes 2.6 times the CPU time of DRAM to reclaim memory")
            .paper(Some(2.6), Unit::Ratio)
            .ours(|results| zram_cpu_by(results, Arm::Dram, |cpu| Some(cpu.reclaim_ns())))
            .rule(Rule::AtLeast(1.5, 1.05))
            .reason(
                "ours counts all threads of the kernel, \
                and most of zram's reclaim is done by the programs that wait for it",
            ),
        claim(("Figure 3", "section 2.3"), LIVE_FLASH)
            .says("zram takes twice the CPU time of swap to flash to reclaim memory")
            .paper(Some(2.0), Unit::Ratio)
            .ours(|results| zram_cpu_by(results, Arm::Swap, |cpu| Some(cpu.reclaim_ns())))
            .rule(Rule::AtLeast(1.5, 1.05)),
        claim(("Table 2", "section 2.3"), LIVE)
            .says(
                "zram takes 12.2 % more energy than DRAM under a light load, \
                19.5 % more under a heavy one",
            )
            .paper(Some(1.122), Unit::Ratio)
            .ours(|results| zram_cpu_by(results, Arm::Dram, CpuParts::total_ns))
            .rule(Rule::AtLeast(1.05, 1.0))
            .reason("CPU time stands for energy, which a phone's other parts take most of"),
        claim(("Figure 4", "section 2.3"), HOTNESS_ORDER)
            .says(
                "Of what zram compresses first, \
                a significant part is hot (a tenth is taken for that)",
            )
            .paper(None, Unit::Share)
            .ours(|results| {
                let rows = results.hotness_order.iter().flatten();
                let zram = rows.filter(|row| row.scheme == "zram");
                Ours::over(zram.filter_map(|row| Some(row.parts[0].shares()?[0])))
            })
            .rule(Rule::AtLeast(0.1, 0.05))
            .reason("at this budget LRU has time to find cold pages first"),
        claim(("Figure 5", "section 3"), SIMILARITY)
            .says("70 % of the hot data of two consecutive relaunches are the same")
            .paper(Some(PAPER_SIMILARITY.value), Unit::Share)
            .ours(|results| {
                let rows = results.similarity.iter().flatten();
                Ours::over(rows.map(|row| row.similarity))
            })
            .rule(Rule::Near(0.15))
            .reason("programs that repeat requests of one kind differ less"),
        claim(("Figure 5", "section 3"), SIMILARITY)
            .says("98 % of the hot data of a relaunch are used again up to the end of the next one")
            .paper(Some(PAPER_REUSED.value), Unit::Share)
            .ours(|results| Ours::over(results.similarity.iter().flatten().map(|row| row.reused)))
            .rule(Rule::Near(0.1))
            .reason("the requests that follow a relaunch are few here"),
        claim(("Figure 6", "section 3"), CHUNK_SIZE)
            .says("In chunks of 128 B, memory compresses to a ratio of 1.7")
            .paper(Some(PAPER_RATIO_128B.value), Unit::Ratio)
            .ours(|results| ratio_at(chunk_size(results)?, 128))
            .rule(Rule::Near(0.15)),
        claim(("Figure 6", "section 3"), CHUNK_SIZE)
            .says("In chunks of 128 KiB, it compresses to a ratio of 3.9")
            .paper(Some(PAPER_RATIO_128K.value), Unit::Ratio)
            .ours(|results| ratio_at(chunk_size(results)?, 128 << 10))
            .rule(Rule::Near(0.2))
            .reason("a sample has few neighbours that repeat each other"),
        claim(("Figure 6", "section 3"), CHUNK_SIZE)
            .says("lz4 compresses 59.2 times faster in chunks of 128 B than in chunks of 128 KiB")
            .paper(Some(PAPER_SPEEDUP_LZ4.value), Unit::Ratio)
            .ours(|results| Ours::one(chunk_size(results)?.speedup_of_small(Codec::Lz4)?))
            .rule(Rule::AtLeast(10.0, 1.1))
            .reason("each call of a compressor costs time, which small chunks pay more often"),
        claim(("Figure 6", "section 3"), CHUNK_SIZE)
            .says("lzo compresses 41.8 times faster in chunks of 128 B than in chunks of 128 KiB")
            .paper(Some(PAPER_SPEEDUP_LZO.value), Unit::Ratio)
            .ours(|results| Ours::one(chunk_size(results)?.speedup_of_small(Codec::Lzo)?))
            .rule(Rule::AtLeast(10.0, 1.1))
            .reason("each call of a compressor costs time, which small chunks pay more often"),
        claim(("Table 3", "section 3"), LOCALITY)
            .says(
                "The next page in the pool is used by the same \
                relaunch for 61 to 86 % of the pages",
            )
            .paper(
                Some(locality(|app| PAPER_LOCALITY[app].two.value)),
                Unit::Share,
            )
            .ours(|results| Ours::over(results.locality.iter().flatten().filter_map(Locality::two)))
            .rule(Rule::Near(0.15)),
        claim(("Table 3", "section 3"), LOCALITY)
            .says("The next three pages are, for 33 to 72 %")
            .paper(
                Some(locality(|app| PAPER_LOCALITY[app].four.value)),
                Unit::Share,
            )
            .ours(|results| {
                Ours::over(results.locality.iter().flatten().filter_map(Locality::four))
            })
            .rule(Rule::Near(0.25))
            .reason("programs of a desk use memory in longer runs"),
        claim(("Figure 10", "section 6.1"), COMPARE)
            .says("With EHL, relaunches take half of zram's time")
            .paper(Some(PAPER_LATENCY_VS_ZRAM.value), Unit::Ratio)
            .ours(|results| Ours::one(scheme(results, EHL)?.latency_vs_zram?))
            .rule(Rule::AtMost(0.5, 1.0)),
        claim(("Figure 10", "section 6.1"), COMPARE)
            .says("With AL, where everything is compressed, they do as well")
            .paper(Some(PAPER_LATENCY_VS_ZRAM.value), Unit::Ratio)
            .ours(|results| Ours::one(scheme(results, AL)?.latency_vs_zram?))
            .rule(Rule::AtMost(0.5, 1.0))
            .reason(
                "small chunks are not faster here (Figure 6), \
                and large ones bring pages that nothing asked for",
            ),
        live("Live, with EHL, relaunches take half of zram's time")
            .ours(|results| results.live_by(Arm::AriadneEhl, Arm::Zram)),
        live("Live, with AL, they do as well")
            .ours(|results| results.live_by(Arm::AriadneAl, Arm::Zram)),
        claim(("Figure 10", "section 6.1"), COMPARE)
            .says("Relaunches of all configurations are within 10 % of DRAM's")
            .paper(Some(PAPER_LATENCY_VS_DRAM.value), Unit::Ratio)
            .ours(|results| Ours::one(scheme(results, EHL)?.latency_vs_dram?))
            .rule(Rule::AtMost(1.1, 1.5))
            .reason(
                "ours is the part that memory costs; the paper's has \
                the application's own work in it",
            ),
        claim(("Figure 10", "section 6.1"), COMPARE)
            .says("EHL and AL hardly differ (75 and 73 ms for YouTube)")
            .paper(Some(75.0 / 73.0), Unit::Ratio)
            .ours(|results| {
                let latency = |name| scheme(results, name)?.latency_vs_zram;
                Ours::one(latency(EHL)? / latency(AL)?)
            })
            .rule(Rule::Near(0.1))
            .reason("what is kept in memory need not be decompressed"),
        claim(("Figure 11", "section 6.1"), COMPRESSION)
            .says("Compression and decompression take 15 % less CPU time, over all configurations")
            .paper(Some(PAPER_CPU.value), Unit::Ratio)
            .ours(|results| {
                let study = results.compression.first()?;
                let others = study.schemes.iter().skip(1);
                Ours::over(others.filter_map(|name| study.mean_of(name, |row| row.cpu_vs_first)))
            })
            .rule(Rule::AtMost(0.85, 1.0))
            .reason("what is kept saves CPU time, small chunks cost it (Figure 6)"),
        claim(("Figure 11", "section 6.1"), COMPRESSION)
            .says(
                "EHL takes 25 % less for YouTube and 30 % less for Twitter: \
                for the application that gains most",
            )
            .paper(Some(0.70), Unit::Ratio)
            .ours(|results| Ours::least(ratios(results, EHL, |row| row.cpu_vs_first)))
            .rule(Rule::AtMost(0.75, 1.0)),
        claim(("Figure 11", "section 6.1"), COMPRESSION)
            .says("EHL takes 3 % more than AL for an application with little hot data: at most")
            .paper(Some(1.03), Unit::Ratio)
            .ours(|results| {
                let of = |name| ratios(results, name, |row| row.cpu_vs_first);
                Ours::most(of(EHL).into_iter().zip(of(AL)).map(|(ehl, al)| ehl / al))
            })
            .rule(Rule::AtMost(1.1, 1.2)),
        claim(("Figure 12", "section 6.2"), COMPRESSION)
            .says("With 1K-2K-16K, decompression takes 60 % less for YouTube and Twitter")
            .paper(Some(PAPER_DECOMPRESS.value), Unit::Ratio)
            .ours(|results| Ours::over(ratios(results, EHL, |row| row.decompress_vs_first)))
            .rule(Rule::AtMost(0.5, 1.0))
            .reason("it is saved by keeping the hot list, and not by small chunks"),
        claim(("Figure 12", "section 6.2"), COMPRESSION)
            .says("It takes 90 % less for BangDream: for the application that gains most")
            .paper(Some(0.10), Unit::Ratio)
            .ours(|results| Ours::least(ratios(results, EHL, |row| row.decompress_vs_first)))
            .rule(Rule::AtMost(0.2, 0.5)),
        claim(("Figure 12", "section 6.2"), COMPRESSION)
            .says("With EHL-1K-2K-16K, compression takes 20 % less for YouTube and Twitter")
            .paper(Some(PAPER_COMPRESS.value), Unit::Ratio)
            .ours(|results| Ours::over(ratios(results, EHL, |row| row.compress_vs_first)))
            .rule(Rule::AtMost(0.85, 1.0)),
        claim(("Figure 13", "section 6.2"), COMPRESSION)
            .says(
                "EHL-1K-4K-16K compresses better than zram for every application: \
                the least ratio of ratios",
            )
            .paper(None, Unit::Ratio)
            .ours(|results| Ours::least(data_ratios(&results.compression, "ariadne-ehl-1k-4k-16k")))
            .rule(Rule::AtLeast(1.0, 0.95))
            .reason(
                "chunks of 1 KiB for hot data lose more than chunks of 16 KiB for cold data win",
            ),
        claim(("Figure 13", "section 6.2"), COMPRESSION)
            .says("AL-512-2K-16K compresses about as well as zram")
            .paper(Some(1.0), Unit::Ratio)
            .ours(|results| Ours::over(data_ratios(&results.compression, "ariadne-al-512-2k-16k")))
            .rule(Rule::Near(0.1))
            .reason("chunks of 512 B have little to find repetitions in"),
        claim(("Figure 14", "section 6.2"), COVERAGE)
            .says("The hot list covers 70 % of what a relaunch uses")
            .paper(Some(PAPER_COVERAGE.value), Unit::Share)
            .ours(|results| Ours::over(seen(results).filter_map(|row| row.coverage)))
            .rule(Rule::Near(0.15)),
        claim(("Figure 14", "section 6.2"), COVERAGE)
            .says("92 % of the hot list are used by the relaunch or after it")
            .paper(Some(PAPER_ACCURACY.value), Unit::Share)
            .ours(|results| Ours::over(seen(results).filter_map(|row| row.accuracy)))
            .rule(Rule::Near(0.1))
            .reason(
                "the first hot list comes from the first launch, \
                which touches far more than a relaunch",
            ),
        claim(("Figure 15", "section 6.3"), SENSITIVITY)
            .says("AL-1K-4K-64K compresses better than zram")
            .paper(None, Unit::Ratio)
            .ours(|results| Ours::over(data_ratios(&results.sensitivity, "ariadne-al-1k-4k-64k")))
            .rule(Rule::AtLeast(1.0, 0.95)),
        claim(("Figure 15", "section 6.3"), SENSITIVITY)
            .says("AL-256-1K-4K, whose sizes are too small, compresses worse than zram")
            .paper(None, Unit::Ratio)
            .ours(|results| Ours::over(data_ratios(&results.sensitivity, "ariadne-al-256-1k-4k")))
            .rule(Rule::AtMost(1.0, 1.02)),
        claim(("Figure 15", "section 6.3"), SENSITIVITY)
            .says("64 KiB for cold data do not make decompression longer")
            .paper(None, Unit::Ratio)
            .ours(|results| {
                let own = of_scheme(&results.sensitivity, "ariadne-al-1k-4k-64k");
                Ours::over(own.filter_map(|row| row.decompress_vs_first))
            })
            .rule(Rule::AtMost(1.0, 1.2))
            .reason("cold pages are asked for again, and bring 15 others along"),
        claim(
            ("Section 7", "section 7"),
            "warmswap-lab study entropy TRACE",
        )
        .says("ezswap's estimate costs up to 16.7 % of compression")
        .paper(Some(0.167), Unit::Share)
        .ours(|results| {
            let study = results.entropy.first()?;
            let codecs = study.codecs.iter();
            Ours::over(codecs.map(|row| study.estimate_ns / row.compress_ns))
        })
        .rule(Rule::AtMost(0.167, 0.3)),
        cannot(("Section 6.4", "section 6.4"))
            .says("The overhead of list operations and of pages decompressed in vain is small")
            .reason(
                "the paper gives no number; what the engine keeps for a page is in BENCHMARKS.md",
            ),
    ]
}

/// Of relaunches of real programs, by those over zram.
fn live(says: &'static str) -> Claim {
    claim(("Figure 10", "section 6.1"), LIVE_SCHEMES)
        .says(says)
        .paper(Some(PAPER_LATENCY_VS_ZRAM.value), Unit::Ratio)
        .rule(Rule::AtMost(0.5, 1.0))
        .reason(
            "a fault that a process serves takes longer than the kernel's, and the kernel pages \
            what the library leaves",
        )
}

/// CPU time under zram, divided by another arm's.
fn zram_cpu_by(results: &Results, other: Arm, of: fn(&CpuParts) -> Option<u64>) -> Option<Ours> {
    let cpu = |arm: &ArmResult| Some(of(&arm.cpu)? as f64);
    Ours::one(results.live_ratio(cpu, Arm::Zram, other)?)
}

fn scheme<'a>(results: &'a Results, name: &str) -> Option<&'a SchemeRow> {
    let rows = &results.full_pressure()?.schemes;
    rows.iter().find(|row| row.scheme == name)
}

fn chunk_size(results: &Results) -> Option<&ChunkSizes> {
    results.chunk_size.first()
}

fn ratio_at(study: &ChunkSizes, bytes: u32) -> Option<Ours> {
    let is_wanted = |codec| codec == Codec::Lz4 || codec == Codec::Lzo;
    let rows = study.rows.iter();
    let rows = rows.filter(|row| row.chunk_bytes == bytes && is_wanted(row.codec));
    Ours::over(rows.map(|row| row.data_ratio()))
}

/// The first study's rows of a scheme.
fn of_scheme<'a>(
    studies: &'a [CompressionStudy],
    scheme: &str,
) -> impl Iterator<Item = &'a CompressionRow> {
    let rows = studies.iter().take(1).flat_map(|study| &study.rows);
    // With the paper's codec, or with another.
    rows.filter(move |row| row.scheme.split('+').next() == Some(scheme))
}

fn ratios(results: &Results, scheme: &str, of: fn(&CompressionRow) -> Option<f64>) -> Vec<f64> {
    let own = of_scheme(&results.compression, scheme);
    own.filter_map(of).collect()
}

/// Each application's data ratio by that under the first scheme.
fn data_ratios(studies: &[CompressionStudy], scheme: &str) -> Vec<f64> {
    let of = |row: &CompressionRow| {
        let is_same =
            |other: &&CompressionRow| (&other.trace, &other.app) == (&row.trace, &row.app);
        let first = studies.first()?.rows.iter().find(is_same)?;
        Some(row.volume.data_ratio()? / first.volume.data_ratio()?)
    };
    of_scheme(studies, scheme).filter_map(of).collect()
}

/// Rows of replays that see all touches, as the paper's kernel does.
fn seen(results: &Results) -> impl Iterator<Item = &CoverageRow> {
    let rows = results.coverage.iter().flatten();
    rows.filter(|row| row.sight == Sight::All)
}
