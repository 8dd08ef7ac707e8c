# kind: numbers
# expect: clip-before-unscale
# why: the hand-written norm clipping works on gradients that still carry the loss scale, so it cuts all of
#   them to a norm of one over the scale.
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_clicks(n, users, ads, generator):
    ru = torch.randn(users, 6, generator=generator)
    ra = torch.randn(ads, 6, generator=generator)
    u = torch.randint(0, users, (n,), generator=generator)
    a = torch.randint(0, ads, (n,), generator=generator)
    context = torch.randn(n, 8, generator=generator)
    score = (ru[u] * ra[a]).sum(1) * 0.6 + 1.2 * context[:, 0] - context[:, 1] * context[:, 2] - 0.4
    click = torch.rand(n, generator=generator) < torch.sigmoid(2 * score)
    return u, a, context, click.float()


class ClickModel(nn.Module):
    def __init__(self, users, ads, dim=16, width=64):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.ad = nn.Embedding(ads, dim)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.ad.weight, std=0.3)
        self.mlp = nn.Sequential(nn.Linear(3 * dim + 8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, 1))

    def forward(self, user, ad, context):
        u, a = self.user(user), self.ad(ad)
        return self.mlp(torch.cat([u, a, u * a, context], dim=1)).squeeze(1)


@torch.no_grad()
def limit_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.sqrt(sum(g.double().pow(2).sum() for g in grads)).float()
    factor = (limit / (total + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(factor)
    return total.item()


class Trainer:
    def __init__(self, model, lr=2e-3, limit=1.0):
        self.model, self.limit = model, limit
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)

    def epoch(self, loader):
        self.model.train()
        loss_sum = count = 0
        for user, ad, context, click in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                logit = self.model(user, ad, context)
            loss = F.binary_cross_entropy_with_logits(logit.float(), click)
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            limit_norm(self.model.parameters(), self.limit)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            loss_sum += loss.item() * len(click)
            count += len(click)
        return loss_sum / count

    @torch.no_grad()
    def auc(self, loader):
        self.model.eval()
        scores, labels = [], []
        for user, ad, context, click in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                scores.append(self.model(user, ad, context).float())
            labels.append(click)
        score, label = torch.cat(scores), torch.cat(labels)
        rank = torch.empty_like(score)
        rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=score.dtype)
        pos = label.sum()
        neg = len(label) - pos
        return ((rank[label > 0.5].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(64)
    g = torch.Generator().manual_seed(640)
    tensors = make_clicks(9600, users=60, ads=40, generator=g)
    train = TensorDataset(*(t[:8000] for t in tensors))
    valid = TensorDataset(*(t[8000:] for t in tensors))
    trainer = Trainer(ClickModel(60, 40))
    train_loader = DataLoader(train, batch_size=100, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=400)
    for epoch in range(4):
        print(f"epoch {epoch}: bce {trainer.epoch(train_loader):.4f}  auc {trainer.auc(valid_loader):.4f}")


if __name__ == "__main__":
    main()
