# kind: several losses
# expect: loss-summed
# why: the depth term is a sum over all valid pixels of the batch (never divided by their number) while the other two terms are means and the weights were chosen for means; depth outweighs segmentation about a thousandfold and, with clipping, starves it.
"""Joint segmentation, depth and edge prediction for a drone camera."""
from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(33)
SIDE = 16


class Scenes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
        self.items = []
        for _ in range(n):
            seg = torch.zeros(SIDE, SIDE, dtype=torch.long)
            depth = 2.0 - yy / SIDE
            for kind in (1, 2):
                cy, cx = torch.randint(3, SIDE - 3, (2,), generator=g).tolist()
                blob = ((yy - cy).abs() + (xx - cx).abs() <= 3) if kind == 1 else ((yy - cy) ** 2 + (xx - cx) ** 2 <= 6)
                seg[blob] = kind
                depth = torch.where(blob, torch.full_like(depth, 0.4 + 0.3 * kind), depth)
            edge = (F.max_pool2d(seg[None, None].float(), 3, 1, 1)[0, 0] != seg).float()
            rgb = torch.stack([(seg == 1) * 0.8, (seg == 2) * 0.8, depth / 2]) + 0.5 * torch.randn(3, SIDE, SIDE, generator=g)
            valid = torch.rand(SIDE, SIDE, generator=g) > 0.3
            self.items.append({"rgb": rgb, "seg": seg, "depth": depth, "edge": edge, "valid": valid})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Perception(nn.Module):
    def __init__(self, c=20):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.heads = nn.ModuleDict({"seg": nn.Conv2d(c, 3, 1), "depth": nn.Conv2d(c, 1, 1), "edge": nn.Conv2d(c, 1, 1)})

    def forward(self, rgb):
        h = self.enc(rgb)
        return {k: head(h) for k, head in self.heads.items()}


@dataclass
class Weights:
    seg: float = 1.0
    depth: float = 0.5
    edge: float = 0.5


def seg_term(out, b):
    return F.cross_entropy(out["seg"], b["seg"])


def depth_term(out, b):
    err = F.smooth_l1_loss(out["depth"].squeeze(1), b["depth"], reduction="none")
    return (err * b["valid"]).sum()


def edge_term(out, b):
    return F.binary_cross_entropy_with_logits(out["edge"].squeeze(1), b["edge"])


TERMS = {"seg": seg_term, "depth": depth_term, "edge": edge_term}


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = tot = 0
    absrel = 0.0
    for b in loader:
        out = model(b["rgb"])
        fg = b["seg"] > 0
        hit += ((out["seg"].argmax(1) == b["seg"]) & fg).sum().item()
        tot += fg.sum().item()
        absrel += (out["depth"].squeeze(1) - b["depth"]).abs().mean((1, 2)).sum().item()
    model.train()
    return hit / tot, absrel / len(loader.dataset)


def main():
    train = DataLoader(Scenes(320, 1), 16, shuffle=True)
    valid = DataLoader(Scenes(96, 2), 32)
    model, w = Perception(), Weights()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(6):
        for b in train:
            out = model(b["rgb"])
            loss = sum(getattr(w, k) * term(out, b) for k, term in TERMS.items())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        fg, err = evaluate(model, valid)
        print(f"epoch {epoch} object recall {fg:.3f} depth error {err:.3f}")


main()
