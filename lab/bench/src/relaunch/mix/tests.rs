use std::collections::BTreeSet;
use std::path::Path;

use warmswap_apps::{Place, load_all};
use warmswap_kernel::HostConfig;

use super::*;
use crate::relaunch::{ArmResult, Quantiles};

fn shipped() -> Vec<AppSpec> {
    load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps")).unwrap()
}

fn options() -> RelaunchOptions {
    RelaunchOptions {
        apps: Vec::new(),
        size: Size::Small,
        place: Place::default(),
        arms: vec![Arm::Dram, Arm::Zram, Arm::Kernel],
        total: Total::Share(0.5),
        swap_bytes: None,
        is_limited_at_start: false,
        blocks: 1,
        relaunches: 1,
        warm_up: 1,
        rest_ms: 1,
        seed: 0,
        algorithm: "lz4".to_owned(),
        readahead_kib: None,
        host: HostConfig::default(),
        preload: None,
        footprints: None,
        sample_every: None,
        allow_busy: true,
        command: None,
    }
}

#[test]
fn a_seed_draws_the_same_and_others_draw_everything() {
    let from = shipped();
    let (mut names, mut counts, mut shares) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut small = 0;
    for seed in 0..200 {
        let mix = Mix::draw(seed, &from).unwrap();
        assert_eq!(Mix::draw(seed, &from), Some(mix.clone()));
        let programs: BTreeSet<_> = mix.programs.iter().map(|p| p.name.clone()).collect();
        assert_eq!(programs.len(), mix.programs.len(), "one comes twice");
        small += usize::from(mix.programs[0].is_small);
        counts.insert(programs.len());
        shares.insert((mix.share * 100.0).round() as u64);
        names.extend(programs);
    }
    assert_eq!(names.len(), from.len());
    assert_eq!(counts, BTreeSet::from([4, 5, 6]));
    assert!((60..140).contains(&small), "{small} of 200 are small");
    let ends = (shares.first().copied(), shares.last().copied());
    assert!(
        ends.0 >= Some(35) && ends.1 <= Some(80) && shares.len() > 30,
        "{shares:?}"
    );
}

#[test]
fn few_programs_are_no_mix() {
    let from = shipped();
    assert_eq!(Mix::draw(1, &from[..3]), None);
    assert_eq!(Mix::draw(1, &from[..4]).unwrap().programs.len(), 4);
}

#[test]
fn what_was_drawn_is_measured() {
    let from = shipped();
    let mix = Mix::draw(7, &from).unwrap();

    let options = mix.options(&options(), &from);

    assert_eq!(options.seed, 7);
    assert_eq!(options.total, Total::Share(mix.share));
    for (spec, program) in options.apps.iter().zip(&mix.programs) {
        let shipped = from.iter().find(|spec| spec.name == program.name).unwrap();
        assert_eq!(
            spec.amount.of(options.size),
            shipped.amount.of(program.size())
        );
    }
    assert_eq!(options.apps.len(), mix.programs.len());
}

/// A mix whose arms have these mean latencies, and CPU times of the same numbers.
fn result(seed: u64, means: &[(Arm, u64)]) -> MixResult {
    let mut report = RelaunchReport::new(&options(), 1.0);
    for &(arm, ns) in means {
        let mut result = ArmResult::none(arm);
        result.latency = Quantiles::of([ns]);
        result.cpu.programs_ns = ns;
        report.arms.push(result);
    }
    MixResult {
        mix: Mix::draw(seed, &shipped()).unwrap(),
        report: Some(report),
        failure: None,
    }
}

#[test]
fn an_arm_is_summed_up_beside_zram_over_the_mixes_that_have_both() {
    let mixes = vec![
        result(1, &[(Arm::Dram, 100), (Arm::Zram, 200), (Arm::Kernel, 100)]),
        result(2, &[(Arm::Dram, 100), (Arm::Zram, 400), (Arm::Kernel, 800)]),
        result(3, &[(Arm::Zram, 1), (Arm::Kernel, 1000)]),
        MixResult {
            report: None,
            failure: Some("it did not start".to_owned()),
            ..result(4, &[])
        },
    ];

    let report = MixesReport::new(&shipped(), mixes);

    let [zram, kernel] = report.sums.as_slice() else {
        panic!("{:?}", report.sums);
    };
    assert_eq!(
        (zram.arm, zram.mixes, zram.added),
        (Arm::Zram, 2, Some(1.0))
    );
    assert_eq!((zram.latency, zram.worst_cpu), (1.0, 1.0));
    assert_eq!((kernel.arm, kernel.mixes), (Arm::Kernel, 2));
    assert_eq!(kernel.added, Some((0.0 + 700.0) / (100.0 + 300.0)));
    // Half as long in one, twice as long in the other.
    assert!((kernel.latency - 1.0).abs() < 1e-9);
    assert_eq!((kernel.worst_latency, kernel.worst_cpu), (2.0, 2.0));
}
