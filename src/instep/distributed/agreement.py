"""Agreement: what has to be the same on every process, compared before the first update.

A digest of 8 bytes travels; only where one is another are the descriptions themselves looked at, to name what differs.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from instep.distributed.world import World
from instep.errors import PeerError
from instep.records import Change, differences
from instep.text import cut


def require_same(world: World, description: Mapping[str, Any]) -> None:
    """Raises on all processes where some has another description, naming what differs and where."""
    text = json.dumps(description, sort_keys=True, default=str)
    digests = world.gather_objects(hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
    if len(set(digests)) == 1:
        return
    first = json.loads(world.broadcast_object(text))
    found = [] if digests[world.rank] == digests[0] else [_text(change) for change in differences(first, json.loads(text))]
    by_rank = world.gather_objects(found[:8])
    rows = [f"  rank {rank}: {line}" for rank, lines in enumerate(by_rank) for line in lines]
    raise PeerError(
        "the processes do not train the same thing; against rank 0 there differ:\n"
        + "\n".join(rows[:20])
        + "\nEvery process runs the same script and gets all of the data; seed what is drawn at random (torch.manual_seed), and "
        "choose nothing by rank."
    )


def _text(change: Change) -> str:
    now, first = ("missing" if value is None else value for value in (change.now, change.before))
    return f"{change.where} is {cut(now)}, not {cut(first)}"
