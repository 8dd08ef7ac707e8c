"""freeze: what is frozen stays put, whoever calls train(), and comes back exactly."""

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam, AdamW, Optimizer, RMSprop

from instep.errors import DescriptionError, Notice
from instep.loop.evaluate import evaluating
from instep.optim.freeze import freeze, frozen, is_frozen, unfreeze
from instep.tuning.snapshot import untouched
from tiny import Tagger


class Net(nn.Module):
    """A base with BatchNorm and dropout under a head."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 3))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.base(x))
        return scores


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def step(model: nn.Module, optimizer: Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(8, 1, 6, 6)).square().mean().backward()
    optimizer.step()


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(module: nn.Module, before: dict[str, Tensor]) -> bool:
    now = module.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[name], value) for name, value in before.items())


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def trainable(model: nn.Module) -> list[bool]:
    return [parameter.requires_grad for parameter in model.parameters()]


# --- It stays put


OPTIMIZERS: list[Callable[[Any], Optimizer]] = [
    lambda parameters: SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    lambda parameters: Adam(parameters, lr=0.1, weight_decay=0.1),
    lambda parameters: AdamW(parameters, lr=0.1, weight_decay=0.1),
    lambda parameters: AdamW(parameters, lr=0.1, weight_decay=0.1, fused=True),
    lambda parameters: RMSprop(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
]


@pytest.mark.parametrize("optimizer_for", OPTIMIZERS, ids=["sgd", "adam", "adamw", "fused", "rmsprop"])
def test_a_frozen_part_does_not_move_through_old_momentum_decay_and_statistics(
    optimizer_for: Callable[[Any], Optimizer],
) -> None:
    """The trap: elsewhere bn.eval() is flipped back by train(), and momentum and decay go on moving what is frozen."""
    model = net()
    optimizer = optimizer_for(model.parameters())
    for _ in range(3):
        step(model, optimizer)  # the base has a momentum and gradients now
    freeze(model, "base")
    base, head = state(model.base), state(model.head)
    momentum = copy.deepcopy([optimizer.state[p] for p in model.base.parameters()])
    for _ in range(3):
        model.train()
        step(model, optimizer)
    assert same(model.base, base)
    assert not same(model.head, head)
    assert str(momentum) == str([optimizer.state[p] for p in model.base.parameters()])


def test_a_gradient_from_before_is_gone() -> None:
    model = net()
    model(torch.randn(8, 1, 6, 6)).sum().backward()
    freeze(model, "base")
    assert all(p.grad is None for p in model.base.parameters())
    base = state(model.base)
    SGD(model.parameters(), lr=0.1).step()
    assert same(model.base, base)


def test_without_freeze_the_same_part_moves() -> None:
    """The test before this one can fail: requires_grad=False and eval() alone do not hold the statistics."""
    model = net()
    optimizer = OPTIMIZERS[0](model.parameters())
    model.base.requires_grad_(False)
    model.base.eval()
    base = state(model.base)
    model.train()
    step(model, optimizer)
    assert not same(model.base, base)


def test_an_lbfgs_that_is_made_anew_does_not_move_it() -> None:
    """An old one does: the directions that it remembers run through what is frozen now."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(32, 4)
    optimizer = LBFGS(model.parameters(), lr=0.5, max_iter=5)

    def closure() -> float:
        optimizer.zero_grad()
        loss = (model(x) - x.square().sum(1, keepdim=True)).square().mean()
        loss.backward()
        value: float = loss.item()
        return value

    optimizer.step(closure)
    freeze(model, "0")
    first = state(model[0])
    optimizer.step(closure)
    assert not same(model[0], first)
    first, last = state(model[0]), state(model[2])
    optimizer = LBFGS(model.parameters(), lr=0.5, max_iter=5)
    optimizer.step(closure)
    assert same(model[0], first)
    assert not same(model[2], last)


def test_dropout_is_off_and_gradients_flow_through() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.9), nn.Linear(4, 4)))
    freeze(model, "1")
    model.train()
    x = torch.randn(5, 4)
    assert torch.equal(model(x), model(x))
    model(x).sum().backward()
    assert all(p.grad is not None for p in model[0].parameters())
    assert all(p.grad is None for p in model[1].parameters())


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.train(),
        lambda model: model.train(True),
        lambda model: model.base.train(),
        lambda model: model.base[1].train(),
        lambda model: model.eval().train(),
        lambda model: [module.train() for module in model.modules()],
        lambda model: model.apply(lambda module: module.train()),
    ],
)
def test_whoever_calls_train(call: Callable[[Net], object]) -> None:
    model = net()
    freeze(model, "base")
    call(model)
    assert not any(modes(model.base))
    assert all(modes(model.head))
    assert model.base.train() is model.base
    assert model.base[1].eval() is model.base[1]


