"""Inputs of scripts/programs: the same ones every time, all in one folder."""
import json
import math
import random
import struct
import tomllib
import wave
import zlib

SEED = 11


def words(draw):
    """Lines of words; a few are frequent."""
    known = [f"{draw.choice('abcdefghijklmnop')}{draw.choice('aeiou')}rd{number}" for number in range(40_000)]
    for _ in range(150_000):
        yield " ".join(known[int(draw.paretovariate(0.3)) % 40_000] for _ in range(6))


def texts(folder, draw):
    lines = list(words(draw))
    (folder / "words").write_text("\n".join(lines) + "\n")
    changed = [line[::-1] if number % 97 == 0 else line for number, line in enumerate(lines) if number % 89]
    (folder / "words2").write_text("\n".join(changed) + "\n")
    (folder / "small.txt").write_text("\n".join(lines[:12_000]) + "\n")
    plain = "memory paging the program reads its pages again and writes compressed data to another place".split()
    sentences = [" ".join(draw.choices(plain, k=12)).capitalize() + "." for _ in range(9_000)]
    (folder / "short.txt").write_text(" ".join(sentences[:60]) + "\n")
    pages(folder, sentences)


def pages(folder, sentences):
    """Documents of sections in four languages, and a PDF."""
    sections = [sentences[at : at + 15] for at in range(0, len(sentences), 15)]
    forms = {
        "page.md": lambda n, s: f"# Part {n}\n\n{' '.join(s[:5])}\n\n" + "".join(f"* *{x}*\n" for x in s[5:]) + "\n",
        "page.rst": lambda n, s: f"Part {n:5}\n==========\n\n{' '.join(s[:5])}\n\n" + "".join(f"* *{x}*\n" for x in s[5:]) + "\n",
        "page.adoc": lambda n, s: f"== Part {n}\n\n{' '.join(s[:5])}\n\n" + "".join(f"* _{x}_\n" for x in s[5:]) + "\n",
        "pages.ms": lambda n, s: f".NH 1\nPart {n}\n.LP\n{' '.join(s[:5])}\n" + "".join(f".IP *\n{x}\n" for x in s[5:]),
    }
    for name, form in forms.items():
        (folder / name).write_text("".join(form(number, section) for number, section in enumerate(sections)))
    (folder / "pages.pdf").write_bytes(pdf([["Part"] + section for section in sections]))


