# kind: in a second phase
# expect: plateau-wrong-sign
# why: stage() makes the same ReduceLROnPlateau for both stages; in the first it watches a validation error (mode min is
#   right), in the second an accuracy, which rises, so the lr is cut although the model gets better.
import torch
from torch import nn
import torch.nn.functional as F

N_NODES, N_FEAT, N_COMM = 24, 12, 4


def sample_graphs(count, seed):
    g = torch.Generator().manual_seed(seed)
    prototypes = torch.randn(N_COMM, N_FEAT, generator=torch.Generator().manual_seed(0))
    comm = torch.randint(N_COMM, (count, N_NODES), generator=g)
    same = comm[:, :, None] == comm[:, None, :]
    edge = torch.rand(count, N_NODES, N_NODES, generator=g) < torch.where(same, 0.45, 0.06)
    adj = edge.float().triu(1)
    adj = adj + adj.transpose(1, 2) + torch.eye(N_NODES)
    adj = adj / adj.sum(-1, keepdim=True)
    feat = 0.6 * prototypes[comm] + torch.randn(count, N_NODES, N_FEAT, generator=g)
    return feat / 1.2, adj, comm


class GraphConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.self_lin, self.nb_lin = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, adj):
        return self.self_lin(x) + self.nb_lin(adj @ x)


class Gnn(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.c1, self.c2 = GraphConv(N_FEAT, dim), GraphConv(dim, dim)
        self.drop = nn.Dropout(0.2)

    def forward(self, x, adj):
        x = self.drop(F.elu(self.c1(x, adj)))
        return F.elu(self.c2(x, adj))


def denoise_setup(gnn, valid):
    head = nn.Linear(48, N_FEAT)
    hide_valid = (torch.rand(valid[0].shape[:2], generator=torch.Generator().manual_seed(3)) < 0.3).unsqueeze(-1)

    def loss(batch):
        x, adj, _ = batch
        hide = (torch.rand(x.shape[:2]) < 0.3).unsqueeze(-1)
        out = head(gnn(x.masked_fill(hide, 0.0), adj))
        return F.mse_loss(out[hide.squeeze(-1)], x[hide.squeeze(-1)])

    def metric():
        x, adj, _ = valid
        out = head(gnn(x.masked_fill(hide_valid, 0.0), adj))
        return F.mse_loss(out[hide_valid.squeeze(-1)], x[hide_valid.squeeze(-1)]).item()

    return head, loss, metric


def label_setup(gnn, valid):
    head = nn.Linear(48, N_COMM)

    def loss(batch):
        x, adj, y = batch
        return F.cross_entropy(head(gnn(x, adj)).flatten(0, 1), y.flatten())

    def metric():
        x, adj, y = valid
        return (head(gnn(x, adj)).argmax(-1) == y).float().mean().item()

    return head, loss, metric


def stage(name, setup, gnn, train, valid, epochs, lr):
    head, loss_fn, metric = setup(gnn, valid)
    model = nn.ModuleList([gnn, head])
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=3)
    n = len(train[0])
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for rows in torch.randperm(n).split(20):
            batch = tuple(t[rows] for t in train)
            opt.zero_grad()
            loss = loss_fn(batch)
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        model.eval()
        with torch.no_grad():
            value = metric()
        plateau.step(value)
        if epoch % 3 == 0:
            print(f"{name:8s} {epoch:2d}  loss {total / n:.4f}  watched {value:.4f}  lr {opt.param_groups[0]['lr']:.1e}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(5)
    train, valid = sample_graphs(300, seed=1), sample_graphs(100, seed=2)
    gnn = Gnn()
    stage("denoise", denoise_setup, gnn, train, valid, epochs=12, lr=2e-3)
    stage("label", label_setup, gnn, train, valid, epochs=24, lr=1e-3)
