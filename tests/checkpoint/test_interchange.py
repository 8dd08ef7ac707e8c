"""Weights of models to files and back, also to and from those of other programs."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from instep.checkpoint import Checkpoint, write
from instep.checkpoint.difference import Difference
from instep.checkpoint.interchange import load_model, save_model
from instep.errors import CheckpointError, DescriptionError


def net(*, width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width))


class Tied(nn.Module):
    """Two names for one weight, and a part that is half precision and lies column by column."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.short = nn.Parameter(torch.randn(3, 4, dtype=torch.bfloat16).T)
        self.register_buffer("one", torch.tensor(1.5))
        self.register_buffer("none", torch.empty(0, 3))


def same(one: nn.Module, other: nn.Module) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


# --- To a file and back


@pytest.mark.parametrize("ending", ["safetensors", "pt", "pth", "bin"])
@pytest.mark.parametrize("build", [net, Tied])
def test_what_is_saved_is_loaded(tmp_path: Path, build: Callable[[], nn.Module], ending: str) -> None:
    saved, loaded = build(), build()
    path = tmp_path / f"model.{ending}"
    save_model(saved, path)
    found = load_model(loaded, path)
    assert found == Difference()
    assert (str(found), repr(found)) == (f"all {found.loaded} tensors fit and were loaded", f"<{found}>")
    assert same(saved, loaded)
    assert os.listdir(tmp_path) == [path.name]


def test_the_file_is_plain_safetensors_with_tied_weights_once(tmp_path: Path) -> None:
    saved, loaded = Tied(), Tied()
    save_model(saved, tmp_path / "tied.safetensors")
    plain = safetensors.torch.load_file(tmp_path / "tied.safetensors")
    assert set(plain) == {"short", "one", "none", "embed.weight"}
    assert plain["short"].dtype is torch.bfloat16
    assert all(torch.equal(plain[name], saved.state_dict()[name]) for name in plain)
    safetensors.torch.load_model(loaded, tmp_path / "tied.safetensors")
    assert same(saved, loaded)
    assert loaded.short.stride() == (1, 4)


@pytest.mark.parametrize("kept", ["embed.weight", "head.weight"])
def test_of_tied_weights_any_name_will_do(tmp_path: Path, kept: str) -> None:
    saved, loaded = Tied(), Tied()
    others = {name: value.contiguous() for name, value in saved.state_dict().items() if not name.endswith(".weight")}
    safetensors.torch.save_file({kept: saved.embed.weight.detach(), **others}, tmp_path / "theirs.safetensors")
    assert not load_model(loaded, tmp_path / "theirs.safetensors")
    assert same(saved, loaded)
    assert loaded.head.weight is loaded.embed.weight


def test_several_models_are_in_one_file(tmp_path: Path) -> None:
    models = {"g": net(), "d": net(width=2)}
    path = tmp_path / "gan.safetensors"
    save_model(models, path)
    assert {name.partition(".")[0] for name in safetensors.torch.load_file(path)} == {"g", "d"}
    loaded = {"g": net(), "d": net(width=2)}
    load_model(loaded, path)
    assert same(models["g"], loaded["g"])
    assert same(models["d"], loaded["d"])
    alone = net(width=2)
    load_model({"d": alone}, path)
    assert same(alone, models["d"])
    with pytest.raises(
        CheckpointError, match=r'(?s)nothing that fits.*\nFor the weights whose names begin with d\., load into {"d": model}\.'
    ):
        load_model(net(width=2), path)
    with pytest.raises(CheckpointError, match=r"gan.safetensors has no model 'e'; its names begin with g, d\."):
        load_model({"e": net()}, path)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # what torch.compile imports
