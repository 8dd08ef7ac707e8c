"""docs/reference/format.md is enough to read a run: examples/read_run.py goes by it, and knows neither Instep nor torch."""

import ast
import importlib.util
import json
import math
import re
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from instep import Trainer
from instep.checkpoint import Checkpoint, read, write
from instep.checkpoint.tagged import _DECODERS
from instep.records import GeneratorState

ROOT = Path(__file__).parent.parent.parent
EXAMPLE, PAGE = ROOT / "examples" / "read_run.py", ROOT / "docs" / "reference" / "format.md"


def load_reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("read_run", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


READER = load_reader()


class Tied(nn.Module):
    """A decoder that is the transposed encoder, a twin, a buffer of complex numbers, half precision, and a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Linear(4, 6)
        self.decode.weight = nn.Parameter(self.encode.weight.detach().T)
        self.twin = self.encode
        self.register_buffer("waves", torch.tensor([1 + 2j, -3j]))
        self.register_buffer("halves", torch.tensor([0.5, -1.25, 3e38]).bfloat16())
        self.seen: Counter[int] = Counter()
        self.last: tuple[float, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        self.seen[len(x)] += 1
        self.last = (float("inf"), float(len(x)))
        decoded: Tensor = self.decode(self.encode(x))
        return decoded


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trainer]:
    torch.manual_seed(0)
    folder, model, x = tmp_path_factory.mktemp("format") / "run", Tied(), torch.randn(40, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trainer = Trainer(
        model,
        loss=mse_loss,
        optimizer=optimizer,
        train=(x, x),
        valid=0.2,
        epochs=2,
        batch_size=8,
        log_every=2,
        ema=0.9,
        folder=folder,
        progress=False,
    )
    for update in trainer.updates():
        if update.step == 3:
            trainer.log(odd=math.nan)
    return folder, trainer


def plain(value: Any) -> Any:
    """What Instep reads, in the words of a program that has no torch."""
    if isinstance(value, Tensor):
        return value.float().numpy() if value.dtype is torch.bfloat16 else value.numpy()
    if isinstance(value, GeneratorState | torch.Size):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if isinstance(value, torch.dtype | torch.device):
        return str(value).removeprefix("torch.")
    return list(value) if isinstance(value, deque) else value


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    assert type(found) is type(expected), where
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
        assert np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"), where
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}/{number}")
    else:
        assert found == expected or (found != found and expected != expected), where


def test_the_reader_knows_neither_instep_nor_torch() -> None:
    nodes = list(ast.walk(ast.parse(EXAMPLE.read_text(encoding="utf-8"))))
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) == {"numpy"}


def test_a_checkpoint_is_read_whole(run: tuple[Path, Trainer]) -> None:
    folder, trainer = run
    path = READER.newest(folder)
    found, expected = READER.read_checkpoint(path), read(path)
    assert (found["step"], found["best"]) == (expected.step, expected.best) == (8, expected.best)
    assert_same(found["parts"], plain(dict(expected.parts)))
    assert_same(found["state"], plain(dict(expected.state)))
    assert "attributes" in found["parts"]
    weights = found["parts"]["model"]
    for name, value in trainer.model.state_dict().items():
        assert_same(weights[name], plain(value), name)


def test_tied_weights_are_one_memory(run: tuple[Path, Trainer]) -> None:
    weights = READER.read_checkpoint(READER.newest(run[0]))["parts"]["model"]
    weights["encode.weight"][1, 2] = 77.0
    assert weights["decode.weight"][2, 1] == weights["twin.weight"][1, 2] == 77.0


def test_the_history_is_read(run: tuple[Path, Trainer]) -> None:
    folder, trainer = run
    rows = READER.read_history(folder / "history.jsonl")
    for row in rows:
        assert re.fullmatch("[0-9a-f]{8}", row["clock"].pop("crc"))
    assert_same(rows, trainer.history.to_dicts())
    assert [row for row in rows if math.isnan(row.get("odd", 0.0))]


def test_a_torn_and_a_damaged_line_end_the_history(run: tuple[Path, Trainer], tmp_path: Path) -> None:
    content = (run[0] / "history.jsonl").read_bytes()
    count = content.count(b"\n")
    (tmp_path / "torn").write_bytes(content[:-5])
    assert len(READER.read_history(tmp_path / "torn")) == count - 1
    (tmp_path / "damaged").write_bytes(content.replace(b'"step": 4', b'"step": 5', 1))
    assert len(READER.read_history(tmp_path / "damaged")) < count - 1


@pytest.mark.parametrize("name", ["MANIFEST.json", "model.safetensors", "state.json"])
def test_damage_is_found(run: tuple[Path, Trainer], tmp_path: Path, name: str) -> None:
    path = write(tmp_path, read(READER.newest(run[0])))
    content = bytearray((path / name).read_bytes())
    content[-30] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises((ValueError, KeyError), match=f"{name} is damaged|another format|step|best|files"):
        READER.read_checkpoint(path)


VALUES: dict[str, Any] = {
    "$tuple": (1, (2.5, None)),
    "$size": torch.Size([2, 3]),
    "$set": {3, 1, 2},
    "$frozenset": frozenset({"a"}),
    "$deque": deque([1, 2], maxlen=3),
    "$dict": {3: "three", "$x": 1},
    "$ordered": OrderedDict(a=1),
    "$counter": Counter({7: 2}),
    "$defaultdict": defaultdict(list, {"a": [1]}),
    "$state_dict": nn.Linear(2, 1).state_dict(),
    "$float": [math.inf, -math.inf, math.nan],
    "$int": 3**2000,
    "$complex": complex(1, -2),
    "$bytes": b"\x00\xff",
    "$numpy": np.float32(0.1),
    "$generator": GeneratorState("torch", torch.Generator().get_state()),
    "$dtype": torch.bfloat16,
    "$device": torch.device("cpu"),
    "$tensor": torch.arange(6).reshape(2, 3).T,
    "$array": np.arange(4, dtype=np.int16),
}


def test_every_tag_is_read_and_on_the_page(tmp_path: Path) -> None:
    assert set(VALUES) == set(_DECODERS)
    page = PAGE.read_text(encoding="utf-8")
    assert [tag for tag in VALUES if f"`{tag}`" not in page] == []
    path = write(tmp_path, Checkpoint(0, {"part": VALUES["$state_dict"]}, {tag[1:]: value for tag, value in VALUES.items()}))
    assert set(re.findall(r'"(\$\w+)":', (path / "state.json").read_text(encoding="utf-8"))) == set(VALUES)
    found = READER.read_checkpoint(path)["state"]
    for tag, value in VALUES.items():
        expected = plain(value)
        assert_same(dict(found[tag[1:]]) if isinstance(expected, dict) else found[tag[1:]], expected, tag)


def test_the_page_names_what_run_json_has(run: tuple[Path, Trainer]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    description = json.loads((run[0] / "run.json").read_text(encoding="utf-8"))
    assert [key for key in description if f"`{key}`" not in page] == []
    assert description["format"] == 1
    parts = read(READER.newest(run[0])).parts
    assert [part for part in parts if f"`{part}`" not in page] == []


def test_the_example_prints_the_weights(run: tuple[Path, Trainer]) -> None:
    done = subprocess.run([sys.executable, "-W", "error", str(EXAMPLE), str(run[0])], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Tied, finished at step 8, {len(run[1].history)} rows\n")
    assert re.search(r"decode\.weight +float32 +6×4 +norm \d\.\d+", done.stdout)
