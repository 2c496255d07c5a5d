"""The laboratory's LRU, Belady's algorithm and SIEVE miss as often as libCacheSim's on the same accesses."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

from conftest import EXCUSED

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "traces/mixed.wst"
LAB = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/warmswap-lab"
PAGES_PERCENT = (50, 60, 70, 80, 90)


@pytest.fixture(scope="module")
def accesses(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The accesses of the shipped trace, as libCacheSim reads them."""
    pytest.importorskip("libcachesim", reason=f"{EXCUSED}no wheel of libCacheSim for this interpreter")
    if not LAB.exists():
        pytest.skip("the laboratory is not built: cargo build --workspace")
    path = tmp_path_factory.mktemp("peers") / "accesses"
    command = [LAB, "trace", "export", "--out", path, TRACE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def ours(policy: str) -> list[tuple[int, int]]:
    """How many pages fit, and how many accesses miss then."""
    fit = ",".join(map(str, PAGES_PERCENT))
    command = [LAB, "study", "misses", TRACE, "--policies", policy, "--fit", fit, "--json", "-"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [(row["resident_pages"], row["misses"]) for row in json.loads(done.stdout)["data"]]


def theirs(policy: str, path: pathlib.Path, pages: int) -> int:
    import libcachesim

    cache = getattr(libcachesim, policy)(cache_size=pages)
    one_a_page = libcachesim.ReaderInitParam(ignore_obj_size=True)
    kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
    reader = libcachesim.TraceReader(str(path), trace_type=kind, reader_init_params=one_a_page)
    miss_ratio, _ = cache.process_trace(reader)
    return round(miss_ratio * reader.get_num_of_req())


@pytest.mark.parametrize(("policy", "peer"), [("lru", "LRU"), ("optimal", "Belady"), ("sieve", "Sieve")])
def test_as_many_accesses_miss_as_in_libcachesim(policy: str, peer: str, accesses: pathlib.Path) -> None:
    found = ours(policy)

    assert len(found) == len(PAGES_PERCENT)
    assert found == [(pages, theirs(peer, accesses, pages)) for pages, _ in found]
