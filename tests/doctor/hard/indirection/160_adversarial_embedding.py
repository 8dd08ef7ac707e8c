# kind: behind indirection
# expect: leaf-written-in-place
# why: FGM.attack() is called with "tok_embed" and writes the perturbation into the embedding by .data; restore() is called with its default "emb.", which does not occur in "tok_embed.weight", so nothing is put back and every step leaves an ascent step of size 0.4 in the weights.
"""Ticket routing with adversarial training on the embeddings (FGM)."""
from functools import partial
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(8)
VOCAB, LEN, QUEUES = 300, 20, 6


class FGM:
    def __init__(self, model):
        self.model = model
        self.backup = {}

    def attack(self, epsilon=1.0, emb_name="emb."):
        for name, param in self.model.named_parameters():
            if param.requires_grad and emb_name in name and param.grad is not None:
                self.backup[name] = param.data.clone()
                norm = torch.norm(param.grad)
                if norm != 0 and not torch.isnan(norm):
                    param.data.add_(param.grad, alpha=float(epsilon / norm))

    def restore(self, emb_name="emb."):
        for name, param in self.model.named_parameters():
            if param.requires_grad and emb_name in name:
                assert name in self.backup
                param.data.copy_(self.backup[name])
        self.backup = {}


class Router(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.tok_embed = nn.Embedding(VOCAB, dim)
        nn.init.normal_(self.tok_embed.weight, std=0.2)
        self.conv = nn.Conv1d(dim, 64, 3, padding=1)
        self.out = nn.Linear(64, QUEUES)
        self.drop = nn.Dropout(0.1)

    def forward(self, ids):
        h = self.tok_embed(ids).transpose(1, 2)
        h = torch.relu(self.conv(h)).amax(-1)
        return self.out(self.drop(h))


def tickets(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, QUEUES, (n,), generator=g)
    ids = torch.randint(0, VOCAB, (n, LEN), generator=g)
    hot = torch.randint(0, 12, (n, LEN), generator=g) + 12 * y[:, None]
    use = torch.rand(n, LEN, generator=g) < 0.16
    return torch.where(use, hot, ids), y


def adversarial_step(model, opt, criterion, fgm, ids, y, eps):
    opt.zero_grad()
    loss = criterion(model(ids), y)
    loss.backward()
    fgm.attack(eps, "tok_embed")
    adv = criterion(model(ids), y)
    adv.backward()
    fgm.restore()
    opt.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, ids, y):
    model.eval()
    out = model(ids)
    return nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    train = DataLoader(TensorDataset(*tickets(2400, 1)), 48, shuffle=True)
    valid = tickets(1000, 2)
    model = Router()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = partial(adversarial_step, model, opt, nn.CrossEntropyLoss(), FGM(model), eps=0.4)
    for epoch in range(6):
        model.train()
        losses = [step(ids, y) for ids, y in train]
        vloss, vacc = evaluate(model, *valid)
        print(f"epoch {epoch} train {sum(losses) / len(losses):.4f} valid {vloss:.4f} acc {vacc:.3f}")


main()
