# kind: in a second phase
# expect: nothing
# like: stale-optimizer
# why: the item table and the output layer are replaced by larger ones while training goes on, and the running Adam is
#   re-pointed to the new parameters with its moments padded; nothing of the old catalogue stays in it.
import torch
from torch import nn, optim


class SessionGRU(nn.Module):
    def __init__(self, items, dim=40):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.score = nn.Linear(dim, items)

    def forward(self, session):
        h, _ = self.gru(self.items(session))
        return self.score(h)


def swap(opt, old, new):
    """Let `opt` hold `new` where it held `old`; moments of the first rows are kept, those of new rows are zero."""
    for group in opt.param_groups:
        group["params"] = [new if p is old else p for p in group["params"]]
    state = opt.state.pop(old)
    rows = old.shape[0]
    for key in ("exp_avg", "exp_avg_sq"):
        wide = torch.zeros_like(new)
        wide[:rows] = state[key]
        state[key] = wide
    opt.state[new] = state


def widen(model, opt, items):
    emb, out = model.items, model.score
    had = emb.num_embeddings
    fresh_emb = nn.Embedding(items, emb.embedding_dim)
    fresh_out = nn.Linear(out.in_features, items)
    with torch.no_grad():
        fresh_emb.weight[:had] = emb.weight
        fresh_out.weight[:had] = out.weight
        fresh_out.bias[:had] = out.bias
    swap(opt, emb.weight, fresh_emb.weight)
    swap(opt, out.weight, fresh_out.weight)
    swap(opt, out.bias, fresh_out.bias)
    model.items, model.score = fresh_emb, fresh_out


class Shop:
    """Sessions follow a sparse taste graph; late in the year new articles come in."""

    def __init__(self, everything=90):
        self.g = torch.Generator().manual_seed(50)
        self.graph = torch.softmax(3.0 * torch.randn(everything, everything, generator=self.g), 1)

    def sessions(self, count, items, length=12):
        graph = self.graph[:items, :items]
        now = torch.randint(items, (count,), generator=self.g)
        walk = [now]
        for _ in range(length - 1):
            now = torch.multinomial(graph[now], 1, generator=self.g).squeeze(1)
            walk.append(now)
        return torch.stack(walk, 1)


def loss_of(model, rows):
    logits = model(rows[:, :-1])
    return nn.functional.cross_entropy(logits.transpose(1, 2), rows[:, 1:])


def hit_rate(model, rows, k=5):
    model.eval()
    with torch.no_grad():
        top = model(rows[:, :-1]).topk(k, -1).indices
        rate = (top == rows[:, 1:, None]).any(-1).float().mean().item()
    model.train()
    return rate


def season(name, model, opt, train, valid, epochs):
    for epoch in range(epochs):
        total, n = 0.0, 0
        for pick in torch.randperm(len(train)).split(64):
            opt.zero_grad()
            loss = loss_of(model, train[pick])
            loss.backward()
            opt.step()
            total, n = total + loss.item() * len(pick), n + len(pick)
        print(f"{name} {epoch}: loss {total / n:.3f}  hit@5 {hit_rate(model, valid):.3f}")


torch.set_num_threads(1)
torch.manual_seed(50)
shop = Shop()
model = SessionGRU(60)
model.train()
opt = optim.Adam(model.parameters(), lr=2e-3)
season("spring", model, opt, shop.sessions(2560, 60), shop.sessions(400, 60), 4)
widen(model, opt, 90)
season("autumn", model, opt, shop.sessions(2560, 90), shop.sessions(400, 90), 5)
