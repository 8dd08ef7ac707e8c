# kind: in a second phase
# expect: nothing
# like: optimizer-recreated
# why: the optimizer is made anew once, for a new objective with a new head and layer-wise rates; the moments of the
#      pretraining objective are of no use there.
"""Protein-like strings: masked-residue pretraining, then fine-tuning with layer-wise learning rates."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
RESIDUES, MASK, LENGTH = 20, 20, 24


def chains(count, generator):
    """Two families of local motifs; the property is the share of family-A motifs."""
    fixed = torch.Generator().manual_seed(321)
    motifs = torch.randint(0, RESIDUES, (8, 4), generator=fixed)
    pick = torch.randint(0, 8, (count, LENGTH // 4), generator=generator)
    seq = motifs[pick].flatten(1)
    noise = torch.rand(count, LENGTH, generator=generator) < 0.08
    seq = torch.where(noise, torch.randint(0, RESIDUES, seq.shape, generator=generator), seq)
    share = (pick < 4).float().mean(1)
    return TensorDataset(seq, (share - 0.5) / 0.2)


class Encoder(nn.Module):
    def __init__(self, dim=40, layers=3):
        super().__init__()
        self.embed = nn.Embedding(RESIDUES + 1, dim)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(dim, dim, 5, padding=2), nn.GroupNorm(4, dim), nn.GELU()) for _ in range(layers)
        )

    def forward(self, seq):
        h = self.embed(seq).transpose(1, 2)
        for layer in self.layers:
            h = h + layer(h)
        return h.transpose(1, 2)


def pretrain(encoder, loader, epochs):
    head = nn.Linear(40, RESIDUES)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=3e-3)
    for epoch in range(epochs):
        total = 0.0
        for seq, _ in loader:
            hidden = torch.rand(seq.shape) < 0.15
            logits = head(encoder(seq.masked_fill(hidden, MASK)))
            loss = F.cross_entropy(logits[hidden], seq[hidden])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"pretrain {epoch}: masked loss {total / len(loader):.4f}")


class Property(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(40, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, seq):
        return self.head(self.encoder(seq).mean(1)).squeeze(1)


def layerwise_groups(model, lr, decay):
    parts = [model.head, *reversed(model.encoder.layers), model.encoder.embed]
    return [{"params": list(part.parameters()), "lr": lr * decay**depth} for depth, part in enumerate(parts)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain-epochs", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(58)
    generator = torch.Generator().manual_seed(58)
    train, valid = chains(1920, generator), chains(512, generator)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    encoder = Encoder()
    pretrain(encoder, loader, args.pretrain_epochs)

    model = Property(encoder)
    optimizer = torch.optim.AdamW(layerwise_groups(model, lr=3e-3, decay=0.7))
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for seq, target in loader:
            loss = F.mse_loss(model(seq), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            held_out = F.mse_loss(model(valid.tensors[0]), valid.tensors[1]).item()
        print(f"fine-tune {epoch}: train {total / len(loader):.4f}  valid {held_out:.4f}")


if __name__ == "__main__":
    main()
