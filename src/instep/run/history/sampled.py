"""Some lines of a long history, for who shows it and cannot wait until all are parsed: of each stretch those that matter most."""

import math
import re
from collections.abc import Sequence

_UPDATE = re.compile(rb'\{"kind": "update".*?"loss": ([-+.0-9eE]*)')  # nothing of a loss that is not finite, or null


def some_lines(lines: Sequence[bytes], most: int) -> list[bytes]:
    """About `most` lines in their order: of each stretch of updates those with the lowest and the highest loss, and the first
    without one; other lines evenly. The first line and the last of each kind are among them.
    """
    found = [_UPDATE.match(line) for line in lines]
    updates = [(place, update[1]) for place, update in enumerate(found) if update]
    others = [place for place, update in enumerate(found) if not update]
    chosen = {0, len(lines) - 1, *others[:: max(1, math.ceil(4 * len(others) / most))], *others[-1:]}
    chosen.update(place for place, _ in updates[-1:])
    stretches = max(1, most // 3)
    for number in range(stretches):
        stretch = updates[len(updates) * number // stretches : len(updates) * (number + 1) // stretches]
        rated = [(float(loss), place) for place, loss in stretch if loss]
        if rated:
            chosen |= {min(rated)[1], max(rated)[1]}
        chosen.update(next(([place] for place, loss in stretch if not loss), []))
    return [lines[place] for place in sorted(chosen)]
