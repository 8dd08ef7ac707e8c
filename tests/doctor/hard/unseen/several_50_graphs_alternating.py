# kind: several losses and optimizers
# expect: best-weights-aliased
# why: The keeper stores dict(module.state_dict()), a new dictionary with the live tensors in it; after further
#      epochs the "best" weights are the last ones.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

NODES, FEATS = 14, 6


def graphs(n, gen):
    """Random graphs with two communities or none; the class says which, node features carry a weak hint."""
    y = torch.randint(3, (n,), generator=gen)
    side = torch.rand(n, NODES, generator=gen) < 0.5
    same = (side[:, :, None] == side[:, None, :]).float()
    p_in = torch.tensor([0.35, 0.65, 0.2])[y][:, None, None]
    p_out = torch.tensor([0.35, 0.1, 0.55])[y][:, None, None]
    prob = same * p_in + (1 - same) * p_out
    upper = torch.triu((torch.rand(n, NODES, NODES, generator=gen) < prob).float(), 1)
    adj = upper + upper.transpose(1, 2)
    hint = side.float()[:, :, None] * 2 - 1
    x = 0.7 * hint * torch.linspace(-1, 1, FEATS) + torch.randn(n, NODES, FEATS, generator=gen)
    return x, adj, y


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.lift = nn.Linear(FEATS, dim)
        self.own = nn.ModuleList([nn.Linear(dim, dim) for _ in range(2)])
        self.near = nn.ModuleList([nn.Linear(dim, dim, bias=False) for _ in range(2)])

    def forward(self, x, adj):
        h = F.relu(self.lift(x))
        degree = adj.sum(-1, keepdim=True).clamp_min(1)
        for own, near in zip(self.own, self.near):
            h = h + F.relu(own(h) + near(adj @ h / degree))
        return h


class EdgeDecoder(nn.Module):
    def __init__(self, dim=32, rank=16):
        super().__init__()
        self.proj = nn.Linear(dim, rank)
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, h):
        z = self.proj(h)
        return z @ z.transpose(1, 2) / z.shape[-1] ** 0.5 + self.offset


class Keeper:
    def __init__(self, **modules):
        self.modules = modules
        self.loss, self.epoch, self.weights = float("inf"), -1, None

    def offer(self, loss, epoch):
        if loss < self.loss:
            self.loss, self.epoch = loss, epoch
            self.weights = {name: dict(module.state_dict()) for name, module in self.modules.items()}

    def restore(self):
        for name, module in self.modules.items():
            module.load_state_dict(self.weights[name])


torch.manual_seed(70)
rng = torch.Generator().manual_seed(71)
train, valid, test = graphs(384, rng), graphs(384, rng), graphs(384, rng)

encoder, classifier, decoder = Encoder(), nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3)), EdgeDecoder()
opt_class = torch.optim.Adam([*encoder.parameters(), *classifier.parameters()], lr=4e-3)
opt_edges = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=5e-4)
keeper = Keeper(encoder=encoder, classifier=classifier, decoder=decoder)
off_diagonal = ~torch.eye(NODES, dtype=torch.bool)


def class_loss(x, adj, y):
    h = encoder(x, adj)
    logits = classifier(torch.cat([h.mean(1), h.amax(1)], 1))
    return F.cross_entropy(logits, y), (logits.argmax(1) == y).float().mean()


def edge_loss(x, adj):
    scores = decoder(encoder(x, adj))
    return F.binary_cross_entropy_with_logits(scores[:, off_diagonal], adj[:, off_diagonal])


def mode(training):
    for m in (encoder, classifier, decoder):
        m.train(training)


@torch.no_grad()
def measure(data):
    mode(False)
    loss, acc = class_loss(*data)
    return loss.item(), acc.item()


for epoch in range(30):
    mode(True)
    c_sum = e_sum = 0.0
    parts = torch.randperm(len(train[0])).split(48)
    for idx in parts:
        x, adj, y = (t[idx] for t in train)
        opt_edges.zero_grad()
        e = edge_loss(x, adj)
        e.backward()
        opt_edges.step()

        opt_class.zero_grad()
        c, _ = class_loss(x, adj, y)
        c.backward()
        opt_class.step()
        c_sum, e_sum = c_sum + c.item() / len(parts), e_sum + e.item() / len(parts)
    loss, acc = measure(valid)
    keeper.offer(loss, epoch)
    if epoch % 3 == 2:
        print(f"epoch {epoch}: class {c_sum:.3f} edges {e_sum:.3f} | valid {loss:.3f} accuracy {acc:.3f}")

keeper.restore()
print(f"best epoch {keeper.epoch} (valid {keeper.loss:.3f}); restored: valid %.3f, test accuracy %.3f" % (measure(valid)[0], measure(test)[1]))
