# kind: several losses and optimizers
# expect: foreign-gradients
# why: `descend` clears only the gradients of the optimizer that has just stepped; the generator's loss then
#      fills the discriminator with gradients, and the next discriminator step uses them along with its own.
import torch
from torch import nn, optim
from torch.nn.functional import softplus

torch.set_num_threads(1)
torch.manual_seed(64)

# ---- a table of customers: age, log income, tenure, balance, default rate -------------------
N = 5000
age = 45 + 12 * torch.randn(N)
income = 9.5 + 0.02 * age + 0.4 * torch.randn(N)
tenure = torch.relu(0.3 * (age - 20) + 3 * torch.randn(N))
balance = 200 * (income - 9) + 40 * tenure + 150 * torch.randn(N)
default = torch.sigmoid(-1 + 0.004 * (400 - balance) + 0.5 * torch.randn(N))
table = torch.stack([age, income, tenure, balance, default], 1)

perm = torch.randperm(N)
train_rows, test_rows = table[perm[:4000]], table[perm[4000:]]
mu, sigma = train_rows.mean(0), train_rows.std(0)
train_rows, test_rows = (train_rows - mu) / sigma, (test_rows - mu) / sigma

# ---- networks ---------------------------------------------------------------------------------
Z = 8
G = nn.Sequential(
    nn.Linear(Z, 64), nn.LayerNorm(64), nn.LeakyReLU(0.2),
    nn.Linear(64, 64), nn.LayerNorm(64), nn.LeakyReLU(0.2),
    nn.Linear(64, table.shape[1]),
)
D = nn.Sequential(
    nn.Linear(table.shape[1], 64), nn.LeakyReLU(0.2), nn.Dropout(0.1),
    nn.Linear(64, 64), nn.LeakyReLU(0.2),
    nn.Linear(64, 1),
)
opt_g = optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.99))
opt_d = optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))


def descend(optimizer, loss):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def d_loss(real):
    with torch.no_grad():
        fake = G(torch.randn(len(real), Z))
    return softplus(-D(real)).mean() + softplus(D(fake)).mean()


def g_loss(n):
    return softplus(-D(G(torch.randn(n, Z)))).mean()


@torch.no_grad()
def distance_to_test():
    """Differences of means and correlations between synthetic and held-out rows."""
    G.eval()
    fake = G(torch.randn(len(test_rows), Z))
    G.train()
    means = (fake.mean(0) - test_rows.mean(0)).abs().mean()
    corr = (torch.corrcoef(fake.T) - torch.corrcoef(test_rows.T)).abs().mean()
    return means.item(), corr.item()


# ---- training ---------------------------------------------------------------------------------
BATCH = 100
for epoch in range(12):
    sum_d = sum_g = 0.0
    chunks = train_rows[torch.randperm(len(train_rows))].split(BATCH)
    for real in chunks:
        sum_d += descend(opt_d, d_loss(real))
        sum_g += descend(opt_g, g_loss(len(real)))
    dm, dc = distance_to_test()
    print(f"epoch {epoch:2d}  D {sum_d / len(chunks):.3f}  G {sum_g / len(chunks):.3f}"
          f"  mean gap {dm:.3f}  corr gap {dc:.3f}")
