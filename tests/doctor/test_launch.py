"""Scripts under `instep doctor` run as under `python`, their children are watched too, and findings outlive a killed process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import instep
from programs import Programs

LOOP = """
    import os, pickle, signal, sys, warnings
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Config:
        lr = 0.1

    def work(rank=0, workers=0):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        samples = TensorDataset(torch.randn(40, 4), torch.randint(3, (40,)))
        data = DataLoader(samples, batch_size=8, num_workers=workers, shuffle=True)
        for x, y in data:
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()  # no zero_grad
        return model
"""


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(dedent(LOOP) + dedent(body))
    return path


def ran(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Python with those arguments; `path` comes first on its PYTHONPATH."""
    source = str(Path(instep.__file__).parent.parent)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, (path, source)))}
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=environment)


def doctor(folder: Path, *arguments: str, path: str = "", programs: Programs | None = None) -> subprocess.CompletedProcess[str]:
    """The command; with `programs`, forked where torch is imported already."""
    command = ("-c", "import sys; from instep.cli import main; sys.exit(main())", "doctor", *arguments)
    return ran(folder, *command, path=path) if programs is None else programs.run(command, cwd=folder)


def found(path: Path) -> dict[str, dict[str, object]]:
    return {finding["id"]: finding for finding in json.loads(path.read_text())["findings"]}


def test_a_script_runs_as_under_python(tmp_path: Path) -> None:
    body = """
        if __name__ == "__main__":
            print(sys.argv, os.path.basename(sys.path[0]), __file__)
            print(type(pickle.loads(pickle.dumps(Config()))), sys.modules["__main__"].Config is Config)
            print(work().weight.sum().item())
            warnings.warn("look out")
            nn.functional.mse_loss(torch.zeros(2), torch.zeros(2, 3), reduction="nonsense")
    """
    path = script(tmp_path, "plain.py", body)
    plain, watched = (
        ran(tmp_path, path.name, "--epochs", "3"),
        doctor(tmp_path, "--json", "found.json", path.name, "--epochs", "3"),
    )
    assert plain.returncode == watched.returncode == 1
    assert plain.stdout == watched.stdout
    assert plain.stdout.startswith("['plain.py', '--epochs', '3']")
    said = [line for line in watched.stderr.splitlines() if not line.startswith("instep doctor: error missing-zero-grad: ")]
    assert said[: said.index("instep doctor: 1 error in 5 steps")] == plain.stderr.splitlines()
    finding = found(tmp_path / "found.json")["missing-zero-grad"]
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "no zero_grad" in text)
    assert finding["where"] == f"plain.py:{line}"
    assert finding["process"] == ""


@pytest.mark.slow
def test_children_are_watched_too(tmp_path: Path) -> None:
    """Spawned, forked and started by hand; the workers of a loader stay silent."""
    body = """
        if __name__ == "__main__":
            if sys.argv[1:]:
                work(workers=1)
                sys.exit(7)
            import subprocess, torch.multiprocessing as mp
            mp.spawn(work, nprocs=1)
            mp.start_processes(work, nprocs=1, start_method="fork")
            print("child", subprocess.run([sys.executable, __file__, "again"]).returncode)
    """
    path = script(tmp_path, "family.py", body)
    watched = doctor(tmp_path, "--json", "found.json", "--fail-on", "error", path.name)
    assert watched.returncode == 3, watched.stderr
    assert watched.stdout.splitlines()[-1] == "child 7"
    finding = found(tmp_path / "found.json")["missing-zero-grad"]
    assert str(finding["process"]).count("process ") == 3
    assert "instep doctor: 1 error in 15 steps" in watched.stderr


def test_workers_of_a_loader_do_not_count_the_steps_of_their_parent(tmp_path: Path, programs: Programs) -> None:
    body = """
        if __name__ == "__main__":
            work()
            work(workers=2)
    """
    watched = doctor(tmp_path, "--json", "found.json", script(tmp_path, "workers.py", body).name, programs=programs)
    assert "instep doctor: 1 error in 10 steps" in watched.stderr
    assert found(tmp_path / "found.json")["missing-zero-grad"]["process"] == ""