def pdf(sections):
    """A page a section."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(sections)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(sections)} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, lines in enumerate(sections):
        body = "BT /F1 9 Tf 40 800 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"{page} /Contents {5 + 2 * number} 0 R >>")
        objects.append(f"<< /Length {len(body)} >>\nstream\n{body}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    return out + f"{head}startxref\n{len(out)}\n%%EOF\n".encode()


def tables(folder, draw):
    rows = [(n, draw.random(), draw.gauss(5, 2), f"group{draw.randrange(500)}") for n in range(100_000)]
    lines = [f"{n},{x:.6f},{y:.6f},{group}" for n, x, y, group in rows]
    (folder / "table.csv").write_text("id,x,y,group\n" + "\n".join(lines) + "\n")
    (folder / "data.json").write_text(json.dumps([{"id": n, "x": x, "group": group} for n, x, y, group in rows[:60_000]]))
    items = "".join(f"<item id='{n}'><name>{group} {x:.5f}</name><y>{y}</y></item>\n" for n, x, y, group in rows[:50_000])
    (folder / "data.xml").write_text(f"<list>\n{items}</list>\n")
    (folder / "pairs.tsv").write_text("".join(f"key{n:06}\tvalue of {group} {x:.9f}\n" for n, x, y, group in rows))
    insert = "".join(f"insert into t values({n},{x:.6f},'{group}');\n" for n, x, y, group in rows)
    ask = "select g, count(*), sum(x) from t group by g order by 2 desc, 1 limit 20;\nselect count(*) from t a join t b on a.n = b.n * 7;\n"
    (folder / "table.sql").write_text(f"create table t(n integer primary key, x real, g text);\nbegin;\n{insert}commit;\ncreate index i on t(g, x);\n{ask}")
    book = "".join(f"2020/01/{n % 28 + 1:02} shop {n % 99}\n  Expenses:{group}  ${n % 100}.00\n  Assets:Cash\n\n" for n, x, y, group in rows[:6_000])
    (folder / "book.ledger").write_text(book)
    zone = "".join(f"host{n} 300 IN A 10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(40_000))
    (folder / "zone").write_text(f"$TTL 300\n$ORIGIN example.org.\n@ SOA ns a 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n{zone}")


def pictures(folder, draw):
    width, height = 1600, 1200
    waves = [[int(127 + 120 * math.sin((x + k * 40) / (17 + 9 * k))) for x in range(width + height)] for k in range(3)]
    noise = bytes(draw.randrange(8) for _ in range(4096))
    pixels, grey = bytearray(), bytearray()
    for y in range(height):
        line = [((waves[0][x + y] + noise[(x * y) & 4095]) & 255, waves[1][x], waves[2][y]) for x in range(width)]
        pixels += bytes(value for pixel in line for value in pixel)
        grey += bytes(pixel[0] for pixel in line)
    for name in ("picture.ppm", "picture.pnm"):
        (folder / name).write_bytes(b"P6\n%d %d\n255\n" % (width, height) + pixels)
    (folder / "picture.pgm").write_bytes(b"P5\n%d %d\n255\n" % (width, height) + grey)
    lines = b"".join(b"\0" + bytes(pixels[at : at + width * 3]) for at in range(0, len(pixels), width * 3))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    drawings(folder, draw)


def drawings(folder, draw):
    shapes = [[draw.randrange(1000) for _ in range(4)] for _ in range(8_000)]
    circles = "".join(f"<circle cx='{x}' cy='{y}' r='{r / 60}' fill='#{c + 100:03}' fill-opacity='0.5'/>\n" for x, y, r, c in shapes)
    (folder / "drawing.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1000 1000'>{circles}</svg>\n")
    arcs = "".join(f"{c / 1000} setgray {x / 2} {y / 2} {r / 60} 0 360 arc fill\n" for x, y, r, c in shapes)
    (folder / "drawing.ps").write_text(f"%!PS\n{arcs}showpage\n")
    edges = "".join(f"  n{draw.randrange(160)} -> n{draw.randrange(160)};\n" for _ in range(260))
    (folder / "graph.dot").write_text(f"digraph g {{\n{edges}}}\n")
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setparams((2, 2, 44100, 0, "NONE", ""))
        file.writeframes(b"".join(struct.pack("<hh", int(9000 * math.sin(n / 23)) + draw.randrange(900), int(9000 * math.sin(n / 31))) for n in range(900_000)))


def genomes(folder, draw):
    genome = "".join(draw.choices("ACGT", k=3_000_000))
    reads = [genome[at : at + 150] for at in (draw.randrange(2_999_000) for _ in range(20_000))]
    lines = "\n".join(genome[at : at + 60] for at in range(0, len(genome), 60))
    (folder / "genome.fa").write_text(f">chr1\n{lines}\n")
    (folder / "reads.fa").write_text("".join(f">read{n}\n{read}\n" for n, read in enumerate(reads)))
    (folder / "reads.fq").write_text("".join(f"@read{n}\n{read}\n+\n{'I' * 150}\n" for n, read in enumerate(reads)))

    def mutated(text, share):
        return "".join(draw.choice("ACGT") if draw.random() < share else letter for letter in text)

    family = [mutated(genome[1000:1900], 0.02 + n / 900) for n in range(150)]
    (folder / "aligned.fa").write_text("".join(f">taxon{n}\n{text}\n" for n, text in enumerate(family)))
    (folder / "few.fa").write_text("".join(f">few{n}\n{text[n : 500 + n * 3]}\n" for n, text in enumerate(family[:60])))


def sources(folder, draw):
    """Programs in C, assembler, shell and WebAssembly, a grammar, and a folder of files."""
    one = "int f{0}(int a, int b) {{ int t[{1}]; for (int i = 0; i < {1}; i++) t[i] = a * i + b;{2} return t[a & 3] + b % ({0} + 2); }}\n"
    functions = [one.format(n, 4 + n % 29, "".join(f" if (a > {k}) b ^= t[{k}] * {n};" for k in range(n % 4 + 1))) for n in range(6_000)]
    (folder / "big.c").write_text("".join(functions[:1_000]))
    (folder / "small.c").write_text("".join(functions[:400]))
    (folder / "big.asm").write_text("section .text\n" + "".join(f"l{n}: mov eax, {n}\n add eax, [rbx+{n % 99}]\n jz l{max(0, n - n % 60)}\n" for n in range(60_000)))
    shell = "".join(f"f{n}() {{\n  local x=$1\n  if [ $x -gt {n} ]; then echo $x `date`; fi\n}}\n" for n in range(600))
    (folder / "script.sh").write_text(f"#!/bin/bash\n{shell}")
    rules = "".join(f"r{n}: T{n} r{(n * 7 + 1) % 500} | T{(n + 1) % 500} | r{(n + 1) % 500} T{n} T{(n + 3) % 500} ;\n" for n in range(500))
    tokens = " ".join(f"T{n}" for n in range(500))
    (folder / "grammar.y").write_text(f"%{{\nint yylex(void); void yyerror(const char *s);\n%}}\n%token {tokens}\n%%\nstart: r0 ;\n{rules}%%\n")
    wasm = "".join(
        f"(func $f{n} (export \"f{n}\") (param i32) (result i32) (local i32) (local.set 1 (i32.mul (local.get 0) (i32.const {n})))"
        f" (if (result i32) (local.get 1) (then (call $f{n // 2} (i32.add (local.get 1) (i32.const 3)))) (else (i32.const {n}))))\n"
        for n in range(8_000)
    )
    (folder / "module.wat").write_text(f"(module\n{wasm})\n")
    project(folder, functions)


def project(folder, functions):
    home, tree = folder / "project", folder / "tree"
    home.mkdir()
    names = [f"part{n}" for n in range(6)]
    for at, name in enumerate(names):
        (home / f"{name}.c").write_text("".join(functions[at * 60 : at * 60 + 60]))
    (home / "main.c").write_text('#include <stdio.h>\nint f9(int, int);\nint main(void) { printf("%d\\n", f9(3, 4)); }\n')
    files = " ".join(f"{name}.c" for name in [*names, "main"])
    (home / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.10)\nproject(main C)\nadd_executable(main {files})\n")
    paths = " ".join(f"../in/project/{name}.c" for name in [*names, "main"])
    (home / "Makefile").write_text(f"main: {paths}\n\tcc -O1 -o $@ $^\n")
    for number in range(600):
        (tree / f"d{number % 20}").mkdir(parents=True, exist_ok=True)
        (tree / f"d{number % 20}" / f"f{number}.txt").write_text("word1%d7\n" % number + "".join(functions[number * 9 : number * 9 + 40]))


def formulas(folder, draw):
    holes = 8
    clauses = [[hole * (holes + 1) + pigeon + 1 for hole in range(holes)] for pigeon in range(holes + 1)]
    for hole in range(holes):
        pairs = [(a, b) for a in range(holes + 1) for b in range(a)]
        clauses += [[-(hole * (holes + 1) + a + 1), -(hole * (holes + 1) + b + 1)] for a, b in pairs]
    cnf(folder / "holes.cnf", holes * (holes + 1), clauses)
    three = [[draw.choice((-1, 1)) * variable for variable in draw.sample(range(1, 20_001), 3)] for _ in range(70_000)]
    cnf(folder / "random.cnf", 20_000, three)


def cnf(path, variables, clauses):
    lines = "".join(" ".join(map(str, clause)) + " 0\n" for clause in clauses)
    path.write_text(f"p cnf {variables} {len(clauses)}\n{lines}")


def make(folder, written):
    """Makes the folder, with the files that `written` has as they are."""
    folder.mkdir()
    with open(written, "rb") as file:
        for name, text in tomllib.load(file).items():
            (folder / name).write_text(text)
    draw = random.Random(SEED)
    for part in (texts, tables, pictures, genomes, sources, formulas):
        part(folder, draw)
