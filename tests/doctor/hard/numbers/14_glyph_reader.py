# kind: numbers
# expect: nothing
# like: fp16-without-scaler
# why: autocast is bfloat16, which has the exponents of float32 and needs no GradScaler; the weights and Adam's state
#      are float32.
"""Small glyphs, convolutional network, bfloat16 autocast."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STROKES = {0: ["top", "mid", "bot"], 1: ["left", "right"], 2: ["left", "bot"], 3: ["diag"], 4: ["top", "right", "diag"]}


def draw(kind, side=14):
    img = torch.zeros(side, side)
    for s in STROKES[kind]:
        if s in ("top", "mid", "bot"):
            img[{"top": 3, "mid": 7, "bot": 10}[s], 3:11] = 1
        elif s in ("left", "right"):
            img[3:11, 3 if s == "left" else 10] = 1
        else:
            i = torch.arange(3, 11)
            img[i, 13 - i] = 1
    return img


class Glyphs(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        base = torch.stack([draw(k) for k in STROKES])
        self.y = torch.randint(0, len(STROKES), (n,), generator=g)
        x = base[self.y]
        shift = torch.randint(-2, 3, (n, 2), generator=g)
        x = torch.stack([torch.roll(im, tuple(s.tolist()), (0, 1)) for im, s in zip(x, shift)])
        x = x + 0.4 * torch.randn(x.shape, generator=g)
        self.x = ((x - 0.1) / 0.5).unsqueeze(1)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(24 * 9, len(STROKES))

    def forward(self, x):
        return self.out(self.drop(self.body(x)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(58)
    train = DataLoader(Glyphs(1536, 1), batch_size=48, shuffle=True)
    valid = DataLoader(Glyphs(480, 2), batch_size=96)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()

    def precision():
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.amp)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            with precision():
                out = model(x)
            loss = criterion(out.float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        hits = 0
        with torch.no_grad(), precision():
            for x, y in valid:
                hits += (model(x).argmax(1) == y).sum().item()
        print(f"epoch {epoch} loss {total / len(train):.4f} accuracy {hits / 480:.3f}")


if __name__ == "__main__":
    main()
