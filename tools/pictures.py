"""The pictures of the README, made from real runs: `make pictures`. Needs Chromium for the page, and nothing else.

The built-in example and a script with a mistake run on pseudo terminals; what a person would see there is drawn by rich as SVG,
the report in a browser as PNG. They run in a folder that is thrown away, so no path of this machine is in a picture.
"""

import io
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # its terminal and its browser are those of the tests

from rich.console import Console  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402

from browser import Browser, find_chromium  # noqa: E402
from screen import show  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 80
WIDTH, SCALE = 1000, 1.5  # of the page, and pixels to each of its own
# What the clock says of the machine that made the picture is nobody's business; the height is up to the end of the first chart.
PREPARE = """
    document.querySelectorAll("header p").forEach((one) => { one.textContent = one.textContent.replace(/ · begun .*/, "") });
    document.querySelector(".panel").getBoundingClientRect().bottom + scrollY + 12
"""
MISTAKE = """\
import torch
from torch import nn

x = torch.randn(512, 20)
y = (x[:, 0] > 0).long()
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(0)

for epoch in range(3):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
HUES = [(240, 113, 120), (126, 200, 120), (230, 190, 100), (110, 160, 240), (200, 140, 230), (90, 200, 210)]
THEME = TerminalTheme(
    (24, 26, 31), (216, 220, 226),
    [(24, 26, 31), *HUES, (216, 220, 226)],
    [(128, 134, 145), *HUES, (255, 255, 255)],
)  # fmt: skip
# rich's own frame asks for a font from the network; this one takes the reader's.
FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 17px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(MISTAKE)
        draw("train", without(terminal(["train", "--epochs", "10"], folder), "  module"))
        draw("doctor", terminal(["doctor", "train.py"], folder))
        assert terminal(["report", "runs/digits"], folder)
        photograph(folder / "runs" / "digits" / "report.html")
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def terminal(command: list[str], folder: Path) -> list[Text]:
    """What stands on a terminal after a command, with the command above it."""
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))}
    shown = show([sys.executable, "-m", "instep", *command], columns=COLUMNS, folder=folder, environment=environment)
    assert shown.code == 0, shown.text
    assert shown.screen.wraps == 0, shown.text
    return [Text(f"$ instep {' '.join(command)}", style="bold"), *shown.screen.styled()]


def without(lines: list[Text], start: str) -> list[Text]:
    """The lines with a … for the paragraph that begins so: the picture shall not be longer than a screen."""
    first = next(place for place, line in enumerate(lines) if line.plain.startswith(start))
    last = next(place for place in range(first, len(lines)) if not lines[place].plain.strip())
    return [*lines[:first], Text("  …", style="dim"), *lines[last:]]


def draw(name: str, lines: list[Text]) -> None:
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    svg = console.export_svg(title=f"instep {name}", theme=THEME, code_format=FRAME, unique_id=f"instep-{name}")
    (PICTURES / f"{name}.svg").write_text(re.sub(r"[ \t]+\n", "\n", svg), encoding="utf-8")


def photograph(page: Path) -> None:
    """The report in light and in dark."""
    program = find_chromium()
    assert program, "chromium is not installed (Debian: apt-get install chromium)"
    browser = Browser(program)
    try:
        for name, dark in (("report", False), ("report-dark", True)):
            opened = browser.open(page.as_uri(), width=WIDTH, height=900, dark=dark)
            height = round(opened.run(PREPARE))
            size = {"width": WIDTH, "height": height, "deviceScaleFactor": SCALE, "mobile": False}
            opened.call("Emulation.setDeviceMetricsOverride", **size)
            opened.screenshot(PICTURES / f"{name}.png", whole=False)
            opened.close()
    finally:
        browser.close()


if __name__ == "__main__":
    main()
