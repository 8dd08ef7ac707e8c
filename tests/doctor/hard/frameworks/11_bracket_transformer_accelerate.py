# kind: inside frameworks
# expect: nothing
# like: fp16-without-scaler
# why: mixed precision here is bfloat16, which has the exponent range of float32 and needs no GradScaler; the weights
#      stay float32 and Accelerate returns the logits as float32.
"""Sequence classification with a small transformer encoder, bfloat16 autocast through Accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_sequences(count, generator, length=20, vocab=12):
    """Label: which of the tokens 0, 1, 2 is the most frequent one in the sequence."""
    tokens = torch.randint(0, vocab, (count, length), generator=generator)
    favourite = torch.randint(0, 3, (count, 1), generator=generator)
    swap = torch.rand(count, length, generator=generator) < 0.15
    tokens = torch.where(swap, favourite.expand_as(tokens), tokens)
    counts = torch.stack([(tokens == k).sum(1) for k in range(3)], dim=1)
    return TensorDataset(tokens, counts.argmax(1))


class Encoder(nn.Module):
    def __init__(self, vocab=12, length=20, width=32):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=64, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens):
        h = self.layers(self.tokens(tokens) + self.positions)
        return self.head(self.norm(h).mean(1))


@torch.no_grad()
def evaluate(model, loader, accelerator):
    model.eval()
    loss = hits = count = 0
    for tokens, label in loader:
        logits, label = accelerator.gather_for_metrics((model(tokens), label))
        loss += F.cross_entropy(logits, label, reduction="sum").item()
        hits += (logits.argmax(1) == label).sum().item()
        count += len(label)
    return loss / count, hits / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--precision", choices=["no", "bf16"], default="bf16")
    args = parser.parse_args()

    set_seed(19)
    accelerator = Accelerator(cpu=True, mixed_precision=args.precision)
    generator = torch.Generator().manual_seed(19)
    train, valid = make_sequences(2048, generator), make_sequences(512, generator)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    steps = args.epochs * len(train_loader)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=30)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps - 30, eta_min=1e-4)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[30])
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, DataLoader(valid, batch_size=128), scheduler
    )
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for tokens, label in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens), label)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item()
        valid_loss, acc = evaluate(model, valid_loader, accelerator)
        accelerator.print(f"epoch {epoch}: train {total / len(train_loader):.3f}  valid {valid_loss:.3f}  acc {acc:.3f}")


if __name__ == "__main__":
    main()