@pytest.mark.parametrize(
    "wrap", [nn.DataParallel, torch.compile, lambda model: nn.DataParallel(cast(nn.Module, torch.compile(model)))]
)
def test_wrappers_leave_no_trace_in_a_file_and_do_not_matter_to_it(
    tmp_path: Path, wrap: Callable[[nn.Module], nn.Module]
) -> None:
    model = net()
    wrapped = wrap(model)
    save_model(wrapped, tmp_path / "wrapped.safetensors")
    assert set(safetensors.torch.load_file(tmp_path / "wrapped.safetensors")) == set(model.state_dict())
    torch.save(wrapped.state_dict(), tmp_path / "prefixed.pt")
    bare, other = net(), wrap(net())
    assert load_model(bare, tmp_path / "prefixed.pt").repaired == len(model.state_dict())
    assert same(model, bare)
    assert not load_model(other, tmp_path / "wrapped.safetensors")
    assert same(wrapped, other)


# --- What does not fit


def test_what_does_not_fit_is_a_table_and_the_model_stays(tmp_path: Path) -> None:
    saved = nn.ModuleDict(
        {"body": nn.Linear(4, 8), "head": nn.Linear(8, 3, dtype=torch.float64), "old": nn.Linear(1, 1, bias=False)}
    )
    save_model(saved, tmp_path / "old.safetensors")
    model = nn.ModuleDict({"body": nn.Linear(6, 8), "head": nn.Linear(8, 3), "new": nn.Linear(1, 1, bias=False)})
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(CheckpointError) as raised:
        load_model(model, tmp_path / "old.safetensors")
    assert str(raised.value) == (
        f"{tmp_path}/old.safetensors does not fit the model:\n"
        "            name         model           file\n"
        "shape       body.weight  float32 (8, 6)  float32 (8, 4)\n"
        "dtype       head.weight  float32 (3, 8)  float64 (3, 8)\n"
        "dtype       head.bias    float32 (3,)    float64 (3,)\n"
        "missing     new.weight   float32 (1, 1)  -\n"
        "unexpected  old.weight   -               float32 (1, 1)\n"
        "Use the model that it was saved from, or pass strict=False to load what fits and get the difference."
    )
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    difference = load_model(model, tmp_path / "old.safetensors", strict=False)
    assert (difference.missing, difference.unexpected) == (["new.weight"], ["old.weight"])
    assert difference.names("shape") == ["body.weight"]
    assert difference.names("dtype") == ["head.weight", "head.bias"]
    state = model.state_dict()
    assert torch.equal(state["body.bias"], saved.state_dict()["body.bias"])
    assert torch.equal(state["head.weight"], saved.state_dict()["head.weight"].float())
    assert torch.equal(state["body.weight"], before["body.weight"])


def test_of_several_models_none_is_changed_where_one_does_not_fit(tmp_path: Path) -> None:
    save_model({"g": net(), "d": net()}, tmp_path / "gan.pt")
    models = {"g": net(), "d": net(width=2)}
    before = models["g"].state_dict()["0.weight"].clone()
    with pytest.raises(CheckpointError, match=r"shape +d\.0\.weight +float32 \(2, 4\) +float32 \(3, 4\)"):
        load_model(models, tmp_path / "gan.pt")
    assert torch.equal(models["g"].state_dict()["0.weight"], before)


def test_a_long_table_is_cut(tmp_path: Path) -> None:
    save_model(nn.Sequential(*[nn.Linear(1, 1) for _ in range(25)]), tmp_path / "many.pt")
    model = nn.Sequential(nn.Linear(1, 1))
    with pytest.raises(CheckpointError, match=r"\nand 18 more\nUse the model"):
        load_model(model, tmp_path / "many.pt")
    assert len(load_model(model, tmp_path / "many.pt", strict=False).unexpected) == 48


def test_a_file_that_has_nothing_for_the_model_is_refused_also_when_not_strict(tmp_path: Path) -> None:
    save_model(nn.ModuleDict({"a": nn.Linear(2, 2)}), tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match=r"a\.safetensors has nothing that fits the model:\n"):
        load_model(nn.ModuleDict({"b": nn.Linear(2, 2)}), tmp_path / "a.safetensors", strict=False)


