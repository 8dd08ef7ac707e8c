"""What the doctor tries out cannot be noticed: parts with two names, weights that are computed, forwards that write anywhere."""

import os
import signal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.utils.data import DataLoader, TensorDataset

from instep.doctor.extra_forward import ExtraForward, is_closed
from instep.doctor.forked import can_fork, run_forked
from instep.doctor.identities import Identities
from instep.doctor.settings import Settings
from instep.doctor.watcher import Watcher

SEEN: list[float] = []


class Twice(nn.Module):
    """One part under two names, and a weight in two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.layers = nn.ModuleList([self.one] * 2)
        self.first, self.second = nn.Linear(8, 2), nn.Linear(8, 2)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        out: Tensor = self.first(x) + self.second(x)
        return out


class Writing(nn.Module):
    """Writes into its input, a list of the script's and a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 2)
        self.noise = iter(torch.linspace(-1, 1, 1000).tolist())

    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(float(x.sub_(0.1).sum()))
        out: Tensor = self.inner(x + next(self.noise))
        return out


class Counted(nn.Module):
    """A parametrisation that counts how often its weight was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.asked += 1
        return weight


def _trained(kind: type[nn.Module], watched: bool) -> list[Tensor]:
    torch.manual_seed(0)
    SEEN.clear()
    model, data = kind(), torch.randn(80, 8)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    visit = Watcher(Settings())
    if watched:
        visit.begin()
    for _ in range(2):
        for x, y in DataLoader(TensorDataset(data, (data[:, 0] > 0).long()), 8, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    if watched:
        visit.end()
        assert not visit.hub.failures
    return [*model.parameters(), torch.tensor(SEEN)]


def test_a_part_with_two_names_gets_its_own_parameters_back() -> None:
    model, x = Twice(), torch.randn(4, 8)
    parameters = [model.one.weight, model.first.weight, model.second.weight]
    with ExtraForward(model) as forward:
        given = forward((x,), {})
    assert torch.equal(given, model(x))
    for before, now in zip(parameters, [model.one.weight, model.first.weight, model.second.weight], strict=True):
        assert now is before


def test_training_is_the_same_where_parts_are_shared() -> None:
    for plain, watched in zip(_trained(Twice, False), _trained(Twice, True), strict=True):
        assert torch.equal(plain, watched)


def test_training_is_the_same_where_a_forward_writes() -> None:
    for plain, watched in zip(_trained(Writing, False), _trained(Writing, True), strict=True):
        assert torch.equal(plain, watched)


def test_a_computed_weight_is_asked_for_by_nobody_else() -> None:
    counted, model = Counted(), nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    parametrize.register_parametrization(model[0], "weight", counted)
    visit = Watcher(Settings(probes=False))
    visit.begin()
    before = counted.asked
    for _ in range(3):
        model(torch.randn(4, 8)).sum().backward()
    visit.end()
    assert counted.asked == before + 3


def test_not_where_the_script_hears_of_processes_that_end() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # other tests may have left one
    try:
        assert can_fork()
        loader = DataLoader(TensorDataset(torch.arange(4)), num_workers=1)
        assert len(list(loader)) == 4
        assert can_fork()  # torch may have a handler now, for its workers
        signal.signal(signal.SIGCHLD, lambda *_: None)
        assert not can_fork()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_work_is_done_in_another_process() -> None:
    told: list[int] = []

    def work() -> int:
        told.append(1)
        return os.getpid()

    assert run_forked(work) not in (None, os.getpid())
    assert told == []


def test_work_that_fails_gives_nothing() -> None:
    assert run_forked(lambda: 1 // 0) is None


def test_a_forward_that_writes_is_not_closed() -> None:
    assert is_closed(Twice())
    assert not is_closed(Writing())


def test_an_id_that_is_given_again_is_another_number() -> None:
    identities, holder = Identities(), nn.Identity()
    first = torch.zeros(1)
    number = identities.number(first, holder)
    assert identities.number(first, holder) == number
    key = id(first)
    del first
    identities._known[id(holder)] = identities._known.pop(key)  # the next object at that address
    assert identities.number(holder, holder) != number


def test_a_list_is_known_while_its_holder_lives() -> None:
    identities, holder, things = Identities(), nn.Identity(), [1, 2]
    number = identities.number(things, holder)
    assert identities.number(things, nn.Identity()) == number
    del holder
    assert identities.number(things, nn.Identity()) != number
