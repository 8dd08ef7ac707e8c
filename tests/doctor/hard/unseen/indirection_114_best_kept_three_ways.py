# kind: indirection
# expect: nothing
# why: might be accused of best-weights-aliased, whole-model-pickled and plateau-wrong-sign; the second name points at clones and not at live weights, only state dicts go to the buffer, and ReduceLROnPlateau runs in max mode because it is given a score.
"""Multi-label tagger; the best weights are kept as clones, as bytes and as a deep copy."""
import copy
import io

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

FEATURES, TAGS = 40, 7


class Keeper:
    """Holds the best weights in three forms which must agree at the end."""

    def __init__(self):
        self.score = float("-inf")
        self.clones = None
        self.published = None
        self.buffer = None
        self.model = None

    def offer(self, model, score):
        if score <= self.score:
            return False
        self.score = score
        self.clones = {name: value.detach().clone() for name, value in model.state_dict().items()}
        self.published = self.clones
        self.buffer = io.BytesIO()
        torch.save(model.state_dict(), self.buffer)
        self.model = copy.deepcopy(model)
        return True


class Tagger(nn.Module):
    def __init__(self, width=96, p=0.2):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(FEATURES, width), nn.BatchNorm1d(width), nn.SiLU(), nn.Dropout(p),
                                   nn.Linear(width, width), nn.BatchNorm1d(width), nn.SiLU(), nn.Dropout(p))
        self.tags = nn.Linear(width, TAGS)

    def forward(self, batch):
        return self.tags(self.trunk(batch))


def tagged(n, directions, pairs, gen):
    x = torch.randn(n, FEATURES, generator=gen)
    raw = x @ directions.T + 0.5 * (x @ pairs[0].T) * (x @ pairs[1].T)
    noise = 0.3 * torch.randn(n, TAGS, generator=gen)
    return x * 3 + 5, (raw + noise > 0.8).float()


@torch.no_grad()
def micro_f1(model, loader):
    was_training = model.training
    model.eval()
    hit = said = true = 0.0
    for x, y in loader:
        guess = (model(x) > 0).float()
        hit += (guess * y).sum().item()
        said += guess.sum().item()
        true += y.sum().item()
    model.train(was_training)
    return 2 * hit / max(said + true, 1.0)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(55)
    gen = torch.Generator().manual_seed(55)
    directions = torch.randn(TAGS, FEATURES, generator=gen) / FEATURES ** 0.5
    pairs = torch.randn(2, TAGS, FEATURES, generator=gen) / FEATURES ** 0.5
    train, valid, test = (tagged(n, directions, pairs, gen) for n in (5000, 1000, 1000))
    mean, std = train[0].mean(0), train[0].std(0)
    sets = [TensorDataset((x - mean) / std, y) for x, y in (train, valid, test)]
    train_loader = DataLoader(sets[0], batch_size=64, shuffle=True, drop_last=True)
    valid_loader, test_loader = (DataLoader(s, batch_size=300) for s in sets[1:])

    positive = train[1].mean(0)
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=(1 - positive) / positive)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    plateau = ReduceLROnPlateau(optimizer, mode="max", factor=0.3, patience=1)
    keeper = Keeper()
    for epoch in range(16):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        score = micro_f1(model, valid_loader)
        plateau.step(score)
        mark = "*" if keeper.offer(model, score) else " "
        print(f"epoch {epoch:2d} valid F1 {score:.4f}{mark} lr {optimizer.param_groups[0]['lr']:.1e}")

    fresh = Tagger()
    fresh.load_state_dict(keeper.published)
    keeper.buffer.seek(0)
    model.load_state_dict(torch.load(keeper.buffer, weights_only=True))
    scores = [micro_f1(m, valid_loader) for m in (fresh, model, keeper.model)]
    assert all(abs(s - keeper.score) < 1e-9 for s in scores), scores
    print(f"three copies agree on valid F1 {keeper.score:.4f}, test F1 {micro_f1(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
