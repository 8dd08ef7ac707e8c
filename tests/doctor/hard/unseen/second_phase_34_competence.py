# kind: in a second phase
# expect: nothing
# like: not-shuffled
# why: the data are sorted from easy to hard and the curriculum opens more of them every epoch, but the sampler
#   permutes the opened part anew each time; the sorted file order never reaches the model.
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Tones(Dataset):
    """Short chirps in noise, kept in order of their noise level."""

    def __init__(self, count, seed, ordered):
        g = torch.Generator().manual_seed(seed)
        t = torch.linspace(0, 1, 96)
        self.kind = torch.randint(5, (count,), generator=g)
        f0 = 3.0 + 2.0 * self.kind.float() + 0.3 * torch.randn(count, generator=g)
        bend = torch.where(self.kind % 2 == 0, 3.0, -1.5)
        phase = 6.28 * torch.rand(count, generator=g)
        wave = torch.sin(6.2832 * (f0[:, None] * t + bend[:, None] * t * t) + phase[:, None])
        self.level = 0.1 + 1.4 * torch.rand(count, generator=g)
        if ordered:
            self.level = self.level.sort().values
        sig = wave + self.level[:, None] * torch.randn(count, 96, generator=g)
        self.sig = ((sig - sig.mean(1, keepdim=True)) / sig.std(1, keepdim=True)).unsqueeze(1)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        return self.sig[i], self.kind[i]


class CompetenceSampler(Sampler):
    def __init__(self, size, per_epoch, seed):
        self.size, self.per_epoch = size, per_epoch
        self.open = size
        self.gen = torch.Generator().manual_seed(seed)

    def admit(self, share):
        self.open = max(self.per_epoch, int(share * self.size))

    def __iter__(self):
        return iter(torch.randperm(self.open, generator=self.gen)[: self.per_epoch].tolist())

    def __len__(self):
        return self.per_epoch


def build():
    def stage(i, o):
        return nn.Sequential(nn.Conv1d(i, o, 7, stride=2, padding=3), nn.GroupNorm(4, o), nn.ReLU())
    return nn.Sequential(stage(1, 16), stage(16, 32), stage(32, 32), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                         nn.Linear(32, 5))


def accuracy(model, loader):
    model.eval()
    hits = count = 0
    with torch.no_grad():
        for sig, kind in loader:
            hits += (model(sig).argmax(1) == kind).sum().item()
            count += len(kind)
    return hits / count


def main():
    torch.set_num_threads(1)
    torch.manual_seed(77)
    train = Tones(3200, seed=1, ordered=True)
    valid = DataLoader(Tones(600, seed=2, ordered=False), batch_size=200)
    sampler = CompetenceSampler(len(train), per_epoch=640, seed=8)
    loader = DataLoader(train, batch_size=32, sampler=sampler)
    model = build()
    opt = torch.optim.RAdam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()

    plan = [("easy", 0.2)] * 4 + [("opening", 0.2 + 0.8 * k / 7) for k in range(1, 8)] + [("all", 1.0)] * 4
    for epoch, (phase, share) in enumerate(plan):
        sampler.admit(share)
        model.train()
        loss_sum = 0.0
        for sig, kind in loader:
            opt.zero_grad(set_to_none=True)
            loss = criterion(model(sig), kind)
            loss.backward()
            opt.step()
            loss_sum += loss.item()
        print(f"{epoch:2d} {phase:8s} open {sampler.open:4d}  loss {loss_sum / len(loader):.3f}  "
              f"valid {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main()
