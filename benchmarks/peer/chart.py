"""The chart: how fast each contestant is beside the plain loop, one panel a work. An SVG that follows light and dark pages."""

from html import escape

from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.peer.results import Results
from benchmarks.peer.work import WORKS

PANELS = (("mlp-64", 1), ("mlp-512", 1), ("cnn", 1), ("transformer", 1), ("workers", 1), ("processes", 1))
COLUMNS, LABEL, WIDTH, LINE, HEAD, GAP = 2, 150, 410, 19, 34, 26
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .empty { fill: #6e7781 } .one { stroke: #6e7781; stroke-dasharray: 3 3 }
.page { fill: #ffffff } .bar { fill: #a9b4c0 } .instep { fill: #1f7a5c } .loop { fill: #7b8794 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .empty { fill: #8b949e } .one { stroke: #8b949e }
  .page { fill: #0d1117 } .bar { fill: #58626e } .instep { fill: #3fb68b } .loop { fill: #8793a0 }
}
"""


def draw(results: Results) -> str:
    panels = [(work, threads) for work, threads in PANELS if results.entries.get(work, {}).get(str(threads))]
    height = HEAD + LINE * len(CONTESTANTS) + GAP
    parts = []
    for place, (work, threads) in enumerate(panels):
        x, y = GAP // 2 + place % COLUMNS * (WIDTH + GAP), GAP // 2 + place // COLUMNS * height
        parts.append(f'<g transform="translate({x} {y})">{"".join(panel(results, work, threads))}</g>')
    wide, high = COLUMNS * (WIDTH + GAP), -(-len(panels) // COLUMNS) * height
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    body = "\n".join([f"<style>{STYLE}</style>", '<rect class="page" width="100%" height="100%"/>', *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n{body}\n</svg>\n'


def panel(results: Results, work: str, threads: int) -> list[str]:
    speeds = {name: results.speed(work, threads, name, "plain") for name in CONTESTANTS}
    longest = max([speed for speed in speeds.values() if speed] + [1.0])
    scale = (WIDTH - LABEL - 40) / longest
    one = LABEL + scale
    title = f"{WORKS[work].title}; × the plain loop"
    parts = [f'<text class="title" x="0" y="16">{escape(title)}</text>']
    for place, (name, who) in enumerate(CONTESTANTS.items()):
        y = HEAD + place * LINE
        label = escape(who.label.replace("*", ""))
        parts.append(f'<text x="{LABEL - 8}" y="{y + 11}" text-anchor="end">{label}</text>')
        speed = speeds[name]
        if speed is None:
            parts.append(f'<text class="empty" x="{LABEL + 4}" y="{y + 11}">–</text>')
            continue
        kind = "instep" if who.package == "instep" else "bar" if who.library else "loop"
        length = speed * scale
        parts.append(f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{length:.1f}" height="{LINE - 5}" rx="2"/>')
        parts.append(f'<text x="{WIDTH}" y="{y + 11}" text-anchor="end">{speed:.2f}</text>')
    bottom = HEAD + LINE * len(CONTESTANTS) - 4
    parts.append(f'<line class="one" x1="{one:.1f}" y1="{HEAD - 5}" x2="{one:.1f}" y2="{bottom}"/>')
    return parts
