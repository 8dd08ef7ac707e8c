# kind: numbers
# expect: softmax-before-cross-entropy
# why: each view's scores pass through a hand-written stable softmax (normalise) and the averaged probabilities are handed to F.cross_entropy, which applies log-softmax again; the loss cannot fall below about 1.46 for 10 classes.
"""Two-view classifier with a hand-written, max-shifted normalisation and averaged view scores."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(12)

CLASSES, LEFT, RIGHT = 10, 16, 12


def normalise(scores, temperature):
    shifted = (scores - scores.amax(-1, keepdim=True)) / temperature
    weights = shifted.exp()
    return weights / weights.sum(-1, keepdim=True)


class View(nn.Module):
    def __init__(self, inp, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inp, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.score = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.score(self.body(x))


class TwoViews(nn.Module):
    def __init__(self, temperature=1.0):
        super().__init__()
        self.left, self.right = View(LEFT), View(RIGHT)
        self.gate = nn.Linear(LEFT + RIGHT, 1)
        self.temperature = temperature

    def forward(self, left, right):
        trust = torch.sigmoid(self.gate(torch.cat([left, right], 1)))
        a = normalise(self.left(left), self.temperature)
        b = normalise(self.right(right), self.temperature)
        return trust * a + (1 - trust) * b


def make_data(n, cl, cr):
    y = torch.randint(CLASSES, (n,))
    left = cl[y] + 1.1 * torch.randn(n, LEFT)
    right = cr[y] + 1.3 * torch.randn(n, RIGHT)
    return left, right, y


def main():
    cl, cr = torch.randn(CLASSES, LEFT), torch.randn(CLASSES, RIGHT)
    left, right, y = make_data(3000, cl, cr)
    lv, rv, yv = make_data(800, cl, cr)
    freq = torch.bincount(y, minlength=CLASSES).float()
    balance = freq.mean() / freq
    model = TwoViews()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(10):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(60):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(left[idx], right[idx]), y[idx], weight=balance)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        if epoch % 2 == 1:
            model.eval()
            with torch.no_grad():
                acc = (model(lv, rv).argmax(1) == yv).float().mean().item()
            print(f"epoch {epoch + 1:2d} loss {total / len(y):.3f} valid accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