def test_the_sitecustomize_that_ours_hides_is_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hidden', flush=True)\n")
    (tmp_path / "start.py").write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(2)'], check=True)\n")
    assert doctor(tmp_path, "start.py", path=str(tmp_path)).stdout.splitlines() == ["hidden", "hidden", "2"]


def test_a_killed_script_leaves_its_findings(tmp_path: Path, programs: Programs) -> None:
    path = script(tmp_path, "killed.py", "work()\nos.kill(os.getpid(), signal.SIGKILL)\n")
    done = doctor(tmp_path, "--json", "found.json", "--sarif", "found.sarif", path.name, programs=programs)
    assert done.returncode == -9
    assert list(found(tmp_path / "found.json")) == ["missing-zero-grad"]
    assert not json.loads((tmp_path / "found.json").read_text())["complete"]
    result = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"][0]
    assert result["ruleId"] == "missing-zero-grad"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "killed.py"


@pytest.mark.slow
def test_a_module_under_torchrun(tmp_path: Path) -> None:
    path = script(tmp_path, "ranks.py", "work()\nprint('rank', os.environ['RANK'])\n")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    watched = doctor(tmp_path, "--json", "found.json", *launcher, path.name)
    assert watched.returncode == 0, watched.stderr
    assert found(tmp_path / "found.json")["missing-zero-grad"]["process"] == "rank 0, rank 1"
    assert watched.stderr.count("instep doctor: error missing-zero-grad") == 1


HOOK = """
    import importlib.abc, importlib.machinery, importlib.util, sys

    class Loader:  # of somebody else's, without attributes to hang anything on
        __slots__ = ("inner",)
        def __init__(self, inner): self.inner = inner
        def create_module(self, spec): return self.inner.create_module(spec)
        def exec_module(self, module): self.inner.exec_module(module); print("theirs", module.__name__)

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name != "torch":
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            spec.loader = Loader(spec.loader)
            return spec
"""


@pytest.mark.parametrize("way", ["sys.meta_path.insert(0, Finder())", "sys.meta_path = [Finder(), *sys.meta_path]"])
def test_another_hook_that_answers_for_torch(tmp_path: Path, way: str) -> None:
    """It does its work, and the doctor watches all the same; where it is not asked, from the next import on."""
    path = tmp_path / "hooked.py"
    path.write_text(dedent(HOOK) + way + "\nimport torch\nimport wave\n" + dedent(LOOP) + "work()\n")
    watched = doctor(tmp_path, path.name)
    assert watched.stdout == "theirs torch\n"
    assert "instep doctor: 1 error in 5 steps" in watched.stderr


def test_silence_is_not_health(tmp_path: Path, programs: Programs) -> None:
    """What was not watched, not trained or not judged is said."""
    (tmp_path / "plain.py").write_text("print(1)\n")
    script(tmp_path, "idle.py", "nn.Linear(2, 2)(torch.zeros(1, 2))\n")
    hand = """
        w = torch.zeros(3, requires_grad=True)
        for _ in range(8):
            w.sum().backward()
            w.data -= w.grad
            w.grad = None
    """
    script(tmp_path, "hand.py", hand)
    (tmp_path / "unseen.py").write_text("import sys\nsys.meta_path[:] = sys.meta_path[1:]\nimport torch\n")
    forked = {"plain": None, "idle": programs, "hand": programs, "unseen": None}  # two are about how torch is imported
    said = {name: " ".join(doctor(tmp_path, f"{name}.py", programs=how).stderr.split()) for name, how in forked.items()}
    nothing = "instep doctor: nothing found, and no step was watched. "
    assert said["plain"] == nothing + "torch was not imported: there was nothing to watch."
    assert said["idle"] == nothing + "nothing was trained: there was no backward and no optimizer step."
    by_hand = "8 backwards came without any optimizer step, and weights were updated by hand: what steps use was not judged. "
    assert said["hand"].startswith(
        nothing + by_hand + "too short to judge everything; it takes at least this many steps: 10 for "
    )
    assert said["unseen"] == nothing + "torch was imported in a way that the doctor could not follow: nothing was watched."
