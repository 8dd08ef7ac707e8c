# kind: in a second phase
# expect: nothing
# like: trained-in-eval-mode
# why: in the probing phase the frozen body is put into eval mode on purpose (no dropout, fixed BatchNorm statistics), while
#      the new head, the only part that learns, is in train mode with its dropout.
"""Voice features: speaker pretraining, then an emotion probe on the frozen body."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SPEAKERS, EMOTIONS, BANDS, FRAMES = 12, 4, 12, 20


def recordings(count, generator):
    fixed = torch.Generator().manual_seed(500)
    timbre = torch.randn(SPEAKERS, BANDS, 1, generator=fixed)
    contour = torch.randn(EMOTIONS, 1, 4, generator=fixed)
    contour = F.interpolate(contour, size=FRAMES, mode="linear", align_corners=True)
    gain = torch.randn(EMOTIONS, BANDS, 1, generator=fixed)
    speaker = torch.randint(0, SPEAKERS, (count,), generator=generator)
    emotion = torch.randint(0, EMOTIONS, (count,), generator=generator)
    x = timbre[speaker] + (0.8 + 0.3 * gain[emotion]) * contour[emotion]
    x = (x + 0.6 * torch.randn(count, BANDS, FRAMES, generator=generator)) / 1.6
    return TensorDataset(x, speaker, emotion)


def make_body():
    return nn.Sequential(
        nn.Conv1d(BANDS, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1),
        nn.Conv1d(32, 48, 3, stride=2, padding=1), nn.BatchNorm1d(48), nn.ReLU(), nn.AdaptiveAvgPool1d(2), nn.Flatten(),
    )


@torch.no_grad()
def accuracy(body, head, x, y):
    body.eval()
    head.eval()
    return (head(body(x)).argmax(1) == y).float().mean().item()


def pretrain(body, loader, valid, epochs):
    head = nn.Linear(96, SPEAKERS)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
    for epoch in range(epochs):
        body.train()
        head.train()
        total = 0.0
        for x, speaker, _ in loader:
            loss = F.cross_entropy(head(body(x)), speaker)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        acc = accuracy(body, head, valid.tensors[0], valid.tensors[1])
        print(f"speaker epoch {epoch}: loss {total / len(loader):.4f}  accuracy {acc:.3f}")


def probe(body, loader, valid, epochs):
    body.requires_grad_(False)
    head = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, EMOTIONS))
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
    for epoch in range(epochs):
        body.eval()
        head.train()
        total = 0.0
        for x, _, emotion in loader:
            with torch.no_grad():
                features = body(x)
            loss = F.cross_entropy(head(features), emotion)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        acc = accuracy(body, head, valid.tensors[0], valid.tensors[2])
        print(f"emotion epoch {epoch}: loss {total / len(loader):.4f}  accuracy {acc:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain-epochs", type=int, default=6)
    parser.add_argument("--probe-epochs", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(16)
    generator = torch.Generator().manual_seed(16)
    train, valid = recordings(2048, generator), recordings(512, generator)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    body = make_body()
    pretrain(body, loader, valid, args.pretrain_epochs)
    probe(body, loader, valid, args.probe_epochs)


if __name__ == "__main__":
    main()
