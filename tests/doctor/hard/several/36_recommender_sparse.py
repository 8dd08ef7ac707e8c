# kind: several losses and optimizers
# expect: nothing
# like: parameter-not-optimized
# why: The parameters are divided over three optimizers (sparse embeddings, dense tower, loss weights) by
#      their kind; none of the three holds the whole model, but together they hold every parameter once.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(41)

USERS, ITEMS, DIM = 300, 200, 16


class TwoTaskRecommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM, sparse=True)
        self.item = nn.Embedding(ITEMS, DIM, sparse=True)
        self.user_bias = nn.Embedding(USERS, 1, sparse=True)
        self.item_bias = nn.Embedding(ITEMS, 1, sparse=True)
        self.tower = nn.Sequential(nn.Linear(3 * DIM, 32), nn.ReLU(), nn.Dropout(0.1))
        self.rating = nn.Linear(32, 1)
        self.click = nn.Linear(32, 1)
        for table in (self.user, self.item, self.user_bias, self.item_bias):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, u, i):
        eu, ei = self.user(u), self.item(i)
        h = self.tower(torch.cat([eu, ei, eu * ei], 1))
        bias = self.user_bias(u) + self.item_bias(i)
        return (self.rating(h) + bias).squeeze(1), (self.click(h) + bias).squeeze(1)


class LossBalance(nn.Module):
    """Homoscedastic uncertainty weights for the two tasks."""

    def __init__(self):
        super().__init__()
        self.log_var = nn.Parameter(torch.tensor([0.1, -0.1]))

    def forward(self, losses):
        return (torch.exp(-self.log_var) * torch.stack(losses) + self.log_var).sum()


def simulate(n):
    g = torch.Generator().manual_seed(42)
    fu, fi = torch.randn(USERS, 4, generator=g), torch.randn(ITEMS, 4, generator=g)
    bu, bi = torch.randn(USERS, generator=g), torch.randn(ITEMS, generator=g)
    u = torch.randint(USERS, (n,), generator=g)
    i = torch.randint(ITEMS, (n,), generator=g)
    utility = (fu[u] * fi[i]).sum(1) / 2 + 0.7 * (bu[u] + bi[i])
    rating = utility + 0.3 * torch.randn(n, generator=g)
    click = (torch.sigmoid(2 * utility) > torch.rand(n, generator=g)).float()
    return u, i, rating, click


def parameter_owners(model, balance):
    sparse = [m.weight for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse]
    taken = set(map(id, sparse))
    dense = [p for p in model.parameters() if id(p) not in taken]
    assert len(sparse) + len(dense) == len(list(model.parameters()))
    return [
        torch.optim.SparseAdam(sparse, lr=1e-2),
        torch.optim.AdamW(dense, lr=3e-3, weight_decay=1e-3),
        torch.optim.SGD(balance.parameters(), lr=2e-2),
    ]


def batches(columns, size, shuffle):
    n = len(columns[0])
    order = torch.randperm(n) if shuffle else torch.arange(n)
    for part in order.split(size):
        yield [c[part] for c in columns]


columns = simulate(16000)
train = [c[:12800] for c in columns]
valid = [c[12800:] for c in columns]
mean, std = train[2].mean(), train[2].std()
train[2], valid[2] = (train[2] - mean) / std, (valid[2] - mean) / std

model, balance = TwoTaskRecommender(), LossBalance()
optimizers = parameter_owners(model, balance)

for epoch in range(8):
    model.train()
    seen, running = 0, torch.zeros(2)
    for u, i, rating, click in batches(train, 256, shuffle=True):
        pred_rating, pred_click = model(u, i)
        parts = [F.mse_loss(pred_rating, rating), F.binary_cross_entropy_with_logits(pred_click, click)]
        for opt in optimizers:
            opt.zero_grad()
        balance(parts).backward()
        for opt in optimizers:
            opt.step()
        running += torch.stack(parts).detach() * len(u)
        seen += len(u)
    model.eval()
    with torch.no_grad():
        se, hit = 0.0, 0
        for u, i, rating, click in batches(valid, 800, shuffle=False):
            pred_rating, pred_click = model(u, i)
            se += F.mse_loss(pred_rating, rating, reduction="sum").item()
            hit += ((pred_click > 0).float() == click).sum().item()
    n = len(valid[0])
    r, c = (running / seen).tolist()
    print(f"{epoch} rating {r:.3f} click {c:.3f} | valid rmse {(se / n) ** 0.5:.3f} click acc {hit / n:.3f}"
          f" | weights {torch.exp(-balance.log_var).tolist()}")
