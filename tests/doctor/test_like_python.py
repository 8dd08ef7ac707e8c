"""Scripts that put their own things in the places of Python's and torch's: they print, write and end as without the doctor."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import instep
from complaints import complaints
from instep.doctor.hub import Hub
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace
from programs import Programs

TRAIN = """
    import logging, os, pickle, signal, sys, tempfile, io
    import torch
    from torch import nn
    from torch.nn import functional as F

    def train(model, steps=12, shape=lambda x: x):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(steps):
            x = torch.randn(32, 8)
            optimizer.zero_grad()
            F.cross_entropy(model(shape(x)), x[:, :3].argmax(1)).backward()
            optimizer.step()
        return sum(p.double().sum().item() for p in model.parameters())

    torch.manual_seed(0)
"""
SCRIPTS: dict[str, str | bytes] = {
    "stderr without isatty": """
        import sys
        class Both:
            def __init__(self, *files): self.files = files
            def write(self, text): [file.write(text) for file in self.files]
            def flush(self): [file.flush() for file in self.files]
        sys.stderr = Both(sys.stderr, open("train.log", "w"))
        print("told", file=sys.stderr)
    """,
    "stderr is stdout": "import sys\nsys.stderr = sys.stdout\nprint('done')",
    "print replaced": """
        import builtins
        old = builtins.print
        builtins.print = lambda *args, **other: old("[rank 0]", *args)
        print("done")
    """,
    "stdout closed": "import sys\nprint('done')\nsys.stdout.close()",
    "stderr closed": "import sys\nprint('done')\nsys.stderr.close()",
    "stdout gone": "import sys\nprint('done', flush=True)\nsys.stdout = None",
    "a folder for temporary files": """
        import os, tempfile
        os.makedirs("scratch")
        os.environ["TMPDIR"] = os.path.abspath("scratch")
        print(os.path.relpath(tempfile.mkdtemp(suffix="x"))[:8])
    """,
    "names of __main__": """
        import atexit, sys
        print(type(__loader__).__name__, "__annotations__" in globals(), type(__builtins__).__name__)
        atexit.register(lambda: print(repr(sys.last_value)))
        raise ValueError("at its end")
    """,
    "a syntax error": "print('before')\nimport a b",
    "a file that is no text": b"x = '\xff\xfe'\n",
    "a working folder that is gone": TRAIN
    + """
    print(train(nn.Linear(8, 3)))
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)
    print(train(nn.Linear(8, 3)))
    """,
    "functions that a model keeps": TRAIN
    + """
    class Net(nn.Module):
        pool = torch.max
        def __init__(self):
            super().__init__()
            self.layer, self.act, self.loss = nn.Linear(8, 3), torch.sigmoid, F.cross_entropy
        def forward(self, x):
            return self.act(self.layer(x))
    net = Net()
    kept = {torch.sigmoid: "sigmoid", F.cross_entropy: "cross_entropy"}
    print(train(net, 230), net.pool(torch.arange(3.0)))
    print(kept.get(net.act), kept.get(net.loss), net.act == torch.sigmoid, net.loss is F.cross_entropy)
    file = io.BytesIO()
    torch.save(net, file)
    again = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    print(again.act is torch.sigmoid, again.loss is F.cross_entropy)
    """,
    "a table of functions for a class of one's own": TRAIN
    + """
    class Scalar:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return TABLE[func] if func in TABLE else NotImplemented
    TABLE = {torch.max: "largest", torch.softmax: "shares"}
    print(torch.max(Scalar()), torch.softmax(Scalar(), 0))
    """,
    "TorchScript": TRAIN
    + """
    from torch.nn.functional import softmax
    @torch.jit.script
    def shares(x: torch.Tensor):
        return softmax(x, -1)
    class Cell(torch.jit.ScriptModule):
        @torch.jit.script_method
        def forward(self, x):
            return torch.sigmoid(x)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.sigmoid
        def forward(self, x):
            return self.act(x)
    print(shares(torch.zeros(2, 2)), Cell()(torch.zeros(2)), torch.jit.script(Net())(torch.zeros(2)))
    """,
    "a tensor class that draws": TRAIN
    + """
    class Noisy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
                is_number = isinstance(result, torch.Tensor) and result.is_floating_point()
                return result + 1e-3 * torch.randn_like(result) if is_number else result
    print(train(nn.Linear(8, 3), shape=lambda x: x.as_subclass(Noisy)))
    """,
    "a model that logs to a file": TRAIN
    + """
    logging.basicConfig(filename="train.log", level=logging.INFO, format="%(message)s")
    class Net(nn.Linear):
        def forward(self, x):
            logging.info("forward of %d", len(x))
            return super().forward(x)
    print(train(nn.Sequential(Net(8, 8), nn.Tanh(), Net(8, 3)), 30))
    """,
}


def test_scripts_do_the_same(programs: Programs, tmp_path: Path) -> None:
    cases = [(name, (name, text)) for name, text in SCRIPTS.items()]
    assert not complaints(lambda case: assert_same(programs, tmp_path, *case), cases)


def assert_same(programs: Programs, folder: Path, name: str, text: str | bytes) -> None:
    plain, watched = (run(programs, folder / name.replace(" ", "_") / how, text, how) for how in ("plain", "watched"))
    assert watched == plain


def run(programs: Programs, folder: Path, text: str | bytes, how: str) -> tuple[int, str, dict[str, bytes]]:
    """Exit code, stdout, and the files that were written."""
    folder.mkdir(parents=True)
    (folder / "t.py").write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    command = [*(["-m", "instep", "doctor"] if how == "watched" else []), "t.py"]
    if b"import torch" in (folder / "t.py").read_bytes():
        ran: subprocess.CompletedProcess[str] = programs.run(command, cwd=folder)
    else:
        environment = {**os.environ, "PYTHONPATH": str(Path(instep.__file__).parent.parent)}
        ran = subprocess.run(
            [sys.executable, *command], cwd=folder, env=environment, check=False, capture_output=True, text=True, encoding="utf-8"
        )
    assert how == "plain" or "instep/doctor" not in ran.stderr, ran.stderr
    assert how == "plain" or "instep doctor: " in ran.stderr, ran.stderr
    return ran.returncode, ran.stdout, {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}


class Late(Exception):
    """A time limit of the script's."""


def fail() -> None:
    raise ValueError("of the doctor's own")


def test_what_a_signal_handler_raises_is_the_scripts() -> None:
    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGUSR1, late)
    try:
        hub = Hub(Trace(), Locator(()))
        hub.open()
        with pytest.raises(Late):
            hub.tell([lambda: signal.raise_signal(signal.SIGUSR1)])
        assert not hub.busy
        hub.tell([fail])
        assert hub.failed == 1
    finally:
        signal.signal(signal.SIGUSR1, before)