def test_a_wider_dtype_is_no_difference(tmp_path: Path) -> None:
    saved = nn.Linear(3, 3).to(torch.bfloat16)
    save_model(saved, tmp_path / "half.safetensors")
    model = nn.Linear(3, 3)
    assert not load_model(model, tmp_path / "half.safetensors")
    assert torch.equal(model.weight, saved.weight.float())
    with pytest.raises(CheckpointError, match=r"dtype +weight +float16 \(3, 3\) +bfloat16 \(3, 3\)"):
        load_model(nn.Linear(3, 3).half(), tmp_path / "half.safetensors")


@pytest.mark.parametrize(
    ("model", "file", "fits"),
    [
        (torch.float32, torch.float16, True),
        (torch.float16, torch.float32, False),
        (torch.float16, torch.bfloat16, False),
        (torch.bfloat16, torch.float8_e5m2, True),
        (torch.complex128, torch.complex64, True),
        (torch.complex64, torch.float32, False),
        (torch.int64, torch.uint8, True),
        (torch.int64, torch.uint64, False),
        (torch.int32, torch.bool, False),
        (torch.float32, torch.int64, False),
    ],
)
def test_a_dtype_fits_where_no_value_can_be_lost(tmp_path: Path, model: torch.dtype, file: torch.dtype, fits: bool) -> None:
    class Holder(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.register_buffer("held", torch.zeros(3, dtype=dtype))

    save_model(Holder(file), tmp_path / "held.safetensors")
    assert bool(load_model(Holder(model), tmp_path / "held.safetensors", strict=False)) is not fits


def test_weights_older_than_the_counter_of_batch_norm_are_taken(tmp_path: Path) -> None:
    model = net()
    state = {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth")
    assert not load_model(net(), tmp_path / "old.pth")
    torch.save(state | {"2.num_batches_tracked": torch.tensor(3)}, tmp_path / "odd.pth")
    with pytest.raises(CheckpointError, match=r"unexpected +2\.num_batches_tracked"):
        load_model(net(), tmp_path / "odd.pth")


def test_two_tensors_for_one_are_told(tmp_path: Path) -> None:
    state = Tied().state_dict()
    torch.save(state | {"head.weight": state["embed.weight"] + 1}, tmp_path / "apart.pt")
    with pytest.raises(CheckpointError, match=r"tied +head\.weight +is embed.weight +differs from embed.weight"):
        load_model(Tied(), tmp_path / "apart.pt")
    torch.save(state | {"head.weight": state["embed.weight"].clone()}, tmp_path / "copied.pt")
    assert not load_model(Tied(), tmp_path / "copied.pt")


def test_a_lazy_model_takes_the_shapes_of_the_file(tmp_path: Path) -> None:
    save_model(nn.Linear(4, 3), tmp_path / "linear.safetensors")
    model = nn.LazyLinear(3)
    load_model(model, tmp_path / "linear.safetensors")
    assert model.weight.shape == (3, 4)


# --- Runs and checkpoints


def checkpoint(run: Path, step: int, best: int | None, **models: nn.Module) -> Path:
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    parts = {name: model.state_dict() for name, model in models.items()}
    return write(run / "checkpoints", Checkpoint(step, parts, best=best))


def test_a_run_gives_its_best_weights_and_a_checkpoint_its_own(tmp_path: Path) -> None:
    models = [net(), net(), net()]
    checkpoint(tmp_path, 5, None, model=models[0])
    loaded = net()
    load_model(loaded, tmp_path)
    assert same(loaded, models[0])
    paths = [checkpoint(tmp_path, step, 10, model=model) for step, model in ((10, models[1]), (15, models[2]))]
    load_model(loaded, str(tmp_path))
    assert same(loaded, models[1])
    load_model(loaded, paths[1])
    assert same(loaded, models[2])
    load_model(loaded, paths[0] / "model.safetensors")
    assert same(loaded, models[1])


@pytest.mark.parametrize("parts", [("g", "d"), ("model",)])
def test_several_models_of_a_checkpoint(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """Whether a run keeps a part for each of its models, or all in one."""
    models = {"g": net(), "d": net(width=2)}
    path = checkpoint(tmp_path, 5, 5, **(models if len(parts) > 1 else {"model": nn.ModuleDict(models)}))
    loaded = {"g": net(), "d": net(width=2)}
    load_model(loaded, path)
    assert same(models["g"], loaded["g"])
    assert same(models["d"], loaded["d"])


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 5, 5, model=net())
    with (path / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with pytest.raises(CheckpointError, match=r"step-00000005 is damaged: model.safetensors has the checksum"):
        load_model(net(), tmp_path)


# --- What is refused


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    (tmp_path / "junk.pt").write_bytes(b"junk")
    (tmp_path / "junk").write_bytes(b"junk and more of it")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"epoch": 3, "lr": 0.1}, tmp_path / "numbers.pt")
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), tmp_path / "script.pt")
    for name, words in {
        "nowhere.pt": r"nowhere\.pt does not exist; name a file of weights, a run or a checkpoint\.",
        "empty": r"empty has no checkpoint; name a run that has some, a checkpoint, or a file of weights\.",
        "junk.safetensors": r"junk\.safetensors is no safetensors file, or a damaged one: it ends before its header does\.",
        "junk.pt": r"junk\.pt is no file that torch\.save wrote, or a damaged one \(\w+\)\.",
        "junk": r"junk is no file that torch\.save wrote, or a damaged one \(\w+\)\.",
        "list.pt": r"list\.pt holds a list, not weights by name; save model\.state_dict\(\)\.",
        "numbers.pt": r"numbers\.pt has epoch, lr and no weights by name; save model\.state_dict\(\)\.",
        "script.pt": r"script\.pt is a TorchScript archive; torch\.jit\.load\(.*\)\.state_dict\(\) has its weights\.",
    }.items():
        with pytest.raises(CheckpointError, match=words):
            load_model(net(), tmp_path / name)


