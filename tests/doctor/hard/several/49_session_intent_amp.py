# kind: several losses and optimizers
# expect: clip-before-unscale
# why: Only the body's optimizer is unscaled before the clipping, but all parameters are clipped together; the
#      embeddings belong to the other optimizer and are still multiplied by the loss scale.
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

PAGES, LENGTH, INTENTS = 80, 16, 5


def sessions(n, seed):
    """Click streams: the intent decides which pages are visited, the spending follows from intent and pages."""
    world = torch.Generator().manual_seed(7)
    taste = torch.softmax(1.2 * torch.randn(INTENTS, PAGES, generator=world), 1)
    price = torch.randn(PAGES, generator=world)
    g = torch.Generator().manual_seed(seed)
    intent = torch.randint(INTENTS, (n,), generator=g)
    clicks = torch.multinomial(taste[intent], LENGTH, replacement=True, generator=g)
    spend = price[clicks].mean(1) * 3 + 0.3 * torch.randn(n, generator=g)
    return clicks, intent, spend


class SessionModel(nn.Module):
    def __init__(self, dim=32, hidden=64):
        super().__init__()
        self.pages = nn.Embedding(PAGES, dim)
        self.places = nn.Embedding(LENGTH, dim)
        self.mixer = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim), nn.LayerNorm(dim))
        self.intent = nn.Linear(dim, INTENTS)
        self.spend = nn.Linear(dim, 1)

    def forward(self, clicks):
        x = self.pages(clicks) + self.places.weight
        h = self.mixer(x).mean(1)
        return self.intent(h), self.spend(h).squeeze(1)


def build_optimizers(model, lr, lr_embed):
    tables, body = [], []
    for name, p in model.named_parameters():
        (tables if name.split(".")[0] in ("pages", "places") else body).append(p)
    return torch.optim.AdamW(body, lr=lr, weight_decay=0.01), torch.optim.Adagrad(tables, lr=lr_embed)


def train_epoch(model, loader, opt_body, opt_tables, scaler, max_norm):
    model.train()
    sums = torch.zeros(2)
    for clicks, intent, spend in loader:
        with autocast("cpu", dtype=torch.float16):
            logits, amount = model(clicks)
            loss_intent = F.cross_entropy(logits.float(), intent)
            loss_spend = F.smooth_l1_loss(amount.float(), spend)
        opt_body.zero_grad()
        opt_tables.zero_grad()
        scaler.scale(loss_intent + loss_spend).backward()
        scaler.unscale_(opt_body)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(opt_body)
        scaler.step(opt_tables)
        scaler.update()
        sums += torch.tensor([loss_intent.item(), loss_spend.item()])
    return (sums / len(loader)).tolist()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = error = 0.0
    for clicks, intent, spend in loader:
        logits, amount = model(clicks)
        hits += (logits.argmax(1) == intent).sum().item()
        error += (amount - spend).abs().sum().item()
    n = len(loader.dataset)
    return hits / n, error / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--lr-embed", type=float, default=5e-2)
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--seed", type=int, default=33)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    train = DataLoader(TensorDataset(*sessions(2048, seed=1)), args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(*sessions(512, seed=2)), 128)
    model = SessionModel()
    opt_body, opt_tables = build_optimizers(model, args.lr, args.lr_embed)
    scaler = GradScaler("cpu", init_scale=2.0 ** 10)
    for epoch in range(args.epochs):
        intent, spend = train_epoch(model, train, opt_body, opt_tables, scaler, args.clip)
        acc, mae = evaluate(model, valid)
        print(f"epoch {epoch}: intent {intent:.3f} spend {spend:.3f} | valid accuracy {acc:.3f} mae {mae:.3f}")


if __name__ == "__main__":
    main()
