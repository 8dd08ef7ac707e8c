# kind: numbers
# expect: nothing
# why: might be accused of vanishing-updates, fp16-without-scaler, update-below-precision and lambda-absolute-lr; the backbone is fine-tuned gently on purpose, bfloat16 autocast needs no scaler and keeps float32 weights, and both lambdas return factors of at most one.
"""Fine-tuning near the pretrained weights with small rates, bfloat16 autocast and averaged weights."""
import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

INPUTS, CLASSES = 48, 8


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self, classes, width=96, depth=3):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(INPUTS, width), *[Residual(width) for _ in range(depth)], nn.LayerNorm(width))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def task(n, centres, turn, gen):
    y = torch.randint(0, len(centres), (n,), generator=gen)
    x = centres[y] + 1.1 * torch.randn(n, INPUTS, generator=gen)
    return x @ turn, y


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def pretrain(data, epochs=6):
    model = Network(2 * CLASSES)
    loader = DataLoader(TensorDataset(*data), batch_size=128, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        schedule.step()
    return model.backbone


def distance_to(anchor, backbone):
    return sum((p - a).square().sum() for p, a in zip(backbone.parameters(), anchor))


def finetune(args, backbone, train, valid):
    model = Network(CLASSES)
    model.backbone.load_state_dict(backbone.state_dict())
    anchor = [p.detach().clone() for p in model.backbone.parameters()]
    average = copy.deepcopy(model).requires_grad_(False)
    loader = DataLoader(TensorDataset(*train), batch_size=32, shuffle=True)
    total, warmup = args.epochs * len(loader), len(loader)

    def cosine(step):
        return 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))

    optimizer = torch.optim.AdamW([{"params": model.backbone.parameters(), "lr": args.backbone_lr, "weight_decay": 0.0},
                                   {"params": model.head.parameters(), "lr": args.head_lr, "weight_decay": 1e-3}])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda s: min((s + 1) / warmup, 1.0) * cosine(s), cosine])
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(x)
            loss = F.cross_entropy(logits.float(), y) + 0.5 * args.pull * distance_to(anchor, model.backbone)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters()):
                    a.lerp_(p, 0.02)
        if epoch % 4 == 3:
            print(f"epoch {epoch} live %.3f %.3f averaged %.3f %.3f" % (*evaluate(model, *valid), *evaluate(average, *valid)))
    return min((model, average), key=lambda m: evaluate(m, *valid)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--backbone-lr", type=float, default=3e-5)
    parser.add_argument("--head-lr", type=float, default=1e-3)
    parser.add_argument("--pull", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=65)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    centres = 0.45 * torch.randn(2 * CLASSES, INPUTS, generator=gen)
    source = task(6000, centres, torch.eye(INPUTS), gen)
    turn = torch.linalg.qr(torch.eye(INPUTS) + 0.03 * torch.randn(INPUTS, INPUTS, generator=gen)).Q
    turn = turn * turn.diagonal().sign()
    mean, std = source[0].mean(0), source[0].std(0)
    train, valid, test = (task(n, centres[:CLASSES], turn, gen) for n in (800, 600, 1500))
    source, train, valid, test = (((x - mean) / std, y) for x, y in (source, train, valid, test))
    model = finetune(args, pretrain(source), train, valid)
    print("test loss %.3f accuracy %.3f" % evaluate(model, *test))


if __name__ == "__main__":
    main()
