"""`%%doctor` in IPython, and in the kernel of a notebook."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

IMPORTS = "import torch\nfrom torch import nn\nfrom torch.nn.functional import cross_entropy"
TRAIN = """torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    loss = cross_entropy(model(torch.randn(8, 4)).softmax(1), torch.randint(3, (8,)))
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.run_cell("%load_ext instep")
    made.run_cell(IMPORTS)
    yield made
    if made.history_manager is not None:
        made.history_manager.end_session()
    InteractiveShell.clear_instance()


def test_a_cell_is_watched(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell(f"%%doctor\n{TRAIN}'value', model.weight.shape")
    assert result.success
    said = capsys.readouterr().out
    assert said.index("('value', torch.Size([3, 4]))") < said.index("error missing-zero-grad")
    assert shell.user_ns["model"].weight.shape == (3, 4)  # names of the cell are there


def test_what_a_cell_raises_comes_out(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell("%%doctor\nhidden = 3;\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "instep doctor: nothing found, and no step was watched." in capsys.readouterr().out
    assert shell.run_cell("%%doctor\nhidden;").success
    assert "3" not in capsys.readouterr().out.replace("nothing to say", "")


def test_options_of_the_magic(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%doctor --fast\n1")
    assert (
        "UsageError: %%doctor does not know '--fast'; it takes --ignore ID (several times) and --strict."
        in capsys.readouterr().err
    )
    shell.run_cell("%%doctor --ignore missing-zerograd\n1")
    assert "did you mean missing-zero-grad?" in capsys.readouterr().err
    shell.run_cell(f"%%doctor --ignore missing-zero-grad --strict\n{TRAIN}")
    assert "missing-zero-grad" not in capsys.readouterr().out


@pytest.mark.slow  # a kernel that imports torch
def test_in_a_real_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    cells = [f"%load_ext instep\n{IMPORTS}", f"%%doctor\n{TRAIN}loss.item() > 0"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path), env=dict(os.environ))
    value, report = notebook.cells[1].outputs
    assert value.data["text/plain"] == "True"
    html = report.data["text/html"]
    assert html.count("<details open") == 2
    assert "<p>line 8 of this cell: 7 of 8 steps of SGD used gradients" in html
    assert "&gt;   8      optimizer.step()" in html
    assert "softmax-before-cross-entropy" in html  # though the name was imported in an earlier cell
    assert "<script" not in html
