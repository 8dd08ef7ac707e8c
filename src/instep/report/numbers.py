"""Numbers as people read them at a glance: short, and of even width where they stand in columns."""


def number(value: float | None) -> str:
    """A loss or a metric, to 4 significant digits: 0.1234, 12.30, 1.234e-05."""
    return "-" if value is None else f"{value:#.4g}".removesuffix(".")


def rate(value: float) -> str:
    """A learning rate, to 3 significant digits: 0.003, 1.2e-05."""
    return f"{value:.3g}"


def many(count: float) -> str:
    """How many, to 3 significant digits: 532, 12.3k, 4.56M."""
    for unit in ("", "k", "M", "G"):
        if count < 999.5 or unit == "G":
            break
        count /= 1000
    digits = 0 if count >= 99.95 or (unit == "" and count == round(count)) else 1 if count >= 9.995 else 2
    return f"{count:.{digits}f}{unit}"


def duration(seconds: float) -> str:
    """How long: 0:07, 1:23, 1:02:03, 2d 3h."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def age(seconds: float) -> str:
    """How long ago, in one unit: 5 s, 12 min, 3 h, 4 days."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (unit != "days" and seconds >= length):
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def size(length_bytes: float) -> str:
    """How large: 532 B, 12.3 kB, 4.56 MB."""
    short = many(length_bytes)
    return f"{short} B" if short[-1].isdigit() else f"{short[:-1]} {short[-1]}B"
