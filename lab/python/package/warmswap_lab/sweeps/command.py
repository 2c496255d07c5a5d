"""The command ``warmswap-sweep``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any, Optional

from .. import _engine
from ._run import sweep
from ._spec import read_spec

EXAMPLES = """\
examples:
  warmswap-sweep sweep.toml
      on this machine, a worker for each processor; again, to go on
  warmswap-sweep sweep.toml --scheduler tcp://head:8786
      on a cluster that is there: of dask-jobqueue, of Kubernetes

exit status: 0 where each task has a result, 1 where one failed (its row says why), 2 for a spec that cannot be used.
"""


def main(arguments: Optional[list[str]] = None) -> int:
    """Runs the command; its exit status."""
    parser = argparse.ArgumentParser(
        prog="warmswap-sweep",
        description="Replay each combination of traces, schemes and options, into a Parquet data set.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("spec", help="the sweep, as TOML")
    parser.add_argument("--out", help="the data set: a folder, or an address that fsspec knows; default: the spec's")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster; default: one on this machine")
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this machine; default: its processors")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="further tries of a task that fails (2)")
    parser.add_argument("--retry-failed", action="store_true", help="repeat the tasks that failed before")
    parser.add_argument("--send-traces", action="store_true", default=None, help="workers do not see the files of traces")
    parser.add_argument("--list", action="store_true", help="list the tasks, and run none")
    args = parser.parse_args(arguments)
    try:
        return _run(args)
    except _engine.BadInput as error:
        print(f"warmswap-sweep: {error}", file=sys.stderr)
        return 2
    except (_engine.Error, OSError) as error:
        print(f"warmswap-sweep: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("warmswap-sweep: interrupted; the same command goes on", file=sys.stderr)
        return 130


def _client(address: Optional[str]) -> contextlib.AbstractContextManager[Any]:
    if address is None:
        return contextlib.nullcontext()
    from distributed import Client

    client: contextlib.AbstractContextManager[Any] = Client(address)
    return client


def _run(args: argparse.Namespace) -> int:
    if args.list:
        for task in read_spec(args.spec).tasks:
            print(" ".join(f"{name}={value}" for name, value in task.axes().items()))
        return 0
    with _client(args.scheduler) as client:
        results = sweep(
            args.spec,
            client,
            out=args.out,
            workers=args.workers,
            retries=args.retries,
            retry_failed=args.retry_failed,
            send_traces=args.send_traces,
        )
    statuses = results.statuses()
    print(f"{len(statuses)} rows in {results.path}")
    return 1 if "failed" in statuses.values() else 0


if __name__ == "__main__":
    sys.exit(main())
