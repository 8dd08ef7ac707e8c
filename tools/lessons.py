"""The pages of "How training works": runs the code of each, writes what it prints under it, and draws its figure.

    python tools/lessons.py [PAGE …]        # the names of pages, like gradients; all of them without

The figure of a page shows what the code of that page has computed: `CHARTS` makes it from the names that the code defines.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import torch  # noqa: E402

from blocks import BLOCK, blocks  # noqa: E402
from instep.drawing.chart import Chart, Line, Mark  # noqa: E402
from instep.drawing.svg import draw  # noqa: E402

LESSONS = ROOT / "docs" / "learn"
FIGURES = LESSONS / "figures"
# A figure stands on a ground of its own, so it can be read on any page.
LOOK = (
    ":root{color:#24292f;--ground:#fff;background:var(--ground)}"
    "@media(prefers-color-scheme:dark){:root{color:#d8dce2;--ground:#181a1f}}"
)
Names = dict[str, Any]


def main(wanted: Sequence[str]) -> None:
    FIGURES.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for page in lessons():
        if not wanted or page.stem in wanted:
            (code,) = blocks(page)
            names, said = code.run()
            page.write_text(with_outputs(page.read_text(encoding="utf-8"), said), encoding="utf-8")
            (FIGURES / f"{page.stem}.svg").write_text(figure(page.stem, names), encoding="utf-8")
            print(f"{page.stem}: {'; '.join(' | '.join(one.splitlines()) for one in said)}")


def lessons() -> list[Path]:
    return sorted(page for page in LESSONS.glob("*.md") if page.stem != "index")


def with_outputs(text: str, said: list[str]) -> str:
    """The text of a page with what each block printed under it."""
    parts, end = [], 0
    for block, output in zip(BLOCK.finditer(text), said, strict=True):
        if block[3] is not None:
            lines = "\n".join(line.rstrip() for line in output.rstrip().splitlines())
            parts += [text[end : block.start(3)], f"{lines}\n"]
            end = block.end(3)
    return "".join([*parts, text[end:]])


def figure(lesson: str, names: Names) -> str:
    """The figure of a page as SVG, from the names that its code defines."""
    is_graph = lesson == "autograd-graph"
    picture = names["graph"].svg() if is_graph else draw(CHARTS[lesson](names), background="var(--ground)")
    opening, _, rest = picture.partition(">")
    return f"{opening}><style>{LOOK}</style>{rest}\n"


def over_steps(title: str, curves: dict[str, Sequence[float]], x: str = "update", *, first: int = 0, **options: Any) -> Chart:
    """A line for each curve, in the order of the colours."""
    lines = [
        Line(name, list(range(first, first + len(ys))), [float(y) for y in ys], colour)
        for colour, (name, ys) in enumerate(curves.items())
    ]
    return Chart(title, x, tuple(lines), **options)


def gradients(names: Names) -> Chart:
    return over_steps("w, best at 3", {"with zero_grad": names["cleared"], "without": names["kept"]}, "step")


def update_order(names: Names) -> Chart:
    return over_steps("Loss", names["curves"], shown=(0.0, 1.1 * max(names["curves"]["right"])))


def modes(names: Names) -> Chart:
    curves = {"train mode": names["in_train"], "eval mode": names["in_eval"]}
    return over_steps("Output for one sample", curves, "call", first=1)


def no_grad(names: Names) -> Chart:
    memory = {name: curve for name, curve in names["memory"].items() if name != "inference_mode"}
    return over_steps("Memory kept for the backward, kB", memory, "layer", first=1)


def accumulation(names: Names) -> Chart:
    errors = {"naive": names["errors"]["naive"], "UpdateCycle": names["errors"]["exact"]}
    return over_steps("Distance from whole-batch training", errors, "epoch", first=1)


def one_cycle(names: Names) -> Chart:
    test = names["test"]
    lines = (
        Line("loss", test.lrs, test.losses, 0, is_thin=True),
        Line("smoothed", test.lrs, test.smoothed, 0),
    )
    top = 1.3 * test.smoothed[0]
    return Chart("Loss", "learning rate", lines, (Mark("suggestion", test.suggestion, colour=1),), log_x=True, shown=(0.0, top))


def cycles(names: Names) -> Chart:
    rows = names["trainer"].history.updates
    return Chart("Learning rate", "update", (Line("learning rate", [row["step"] for row in rows], [row["lr"] for row in rows]),))


def largest_batch(names: Names) -> Chart:
    line = Line("error of the gradient", names["sizes"], names["errors"], has_dots=True)
    return Chart("Error of the gradient", "batch size", (line,), log_x=True, log_y=True)


def parameter_groups(names: Names) -> Chart:
    curves = {
        f"{optimizer}, {gradients} gradients": [pair[place] for pair in path]
        for optimizer, path in names["paths"].items()
        for place, gradients in enumerate(("large", "small"))
    }
    return over_steps("Weight", curves, "step")


def clipping(names: Names) -> Chart:
    curves = {"without clipping": names["free"], "clip_norm 5": names["clipped"]}
    return over_steps("Loss", curves, log_y=True)


def data_and_randomness(names: Names) -> Chart:
    curves = {
        f"{workers} workers": [value - place for place, value in enumerate(values)] for workers, values in names["loaded"].items()
    }
    return over_steps("Noise of a sample, same seed", curves, "sample")


def shapes(names: Names) -> Chart:
    curves = {name: names["rows"][name].tolist() for name in ("permute", "reshape")}
    return over_steps("Brightness of row 3, red channel", curves, "column")


def checkpoints(names: Names) -> Chart:
    return over_steps("Distance from the run that never stopped", names["off"], first=30)


def processes(names: Names) -> Chart:
    lines = (
        Line("averaged over processes", names["counts"], names["averaged"], 0, has_dots=True),
        Line("counted", names["counts"], names["counted"], 1, has_dots=True),
    )
    return Chart("Error of the gradient", "processes", lines)


CHARTS: dict[str, Callable[[Names], Chart]] = {
    "gradients": gradients,
    "update-order": update_order,
    "modes": modes,
    "no-grad": no_grad,
    "accumulation": accumulation,
    "one-cycle": one_cycle,
    "cycles": cycles,
    "largest-batch": largest_batch,
    "parameter-groups": parameter_groups,
    "clipping": clipping,
    "data-and-randomness": data_and_randomness,
    "shapes": shapes,
    "checkpoints": checkpoints,
    "processes": processes,
}


if __name__ == "__main__":
    main(sys.argv[1:])
