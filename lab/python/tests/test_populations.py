"""Populations: devices that a seed draws, and what a scheme changes on them."""

from __future__ import annotations

import pathlib
import random
from typing import Any, Iterator

import pytest
from distributed import Client, LocalCluster

import warmswap_lab as lab
from warmswap_lab._devices import Device
from warmswap_lab.populations import METRICS
from warmswap_lab.sweeps._progress import Tally


def quiet(tally: Tally) -> None:
    """No progress."""


SMALL: "dict[str, Any]" = {"share": 1 / 4096, "relaunches": 2, "progress": quiet}
"""Devices that take some milliseconds each."""


@pytest.fixture(scope="module")
def one() -> Iterator[Client]:
    """One worker, in this process."""
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


def test_devices_do_not_change_when_more_are_added_or_another_property_differs() -> None:
    few, many = ([Device.draw(lab.Devices(), 7, index) for index in range(n)] for n in (5, 50))
    assert many[:5] == few and len({device.seed for device in many}) == 50
    assert {device.flash for device in many} == {"emmc-5.1", "ufs-3.1"}
    assert all(8 <= len(device.apps) <= 18 and 100 <= device.switches_per_day <= 200 for device in many)
    other = [Device.draw(lab.Devices(memory_gib=lab.Choice((1,))), 7, index) for index in range(5)]
    assert {device.memory_bytes for device in other} == {2**29}
    unlike = [device for device in other if (device.apps, device.seed) != (few[device.index].apps, few[device.index].seed)]
    assert not unlike
    assert Device.draw(lab.Devices(), 8, 0).seed != few[0].seed


def test_a_range_of_whole_numbers_has_both_ends_and_weights_count() -> None:
    rng = random.Random(1)
    assert {lab.Uniform(1, 3).sample(rng) for _ in range(100)} == {1, 2, 3}
    assert 0.5 <= lab.Uniform(0.5, 1).sample(rng) <= 1
    assert {lab.Choice(("a", "b"), (0, 1)).sample(rng) for _ in range(20)} == {"b"}


def test_rows_are_the_same_on_any_cluster_and_for_fewer_devices(one: Client, tmp_path: pathlib.Path) -> None:
    alone = lab.population(24, out=tmp_path / "one", client=one, **SMALL).to_arrow()
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as two:
        many = lab.population(24, out=tmp_path / "two", client=two, **SMALL).to_arrow()
    assert alone.equals(many) and alone.column("index").to_pylist() == list(range(24))
    few = lab.population(9, out=tmp_path / "few", client=one, **SMALL).to_arrow()
    assert few.equals(alone.slice(0, 9))
    other = lab.population(9, out=tmp_path / "other", client=one, seed=1, **SMALL).to_arrow()
    assert not other.equals(few)


def test_a_population_goes_on_and_grows(one: Client, tmp_path: pathlib.Path) -> None:
    def interrupt(tally: Tally) -> None:
        if tally.done >= 20:
            raise KeyboardInterrupt

    last: list[Tally] = []
    with pytest.raises(KeyboardInterrupt):
        lab.population(30, out=tmp_path / "out", client=one, **{**SMALL, "progress": interrupt})
    options = {**SMALL, "progress": last.append}
    whole = lab.population(30, out=tmp_path / "out", client=one, **options).to_arrow()
    assert (last[-1].before, last[-1].done) == (20, 10)
    assert whole.equals(lab.population(30, out=tmp_path / "at once", client=one, **SMALL).to_arrow())
    grown = lab.population(35, out=tmp_path / "out", client=one, **options).to_arrow()
    assert (last[-1].before, last[-1].done) == (30, 5) and grown.slice(0, 30).equals(whole)
    # All rows are there, so that no cluster is needed; another plan in the same place has rows of its own.
    assert lab.population(30, out=tmp_path / "out", **options).to_arrow().equals(whole)
    assert (last[-1].before, last[-1].done) == (30, 0)
    lab.population(5, scheme="lru", out=tmp_path / "out", client=one, **options)
    assert (last[-1].before, last[-1].done) == (0, 5)
    assert lab.population(35, out=tmp_path / "out", **options).to_arrow().equals(grown)


def test_a_scheme_changes_nothing_against_itself(one: Client, tmp_path: pathlib.Path) -> None:
    changes = lab.population(6, "zram", "zram", out=tmp_path, client=one, **SMALL).changes(resamples=50)
    assert list(changes.index) == list(METRICS)
    assert (changes[["change", "low", "high"]] == 0).all(axis=None)
    assert (changes.base == changes.scheme).all() and changes.base["relaunch_mean_ns"] > 0


def known(changes: "list[float]", path: pathlib.Path) -> lab.Population:
    """A population whose scheme changes each metric of each device by so much."""
    found = lab.Population(path, "0" * 16, len(changes))
    rng = random.Random(3)
    rows = []
    for index, change in enumerate(changes):
        row = {"task": f"{index:08}", "trace": "population", "trace_hash": "0" * 16, "status": "done", "index": index}
        for metric in METRICS:
            base = rng.uniform(100, 1000)
            row.update({f"base.{metric}": base, f"scheme.{metric}": base + change})
        rows.append(row)
    found.add(rows)
    return found


