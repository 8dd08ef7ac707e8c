# kind: in a second phase
# expect: nothing
# like: silent-partial-load
# why: the fine-tuning job loads a checkpoint of another process with strict=False; only the new head is missing and only
#   the pretext head is unexpected, which is checked. The whole trunk, nearly all of the weights, is loaded.
import argparse
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


def beats(count, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(-1, 1, 80)
    kind = torch.randint(3, (count,), generator=g)
    shift = 0.15 * torch.randn(count, 1, generator=g)
    width = torch.tensor([0.06, 0.14, 0.06])[kind][:, None] * (1 + 0.1 * torch.randn(count, 1, generator=g))
    tail = torch.tensor([0.4, 0.4, -0.35])[kind][:, None]
    wave = torch.exp(-((t - shift) / width) ** 2) + tail * torch.exp(-((t - shift - 0.45) / 0.15) ** 2)
    wave = wave + 0.25 * torch.randn(count, 80, generator=g)
    return ((wave - wave.mean()) / wave.std()).unsqueeze(1), kind


class Trunk(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.c1 = nn.Conv1d(1, ch, 9, stride=2, padding=4)
        self.n1 = nn.BatchNorm1d(ch)
        self.c2 = nn.Conv1d(ch, ch, 9, stride=2, padding=4)
        self.n2 = nn.BatchNorm1d(ch)
        self.fc = nn.Linear(ch * 20, 64)

    def forward(self, x):
        x = F.relu(self.n1(self.c1(x)))
        x = F.relu(self.n2(self.c2(x)))
        return F.relu(self.fc(x.flatten(1)))


class Net(nn.Module):
    def __init__(self, head, classes):
        super().__init__()
        self.trunk = Trunk()
        self.add_module(head, nn.Linear(64, classes))
        self.head = head

    def forward(self, x):
        return getattr(self, self.head)(self.trunk(x))


def loop(net, x, y, epochs, lr, prepare=None, after=None):
    opt = torch.optim.AdamW(net.parameters(), lr=lr)
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(x)).split(40):
            xb, yb = prepare(x[rows]) if prepare else (x[rows], y[rows])
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        note = after() if after else ""
        print(f"[{net.head}] epoch {epoch}  loss {total / len(x):.4f} {note}", flush=True)


def pretext(x):
    # which of four things was done to the beat?
    y = torch.randint(4, (len(x),))
    flip, invert = (y % 2 == 1)[:, None, None], (y >= 2)[:, None, None]
    x = torch.where(flip, x.flip(-1), x)
    return torch.where(invert, -x, x), y


def pretrain(path):
    torch.manual_seed(1)
    x, _ = beats(2000, seed=100)
    net = Net("pretext_head", 4)
    loop(net, x, None, 3, 1e-3, prepare=pretext)
    torch.save({"model": net.state_dict()}, path)


def finetune(path):
    torch.manual_seed(2)
    x, y = beats(400, seed=200)
    vx, vy = beats(600, seed=300)
    net = Net("class_head", 3)
    result = net.load_state_dict(torch.load(path, weights_only=True)["model"], strict=False)
    assert all(k.startswith("class_head.") for k in result.missing_keys), result.missing_keys
    assert all(k.startswith("pretext_head.") for k in result.unexpected_keys), result.unexpected_keys

    def valid():
        net.eval()
        with torch.no_grad():
            return f" valid acc {(net(vx).argmax(1) == vy).float().mean().item():.3f}"

    loop(net, x, y, 18, 5e-4, after=valid)


if __name__ == "__main__":
    torch.set_num_threads(1)
    ap = argparse.ArgumentParser()
    ap.add_argument("--job", choices=["all", "pretrain"], default="all")
    ap.add_argument("--path", default=None)
    args = ap.parse_args()
    if args.job == "pretrain":
        pretrain(args.path)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trunk.pt")
            subprocess.run([sys.executable, os.path.abspath(__file__), "--job", "pretrain", "--path", path], check=True)
            finetune(path)
