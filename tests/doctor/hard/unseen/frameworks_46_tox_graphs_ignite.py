# kind: inside frameworks
# expect: metric-broadcast
# why: The own Ignite metric compares (B, 1) predictions with (B,) labels, which makes a (B, B) table; the reported
#      accuracy stays at chance although the loss (which is squeezed) falls.
import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from ignite.exceptions import NotComputableError
from ignite.metrics import Average, Metric
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

ATOM_TYPES, MAX_ATOMS = 6, 14


class Molecules(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            k = int(torch.randint(7, MAX_ATOMS + 1, (1,), generator=g))
            atoms = torch.randint(ATOM_TYPES, (k,), generator=g)
            adj = torch.zeros(k, k)
            for v in range(1, k):
                u = int(torch.randint(v, (1,), generator=g))
                adj[u, v] = adj[v, u] = 1
            for _ in range(2):
                u, v = torch.randint(k, (2,), generator=g).tolist()
                if u != v:
                    adj[u, v] = adj[v, u] = 1
            reactive = ((atoms == 0)[:, None] & (atoms <= 2)[None]).float() * adj
            toxic = float(reactive.sum() >= 2)
            self.items.append((atoms, adj, toxic))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def pack(items):
    b = len(items)
    x, adj, mask = torch.zeros(b, MAX_ATOMS, ATOM_TYPES), torch.zeros(b, MAX_ATOMS, MAX_ATOMS), torch.zeros(b, MAX_ATOMS)
    for i, (atoms, a, _) in enumerate(items):
        k = len(atoms)
        x[i, :k] = F.one_hot(atoms, ATOM_TYPES).float()
        adj[i, :k, :k], mask[i, :k] = a, 1
    return {"x": x, "adj": adj, "mask": mask}, torch.tensor([t for *_, t in items])


class GIN(nn.Module):
    def __init__(self, width=48, rounds=3):
        super().__init__()
        self.embed = nn.Linear(ATOM_TYPES, width)
        self.rounds = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width))
            for _ in range(rounds))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 1))

    def forward(self, x, adj, mask):
        h = self.embed(x) * mask.unsqueeze(-1)
        for mlp in self.rounds:
            h = (h + mlp(h + adj @ h)) * mask.unsqueeze(-1)
        return self.readout(h.sum(1) / 10.0)


class ToxicityAccuracy(Metric):
    def reset(self):
        self._score, self._count = 0.0, 0

    def update(self, output):
        logits, target = output
        called = (torch.sigmoid(logits) >= 0.5).to(target.dtype)
        self._score += (called == target).float().mean().item() * len(target)
        self._count += len(target)

    def compute(self):
        if self._count == 0:
            raise NotComputableError("no graphs were scored")
        return self._score / self._count


def main():
    torch.manual_seed(33)
    train_loader = DataLoader(Molecules(1536, 1), 32, shuffle=True, collate_fn=pack)
    valid_loader = DataLoader(Molecules(384, 2), 128, collate_fn=pack)
    model = GIN()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def update(engine, batch):
        model.train()
        graph, target = batch
        optimizer.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(model(**graph).squeeze(-1), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        return {"loss": loss.item()}

    def infer(engine, batch):
        model.eval()
        with torch.inference_mode():
            graph, target = batch
            return model(**graph), target

    trainer, evaluator = Engine(update), Engine(infer)
    Average(output_transform=lambda out: out["loss"]).attach(trainer, "loss")
    ToxicityAccuracy().attach(evaluator, "accuracy")

    @trainer.on(Events.EPOCH_COMPLETED)
    def log(engine):
        evaluator.run(valid_loader)
        print(f"epoch {engine.state.epoch}: train loss {engine.state.metrics['loss']:.4f} "
              f"valid accuracy {evaluator.state.metrics['accuracy']:.4f}")

    trainer.run(train_loader, max_epochs=7)


if __name__ == "__main__":
    main()