def test_intervals_cover_a_known_change(tmp_path: pathlib.Path) -> None:
    rng = random.Random(5)
    covered = 0
    for trial in range(40):
        changes = [rng.gauss(-20, 60) for _ in range(60)]
        found = known(changes, tmp_path / str(trial)).changes(confidence=0.9, resamples=200).iloc[0]
        assert found.change == pytest.approx(sum(changes) / 60)
        assert found.low < found.change < found.high
        assert found.relative == pytest.approx(found.change / found.base) and found.devices == 60
        covered += found.low <= -20 <= found.high
    # 36 are expected; fewer than 28 come once in some thousand seeds.
    assert 28 <= covered < 40


def test_devices_whose_relaunches_were_all_cold_starts_count_for_the_rest(tmp_path: pathlib.Path) -> None:
    found = known([5.0] * 4, tmp_path / "known")
    row = {"task": "4", "trace": "population", "trace_hash": "0" * 16, "status": "done", "index": 4}
    found.n = 5
    found.add([{**row, **{f"{side}.{metric}": 1e6 for side in ("base", "scheme") for metric in METRICS[1:]}}])
    changes = found.changes(resamples=20)
    assert list(changes.devices) == [4, 5, 5, 5, 5]
    assert changes.change.iloc[0] == pytest.approx(5) and changes.change.iloc[1] == pytest.approx(4)


def test_what_kills_and_what_writes_flash(one: Client, tmp_path: pathlib.Path) -> None:
    options = {**SMALL, "share": 1 / 1024}
    scarce = lab.Devices(memory_gib=lab.Choice((1,)), apps=lab.Uniform(16, 18))
    rows = lab.population(4, "swap", out=tmp_path / "scarce", client=one, devices=scarce, **options).to_pandas()
    assert (rows["base.kills_per_day"] > 0).all() and (rows["base.flash_written_bytes_per_day"] == 0).all()
    assert (rows["scheme.kills_per_day"] == 0).all() and (rows["scheme.flash_written_bytes_per_day"] > 0).all()
    plenty = lab.Devices(memory_gib=lab.Choice((64,)))
    rows = lab.population(4, "swap", out=tmp_path / "plenty", client=one, devices=plenty, **options).to_pandas()
    costs = rows[[f"{side}.{metric}" for side in ("base", "scheme") for metric in METRICS[2:]]]
    assert (costs == 0).all(axis=None)
    assert (rows["base.relaunch_mean_ns"] == rows["scheme.relaunch_mean_ns"]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 0}, "at least one device, not 0"),
        ({"out": None}, "the population has no place for results: give out"),
        ({"share": 0}, "more than 0 and at most 1, not 0"),
        ({"share": 1 / 100000}, "too little for a share of 1e-05: replayed are at least 256 KiB"),
        ({"relaunches": 0}, "relaunched at least once, not 0 times"),
        ({"budget": "50%", "device": "nvme"}, "budget, device: follows from the devices"),
        ({"scheme": "zram3"}, "zram3"),
        ({"devices": lab.Devices(flash=lab.Choice(("floppy",)))}, "device 'floppy' is neither one of"),
        ({"devices": lab.Devices(mix=lab.Choice(("Tetris",)))}, "no application 'Tetris': it is one of Youtube, "),
        ({"no_such_option": 1}, "--no-such-option"),
    ],
)
def test_what_is_no_population_is_named(change: "dict[str, Any]", words: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(lab.BadInput, match=words):
        lab.population(**{"n": 3, "out": tmp_path, **SMALL, **change})


def test_distributions_are_checked(tmp_path: pathlib.Path) -> None:
    for make, words in [
        (lambda: lab.Choice(()), "at least one value"),
        (lambda: lab.Choice((1, 2), (1,)), "a weight for each value"),
        (lambda: lab.Uniform(3, 2), "not from 3 to 2"),
        (lambda: known([1.0], tmp_path).changes(), "an interval needs two devices"),
    ]:
        with pytest.raises(lab.BadInput, match=words):
            make()


def test_a_device_that_cannot_be_replayed_is_a_row_that_says_why(one: Client, tmp_path: pathlib.Path) -> None:
    devices = lab.Devices(flash=lab.Choice(("ufs-3.1", "floppy"), (1, 1)))
    seed = next(seed for seed in range(100) if Device.draw(devices, seed, 0).flash == "ufs-3.1")
    found = lab.population(12, out=tmp_path, client=one, seed=seed, devices=devices, **SMALL)
    rows = found.to_pandas()
    failed = rows[rows.status == "failed"]
    drawn = [Device.draw(devices, seed, index) for index in range(12)]
    assert list(failed["index"]) == [device.index for device in drawn if device.flash == "floppy"]
    assert len(failed) and failed.error.str.startswith("device 'floppy'").all()
    with pytest.raises(lab.Error, match=f"{len(failed)} of 12 devices failed: device 'floppy'"):
        found.changes()
