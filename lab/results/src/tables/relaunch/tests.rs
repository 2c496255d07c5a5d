use super::*;
use warmswap_bench::relaunch::{
    AppResult, Arm, Conditions, CpuParts, HostPart, Quantiles, Setting, SwitchUse, TimelinePart,
};

use warmswap_columns::units::Style;

fn result(arm: Arm, host: Option<HostPart>) -> ArmResult {
    let latency = Quantiles::of([1_000_000, 2_000_000, 3_000_000]);
    ArmResult {
        arm,
        latency,
        use_time: Quantiles::of([4_000_000, 5_000_000, 9_000_000]),
        use_major_faults: Quantiles::of([300]),
        major_faults: Quantiles::of([100]),
        minor_faults: Quantiles::of([200]),
        apps: vec![AppResult {
            app: "redis".to_owned(),
            latency,
            major_faults: Quantiles::of([100]),
        }],
        cpu: CpuParts {
            programs_ns: Some(5),
            host_ns: 7,
            ..CpuParts::default()
        },
        mean_bytes: 1 << 20,
        peak_bytes: 2 << 20,
        kills: 0,
        oom_kills: 0,
        conditions: Conditions::default(),
        file_bytes: 4096,
        out_pages: 1,
        in_pages: 2,
        host,
        arenas: Vec::new(),
        switches: None,
    }
}

fn report(arms: Vec<ArmResult>) -> RelaunchReport {
    RelaunchReport {
        apps: vec!["redis".to_owned()],
        blocks: 1,
        relaunches: 3,
        warm_up: 1,
        rest_ms: 100,
        seed: 1,
        algorithm: "lz4".to_owned(),
        preload_scheme: Some("warmswap+codec=lz4".to_owned()),
        sample_ms: Some(10),
        processors: 2,
        cpu_share: 0.99,
        footprint_bytes: Some(4 << 20),
        total_bytes: Some(2 << 20),
        arms,
        features: Vec::new(),
        values: Vec::new(),
    }
}

fn host(prefetch_used: Option<u64>) -> Option<HostPart> {
    Some(HostPart {
        prefetched: 10,
        prefetch_used,
        ..HostPart::default()
    })
}

#[test]
fn arms_stand_beside_each_other() {
    let report = report(vec![
        result(Arm::Zram, None),
        result(Arm::Kernel, host(Some(9))),
    ]);

    let tables = relaunch(&report);

    assert_eq!(tables.len(), 7);
    let rows = |table: usize| tables[table].json()["rows"].clone();
    assert_eq!(rows(0)[1]["p50_ns"], 2e6);
    assert_eq!(rows(1)[1]["use_p50_ns"], 5e6);
    assert_eq!(rows(1)[1]["use_mean_ns"], 6e6);
    assert_eq!(rows(1)[1]["use_major_faults"], 300);
    assert_eq!(rows(2)[0]["kernel_p90_ns"], 3e6);
    assert_eq!(rows(3)[0]["zram_major_faults"], 100);
    assert_eq!(rows(4)[0]["total_ns"], 12.0);
    assert!(rows(6)[0]["prefetched"].is_null());
    assert_eq!(rows(6)[1]["prefetch_used"], 0.9);
}

/// What an arm's switches used, with one part of the timeline sampled.
fn switches(cpu: f64, in_peak: Option<f64>) -> Option<SwitchUse> {
    let part = TimelinePart {
        switches: 1,
        cpu,
        ..TimelinePart::default()
    };
    Some(SwitchUse {
        cpu,
        programs: cpu,
        kernel_threads: 0.0,
        limit: 0.0,
        host: 0.0,
        in_bytes_per_second: 1e8,
        in_peak_bytes_per_second: in_peak,
        read_bytes_per_second: 0.0,
        read_peak_bytes_per_second: 0.0,
        timeline: vec![part, TimelinePart::default()],
    })
}

#[test]
fn switches_stand_beside_the_papers_and_no_table_is_too_wide() {
    let arena = ArenaPart {
        app: "redis".to_owned(),
        budget_bytes: 100 << 20,
        pool_faults: 123_456,
        out_pages: 1_234_567,
        in_pages: 1_234_567,
        prefetched: 1_234_567,
        used_bytes: 100 << 20,
        pool_bytes: 50 << 20,
        ..ArenaPart::default()
    };
    let report = report(vec![
        result(Arm::Dram, None),
        ArmResult {
            switches: switches(0.4, Some(2e8)),
            ..result(Arm::Zram, None)
        },
        ArmResult {
            switches: switches(0.5, Some(2e8)),
            ..result(Arm::Kernel, host(Some(9)))
        },
        ArmResult {
            switches: switches(0.6, None),
            arenas: vec![arena],
            out_pages: 12_345_678,
            in_pages: 12_345_678,
            ..result(Arm::Preload, host(None))
        },
    ]);

    let tables = relaunch(&report);

    assert_eq!(tables.len(), 13);
    let rows = |table: usize| tables[table].json()["rows"].clone();
    assert!(rows(6)[3]["prefetch_used"].is_null());
    assert_eq!(rows(7)[0]["pool_faults"], 123_456);
    // The arm without samples has no row.
    let cpu = rows(8);
    assert!(cpu[0]["against_zram"].is_null() && cpu[0]["against_zram_paper"].is_null());
    assert_eq!(cpu[1]["against_zram"], 1.25);
    assert_eq!(cpu[1]["against_zram_paper"], 1.18);
    let io = rows(9);
    assert!(io[2]["in_peak_bytes_per_second"].is_null() && io[2]["read_against_zram"].is_null());
    let course = rows(10);
    assert_eq!(course[0]["part of zram's switch"], "0 to 50 %");
    assert_eq!(course[0]["preload"], 0.6);
    assert!(course[1]["preload"].is_null());
    for table in &tables {
        let text = table.text(Style::PLAIN);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{text}");
    }
}

#[test]
fn what_was_left_of_the_machine_stands_beside_its_settings_and_kills() {
    let setting = |name: &str, value: &str| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let conditions = Conditions {
        usable_bytes: Some(1500 << 20),
        available_bytes: Some(864 << 20),
        least_available_bytes: Some(17 << 20),
        most_stall_percent: Some(42.0),
        settings: [180, 0, 125, 15_000]
            .map(|value: u32| setting("vm.watermark_boost_factor", &value.to_string()))
            .into(),
        readahead_kib: vec![setting("vda", "64")],
    };
    let limited = ArmResult {
        kills: 3,
        oom_kills: 5,
        conditions,
        ..result(Arm::DaemonUntold, host(Some(9)))
    };
    let mut report = report(vec![result(Arm::Dram, None), limited]);
    report.features = vec![setting("zswap", "N")];

    let tables = relaunch(&report);

    assert_eq!(tables.len(), 8);
    assert_eq!(
        tables[0].json()["footnotes"][0]["text"],
        "Readahead of files, KiB: vda 64 (daemon-untold)."
    );
    let rows = |table: usize| tables[table].json()["rows"].clone();
    assert_eq!(rows(0)[1]["kills"], 3);
    let machine = rows(7);
    assert!(machine[0]["available_bytes"].is_null());
    assert_eq!(machine[1]["most_stall"], 0.42);
    assert_eq!(
        (&machine[1]["oom_kills"], &machine[1]["settings"]),
        (&5.into(), &"180 0 125 15000".into())
    );
    for table in &tables {
        let text = table.text(Style::PLAIN);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{text}");
    }
    assert!(tables[7].text(Style::PLAIN).contains("zswap N"));
    assert!(!tables[0].text(Style::PLAIN).contains("kernel host"));
}