def test_evaluating_and_snapshots_put_the_modes_back() -> None:
    model = net()
    freeze(model, "base")
    optimizer = SGD(model.parameters(), lr=0.1)
    model.train()
    expected = modes(model)
    with evaluating(model):
        assert not any(modes(model))
    assert modes(model) == expected
    with untouched(model, optimizer):
        step(model, optimizer)
    assert modes(model) == expected
    unfreeze(model)
    assert all(modes(model))  # the eval() inside `evaluating` is not taken for what the base should come back to


def test_modules_with_a_train_of_their_own() -> None:
    class Merged(nn.Linear):
        """Like a low-rank adapter that merges its weights for evaluation."""

        merged = False

        def train(self, mode: bool = True) -> "Merged":
            super().train(mode)
            self.merged = not mode
            return self

    model = nn.Sequential(Merged(2, 2), Merged(2, 2))
    freeze(model, "0")
    model.train()
    assert [module.merged for module in model if isinstance(module, Merged)] == [True, False]
    unfreeze(model, "0")
    assert [module.merged for module in model if isinstance(module, Merged)] == [False, False]


# --- Copies, files, compilers


def through_pickle(model: Net) -> Net:
    loaded = pickle.loads(pickle.dumps(model))
    assert isinstance(loaded, Net)
    return loaded


def through_torch_save(model: Net) -> Net:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert isinstance(loaded, Net)
    return loaded


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle, through_torch_save])
def test_a_copy_is_frozen_too_and_lives_on_its_own(copied: Callable[[Net], Net]) -> None:
    model = net()
    model.base[0].bias.requires_grad_(False)
    freeze(model, "base")
    other = copied(model)
    assert frozen(other) == frozen(model)
    assert other.base.train() is other.base
    base = state(other.base)
    other.train()
    step(other, SGD(other.parameters(), lr=0.1))
    assert same(other.base, base)
    unfreeze(other)
    assert trainable(other) == [True, False, *[True] * 6]
    assert all(modes(other))
    model.train()
    assert not any(modes(model.base))


def test_a_state_dict_is_the_same_and_loads_both_ways() -> None:
    model, plain = net(), net()
    freeze(model, "base")
    assert list(model.state_dict()) == list(plain.state_dict())
    assert model.load_state_dict(plain.state_dict()).missing_keys == []
    assert plain.load_state_dict(model.state_dict()).unexpected_keys == []
    assert not any(modes(model.base))


def test_a_frozen_model_is_freed_as_soon_as_nobody_holds_it() -> None:
    gc.collect()
    gc.disable()
    try:
        model = net()
        freeze(model)
        seen, train = weakref.ref(model.base[0].weight), model.base.train
        del model
        assert seen() is None
    finally:
        gc.enable()
    with pytest.raises(ReferenceError, match="the frozen module that this train\\(\\) belongs to is gone"):
        train()


def test_compiled_models_stay_frozen_and_come_back() -> None:
    model = net()
    compiled: Any = torch.compile(model, backend="eager", fullgraph=True)
    optimizer = OPTIMIZERS[0](model.parameters())
    step(compiled, optimizer)
    freeze(compiled, "base")
    base = state(model.base)
    compiled.train()
    step(compiled, optimizer)
    assert same(model.base, base)
    unfreeze(compiled, "base")
    step(compiled, optimizer)
    assert not same(model.base, base)
    freeze(model)  # all of it, by the model inside
    compiled.train()
    assert not any(modes(compiled))
    assert frozen(compiled).modules == ("",)
    unfreeze(compiled)
    assert all(modes(compiled))


def test_an_exported_model_is_that_of_its_modes() -> None:
    model = net()
    freeze(model)
    x = torch.randn(2, 1, 6, 6)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))


# --- And back


def test_unfreeze_restores_what_was() -> None:
    model = net()
    model.base[0].bias.requires_grad_(False)
    model.base[1].eval()
    before = trainable(model), modes(model)
    freeze(model, "base")
    freeze(model, "base.1", "*.bias")  # again, and more
    unfreeze(model)
    assert (trainable(model), modes(model)) == before
    assert all("train" not in module.__dict__ and not is_frozen(module) for module in model.modules())
    assert model.__dict__.keys() == net().__dict__.keys()
    assert model.base[0].__dict__.keys() == net().base[0].__dict__.keys()


def test_a_part_goes_by_the_model_around_it() -> None:
    model = net()
    model.eval()  # as pretrained models come
    freeze(model, "base")
    model.train()
    unfreeze(model, "base")
    assert all(modes(model))
    freeze(model, "base")
    model.eval()
    unfreeze(model, "base")
    assert not any(modes(model))


def test_a_part_of_a_frozen_part_can_be_unfrozen() -> None:
    model = net()
    freeze(model, "base")
    unfreeze(model, "base.1")
    model.train()
    assert [module.training for module in model.base] == [False, True, False, False]
    assert not model.base.training
    assert trainable(model.base) == [False, False, True, True]
    model.base[1].eval()
    unfreeze(model, "base")
    assert [module.training for module in model.base] == [True, False, True, True]


