"""A range test, and the pace of batch sizes, as charts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from instep.drawing import figure, svg
from instep.drawing.chart import Chart, Line, Mark
from instep.errors import DescriptionError
from instep.text import rate
from instep.tuning.curve import Curve
from instep.tuning.pace import Paced
from instep.tuning.recommendation import Recommendation
from instep.tuning.scale import shown_range
from instep.tuning.textplot import as_sentence

AIR = 0.05  # of what is shown


def range_chart(curve: Curve, sweeps: Sequence[Curve], rules: Mapping[str, float | None], choice: Recommendation) -> Chart:
    """The sweeps thin, their smoothed mean bold, a line for each rule, and the suggestion with its reason."""
    low, high = shown_range(curve)
    lines = [Line("" if place else "each sweep", sweep.lrs, sweep.capped, is_thin=True) for place, sweep in enumerate(sweeps)]
    lines.append(Line("smoothed mean", curve.lrs, curve.smoothed))
    marks = [_mark(place, name, lr, choice) for place, (name, lr) in enumerate(rules.items(), start=1)]
    shown = low - AIR * (high - low), high
    return Chart("Loss", "learning rate", tuple(lines), tuple(marks), log_x=True, shown=shown, caption=as_sentence(choice))


def pace_chart(paces: Sequence[Paced], knee: int | None, caption: str) -> Chart:
    """Samples a second over the size of a micro-batch, with the smallest that is nearly as fast as any."""
    sizes, speeds = [float(paced.samples) for paced in paces], [paced.samples_per_s for paced in paces]
    marks = () if knee is None else (Mark(f"knee: {knee:,}", float(knee), colour=1),)
    return Chart(
        "Samples per second",
        "samples in a micro-batch",
        (Line("samples per second", sizes, speeds, has_dots=True),),
        marks,
        log_x=True,
        shown=(0.0, 1.05 * max(speeds, default=1.0)),
        caption=caption,
    )


def save(path: Path, chart: Chart, text: Callable[[], str]) -> Path:
    """Writes the picture, or the numbers, in the format that the name ends in; only what is needed is made."""
    ending = path.suffix.lower()
    if ending == ".svg":
        path.write_text(svg.draw(chart, background="white"), encoding="utf-8")
    elif ending == ".json":
        path.write_text(text() + "\n", encoding="utf-8")
    elif ending in (".png", ".pdf"):
        figure.save([chart], path, str(path))
    else:
        raise DescriptionError(f"{path} ends in {ending or 'nothing'}; use .svg, .png, .pdf or .json.")
    return path


def _mark(place: int, name: str, lr: float | None, choice: Recommendation) -> Mark:
    chosen = name == choice.rule
    label = f"{name}: {'does not apply' if lr is None else rate(lr)}{' (suggested)' if chosen else ''}"
    return Mark(label, lr, colour=place, is_bold=chosen)