def test_a_whole_model_is_refused_with_the_way_out(tmp_path: Path) -> None:
    torch.save(net(), tmp_path / "whole.pt")
    with pytest.raises(
        CheckpointError,
        match=r"whole\.pt is refused: it holds torch\.nn\.modules\.\w+\.\w+, which only comes back by running code",
    ) as raised:
        load_model(net(), tmp_path / "whole.pt")
    advice = re.search(r"have its classes: (torch\.save\(.*\))\.$", str(raised.value))
    assert advice
    exec(advice[1].replace("'weights.pt'", f"'{tmp_path}/weights.pt'"), {"torch": torch})
    assert not load_model(net(), tmp_path / "weights.pt")


def test_what_cannot_be_written_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    class Counting(nn.Module):
        def get_extra_state(self) -> int:
            return 3

        def set_extra_state(self, state: int) -> None:
            pass

    (tmp_path / "folder.pt").mkdir()
    for model, name, words in [
        (net(), "model.h5", r"model\.h5 does not say which format it is to have; end it in \.safetensors, or in \.pt"),
        (net(), "folder.pt", r"folder\.pt is a folder; name a file in it, like .*folder\.pt/model\.safetensors\."),
        (net(), "none/model.pt", r"model\.pt cannot be written: there is no folder .*none; make it first\."),
        (
            Counting(),
            "a.safetensors",
            r"a\.safetensors: '_extra_state' is a int, and safetensors keeps tensors only; save to a\.pt instead\.",
        ),
        ({}, "a.pt", r'dict is no model; pass a torch\.nn\.Module, or several as {"g": G, "d": D}\.'),
        ({"a.b": net()}, "a.pt", r"dict is no model"),
        (3, "a.pt", r"int is no model"),
    ]:
        with pytest.raises((CheckpointError, DescriptionError), match=words):
            save_model(model, tmp_path / name)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["folder.pt"]
    model = Counting()
    save_model(model, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a\.pt has _extra_state and no weights by name"):
        load_model(model, tmp_path / "a.pt")


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    save_model(net(), path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be written: No space left on device\."):
        save_model(net(), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_versions_of_modules_stay_in_a_torch_file(tmp_path: Path) -> None:
    """BatchNorm and others read states of older versions differently, and know them by these."""
    model = net()
    save_model(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=True)
    assert loaded._metadata == model.state_dict()._metadata  # type: ignore[attr-defined]
    assert isinstance(loaded["0.weight"], Tensor)
