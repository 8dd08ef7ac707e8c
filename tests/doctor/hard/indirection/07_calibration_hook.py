# kind: behind indirection
# expect: softmax-before-cross-entropy
# why: a forward hook on the head turns logits into probabilities for "serving", and it is active in training too, so
#      cross-entropy applies softmax a second time: the loss cannot fall below about 0.9 with 5 classes.
"""Small-image classifier; output post-processing is attached with forward hooks."""
import argparse
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def glyphs(n, classes=5, size=14):
    protos = (torch.rand(classes, 1, size, size) < 0.3).float()
    y = torch.randint(0, classes, (n,))
    shift = torch.randint(-1, 2, (n,)).tolist()
    x = torch.stack([torch.roll(protos[c], s, -1) for c, s in zip(y.tolist(), shift)])
    x = x + 0.7 * torch.randn_like(x)
    return (x - x.mean()) / x.std(), y


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(24 * 9, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def serve(module, args, output, *, temperature):
    """Scores that the service can show as percentages."""
    return torch.softmax(output / temperature, dim=-1)


def attach(model, hooks):
    return [model.get_submodule(path).register_forward_hook(fn) for path, fn in hooks.items()]


def evaluate(model, loader, loss_fn):
    model.eval()
    loss = hits = n = 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += loss_fn(out, y).item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--temperature", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(13)
    torch.set_num_threads(1)
    train, valid = random_split(TensorDataset(*glyphs(3840)), [3200, 640])
    train, valid = DataLoader(train, 32, shuffle=True), DataLoader(valid, 64)
    model = ConvNet(5)
    attach(model, {"head": functools.partial(serve, temperature=args.temperature)})
    loss_fn = functools.partial(nn.functional.cross_entropy, reduction="mean")
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        run = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            run += loss.item() * len(y)
        vl, va = evaluate(model, valid, loss_fn)
        print(f"epoch {epoch} train {run / 3200:.4f} valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