def test_biases_alone_can_train() -> None:
    model = net()
    freeze(model)
    unfreeze(model, "*.bias")
    assert frozen(model).trainable_count == 4 + 4 + 64 + 3
    assert not any(modes(model))


def test_parameters_alone_leave_the_modes_as_they_are() -> None:
    model = net()
    freeze(model, "*.weight")
    assert all(modes(model))
    assert frozen(model).modules == ()
    assert frozen(model).parameters == ("base.0.weight", "base.1.weight", "head.1.weight", "head.2.weight")
    unfreeze(model, "*.weight")
    assert all(trainable(model))


def test_tied_parameters() -> None:
    """One tensor under two names: frozen under either, free when it is free under both, and as it was."""
    model = nn.ModuleDict({"embed": nn.Embedding(5, 4), "head": nn.Linear(4, 5, bias=False)})
    model["head"].weight = model["embed"].weight
    freeze(model, "embed")
    freeze(model, "head")
    assert frozen(model).parameters == ("embed.weight",)
    assert frozen(model).frozen_count == 20
    unfreeze(model, "embed")
    assert trainable(model) == [False]
    unfreeze(model, "head")
    assert trainable(model) == [True]


def test_a_module_that_is_used_twice() -> None:
    shared = nn.BatchNorm1d(4)
    model = nn.ModuleDict({"a": shared, "b": shared, "c": nn.Linear(4, 4)})
    freeze(model, "a")
    model.train()
    assert modes(shared) == [False]
    unfreeze(model, shared)
    assert modes(shared) == [True]
    assert all(trainable(model))
    assert not frozen(model)


def test_by_module_and_without_the_model_around_it() -> None:
    model = net()
    freeze(model.base)
    model.train()
    assert not any(modes(model.base))
    freeze(model, model.head)
    assert frozen(model).modules == ("base", "head")
    unfreeze(model.base)
    assert frozen(model).modules == ("head",)
    assert all(modes(model.base))


PARTS = ["base", "base.0", "base.1", "base.*", "head.2", "*.bias", "head", "base.1.weight", "*"]


@settings(max_examples=40, deadline=None)
@given(
    calls=st.lists(st.tuples(st.sampled_from(["freeze", "unfreeze", "train", "evaluating"]), st.sampled_from(PARTS)), max_size=6),
    hands=st.sets(st.integers(0, 7), max_size=3),
)
def test_any_calls_and_then_unfreeze_restore_all(calls: Sequence[tuple[str, str]], hands: set[int]) -> None:
    model = net()
    for index, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(index not in hands)
    before = trainable(model), modes(model)
    freeze(model, "base.0.weight")
    for call, part in calls:
        if call == "freeze":
            freeze(model, part)
        elif call == "unfreeze":
            freeze(model, part)
            unfreeze(model, part)
        elif call == "train":
            model.train()
        else:
            with evaluating(model):
                pass
        listed = frozen(model)
        assert all(not model.get_submodule(name).training for name in listed.modules)
        assert all(not model.get_parameter(name).requires_grad for name in listed.parameters)
        assert listed.frozen_count == sum(p.numel() for p in model.parameters() if not p.requires_grad)
    freeze(model)
    unfreeze(model)
    assert (trainable(model), modes(model)) == before


# --- What is said


def test_the_listing_is_a_table() -> None:
    model = net()
    assert not frozen(model)
    assert str(frozen(model)) == "0 numbers frozen, 371 trainable"
    model.head[1].bias.requires_grad_(False)
    listed = freeze(model, "base", "head.2.bias")
    assert listed
    assert str(listed) == "\n".join(
        [
            "frozen       how",
            "base         stays in eval mode",
            "head.2.bias  no gradient",
            "head.1.bias  no gradient, set by hand",
            "115 numbers frozen, 256 trainable",
        ]
    )
    assert str(freeze(model)).startswith("frozen           how\nthe whole model  stays in eval mode\n")


def test_errors_say_what_to_type() -> None:
    with pytest.raises(DescriptionError, match=r"'bse' matches no module and no parameter of Net; did you mean 'base'\?"):
        freeze(net(), "bse")
    with pytest.raises(DescriptionError, match=r"'embd' matches no module and no parameter of Tagger; did you mean 'embed'\?"):
        unfreeze(Tagger(), "embd")
    with pytest.raises(DescriptionError, match=r"model is a str; pass a torch\.nn\.Module"):
        freeze("base")  # type: ignore[arg-type]


def test_unfreeze_says_that_it_leaves_alone_what_was_frozen_by_hand() -> None:
    model = net()
    model.base.requires_grad_(False)
    said = r"found nothing that freeze\(\) froze; base\.0\.weight, .* had requires_grad=False set by hand, and keep it"
    with pytest.warns(Notice, match=said):
        unfreeze(model, "base")
    assert not any(trainable(model.base))
    unfreeze(model, "head")  # nothing is frozen there, and there is nothing to say
