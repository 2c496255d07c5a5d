"""The pages that browsers show: source text in sections, with a script that scrolls, searches and edits."""

import html

LINES_PER_SECTION = 80
WORDS = ["import", "return", "self", "class", "raise", "error", "yield", "lambda", "while", "except", "global", "with"]

SCRIPT = """
const sections = [...document.querySelectorAll('section')];
function show(numbers) {
  const seen = numbers.map((n) => {
    const section = sections[n % sections.length];
    section.scrollIntoView();
    const box = section.getBoundingClientRect();
    return [section.id, Math.round(box.width), section.textContent.length];
  });
  return JSON.stringify(seen);
}
function find(words) {
  return JSON.stringify(words.map((w) => sections.filter((s) => s.textContent.includes(w)).length));
}
function edit(numbers, text) {
  for (const n of numbers) {
    const section = sections[n % sections.length];
    section.classList.toggle('folded');
    section.querySelector('input').value = text;
    const note = document.createElement('p');
    note.textContent = text;
    section.append(note);
  }
  return document.querySelectorAll('.folded').length;
}
"""

PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px sans-serif }} section {{ border: 1px solid #ccc; margin: 8px; padding: 8px }}
h2 {{ color: #246 }} .folded pre {{ display: none }} table td {{ border: 1px solid #ddd }}</style>
<body><h1>{title}</h1>{sections}<script>{script}</script>"""


def write_page(path, texts):
    """Writes one page and returns how many sections it has."""
    sections = []
    parts = []
    for name, text in texts:
        lines = text.splitlines()
        starts = range(0, len(lines), LINES_PER_SECTION)
        parts += [(f"{name}, line {start + 1}", lines[start : start + LINES_PER_SECTION]) for start in starts]
    for number, (name, lines) in enumerate(parts):
        rows = "".join(f"<tr><td>{i}</td><td>{html.escape(l[:60])}</td></tr>" for i, l in enumerate(lines[:20]))
        body = html.escape("\n".join(lines))
        sections.append(
            f'<section id="s{number}"><h2>{html.escape(name)}</h2><input><table>{rows}</table><pre>{body}</pre></section>'
        )
    path.write_text(PAGE.format(title=path.stem, sections="\n".join(sections), script=SCRIPT), encoding="utf-8")
    return len(sections)
