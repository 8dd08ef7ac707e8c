# kind: in a second phase
# expect: silent-partial-load
# why: the checkpoint's names begin with "encoder.", the names of the new model with "backbone."; strict=False swallows
#      that, nothing of the backbone is loaded and fine-tuning starts from random weights.
"""ECG rhythm classification on top of an encoder pretrained by predicting the next beat window."""
import argparse
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def ecg(count, generator, length=96):
    rhythm = torch.randint(0, 3, (count,), generator=generator)
    period = 14 + 5 * rhythm[:, None] + 2 * torch.rand(count, 1, generator=generator)
    t = torch.arange(length) + 20 * torch.rand(count, 1, generator=generator)
    beat = torch.exp(-(((t % period) - 5) ** 2) / 1.5) * 2.5
    wander = 0.4 * torch.sin(0.05 * t + 6.28 * torch.rand(count, 1, generator=generator))
    signal = beat + wander + 0.5 * torch.randn(count, length, generator=generator)
    return TensorDataset((signal - 0.3) / 0.9, rhythm)


def make_encoder():
    return nn.Sequential(
        nn.Conv1d(1, 16, 7, stride=2, padding=3), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv1d(16, 32, 7, stride=2, padding=3), nn.GroupNorm(4, 32), nn.ReLU(),
        nn.Conv1d(32, 32, 5, stride=2, padding=2), nn.GroupNorm(4, 32), nn.ReLU(),
    )


class NextWindow(nn.Module):
    """Sees the first 72 samples and predicts the remaining 24."""

    def __init__(self):
        super().__init__()
        self.encoder = make_encoder()
        self.predict = nn.Linear(32 * 9, 24)

    def forward(self, x):
        return self.predict(self.encoder(x.unsqueeze(1)).flatten(1))


class RhythmNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.backbone = make_encoder()
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, classes))

    def forward(self, x):
        return self.head(self.backbone(x.unsqueeze(1)).mean(-1))


def pretrain(train, file, epochs):
    model = NextWindow()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    for epoch in range(epochs):
        total = 0.0
        for x, _ in loader:
            loss = F.mse_loss(model(x[:, :72]), x[:, 72:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"pretrain {epoch}: loss {total / len(loader):.4f}")
    torch.save(model.state_dict(), file)


def finetune(train, valid, file, epochs, lr):
    model = RhythmNet()
    model.load_state_dict(torch.load(file), strict=False)  # the head is new
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            acc = (model(valid.tensors[0]).argmax(1) == valid.tensors[1]).float().mean().item()
        print(f"fine-tune {epoch}: loss {total / len(loader):.4f}  accuracy {acc:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, nargs=2, default=[6, 8])
    args = parser.parse_args()
    torch.manual_seed(80)
    generator = torch.Generator().manual_seed(80)
    unlabelled, labelled, valid = ecg(1536, generator), ecg(768, generator), ecg(512, generator)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "pretrained.pt")
        pretrain(unlabelled, file, args.epochs[0])
        finetune(labelled, valid, file, args.epochs[1], lr=1e-3)


if __name__ == "__main__":
    main()
