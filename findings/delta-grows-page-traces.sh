#!/usr/bin/env bash
# software: Parquet by pyarrow 26.0.1 (pip), columns of page numbers with zstd
# expected: DELTA_BINARY_PACKED, Parquet's encoding for whole numbers that are close to each other, stores the pages that a program
# expected: touches, one after the other, in fewer bytes than PLAIN does
# seen: so it is for sorted pages, and without compression. With zstd the touches take 1.4 times the bytes of PLAIN and twice those
# seen: of a dictionary: a page that comes again has the same number each time, and another difference
set -euo pipefail
source "$(dirname "$0")/common"

need python3
from_pip pyarrow==26.0.1

cat >"$work/delta.py" <<'END'
import os, random, sys
import pyarrow, pyarrow.parquet
from memory import PAGE

draw = random.Random(1)
keep = {number: [str(number)] for number in range(300_000)}
# Look-ups in a table, of which some are in demand: the pages of the table's own objects, by their real addresses.
order = draw.sample(range(len(keep)), len(keep))
wanted = (order[min(int(draw.paretovariate(0.7)), len(keep)) - 1] for _ in range(200_000))
touched = [id(part) // PAGE for number in wanted for part in (keep[number], keep[number][0])]
columns = {"touches": touched, "the same, sorted": sorted(touched)}
encodings = {"PLAIN": {"use_dictionary": False, "column_encoding": {"page": "PLAIN"}},
             "DELTA_BINARY_PACKED": {"use_dictionary": False, "column_encoding": {"page": "DELTA_BINARY_PACKED"}},
             "BYTE_STREAM_SPLIT": {"use_dictionary": False, "column_encoding": {"page": "BYTE_STREAM_SPLIT"}},
             "dictionary": {"use_dictionary": True}}


def size(pages, encoding, compression):
    table = pyarrow.table({"page": pyarrow.array(pages, pyarrow.uint64())})
    pyarrow.parquet.write_table(table, sys.argv[2], compression=compression, **encodings[encoding])
    return os.path.getsize(sys.argv[2])


found = {(name, compression): {encoding: size(pages, encoding, compression) for encoding in encodings}
         for name, pages in columns.items() for compression in ("none", "zstd")}
print(f"pyarrow {pyarrow.__version__}, {len(touched)} touches of {len(set(touched))} pages of this interpreter; expected: DELTA_BINARY_PACKED "
      "is below PLAIN in each row")
print("seen: bytes" + " " * 17 + "".join(f"{encoding:>21}" for encoding in encodings))
for (name, compression), row in found.items():
    print(f"{name + ', ' + compression:<28}" + "".join(f"{bytes_:>21}" for bytes_ in row.values()))
ratio = lambda name, compression: found[name, compression]["DELTA_BINARY_PACKED"] / found[name, compression]["PLAIN"]
open(sys.argv[1], "w").write(f"{ratio('touches', 'zstd'):.3f} {ratio('touches', 'none'):.3f} {ratio('the same, sorted', 'zstd'):.3f}\n")
END

python "$work/delta.py" "$work/ratios" "$work/x.parquet"
read -r zstd none sorted <"$work/ratios"
verdict "under zstd DELTA_BINARY_PACKED makes a trace of touched pages bigger than PLAIN" "$zstd > 1.2 and $none < 0.7 and $sorted < 1"
