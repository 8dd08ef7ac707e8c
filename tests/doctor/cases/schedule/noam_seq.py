import torch
import torch.nn.functional as F
from torch import nn


class NoamOpt:
    """Sets the rate before every update."""

    def __init__(self, size, factor, warmup, optimizer):
        self.size, self.factor, self.warmup, self.optimizer = size, factor, warmup, optimizer
        self.steps = 0

    def rate(self):
        step = self.steps
        return self.factor * self.size**-0.5 * min(step**-0.5, step * self.warmup**-1.5)

    def step(self):
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


class Copier(nn.Module):
    def __init__(self, vocab=11, d=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.mix = nn.Linear(d, d)
        self.head = nn.Linear(d, vocab)

    def forward(self, x):
        return self.head(F.relu(self.mix(self.embed(x))))


def run_epoch(model, opt, batches):
    for _ in range(batches):
        x = torch.randint(1, 11, (16, 8))
        loss = F.cross_entropy(model(x).view(-1, 11), ((x + 1) % 11).view(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(2)
    model = Copier()
    opt = NoamOpt(32, 0.2, 20, torch.optim.Adam(model.parameters(), lr=0, betas=(0.9, 0.98), eps=1e-9))
    for epoch in range(3):
        print(epoch, run_epoch(model, opt, 15), opt.rate())
