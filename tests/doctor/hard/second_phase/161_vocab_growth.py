# kind: in a second phase
# expect: weights-not-tied
# why: enlarge() grows embedding and output layer one after the other, each into its own Parameter; the tie of phase 1 is lost, both start bit-equal and drift apart, and the export that stores only one of them (tied format) is much worse than the trained model.
"""Event-log language model (tied in/out embedding); new event types appear and the vocabulary grows."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
SEED = 5
torch.manual_seed(SEED)
OLD, NEW, CTX = 30, 48, 12


def transition_matrix(v, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.softmax(3.0 * torch.randn(v, v, generator=g), -1)


def simulate(trans, n, length, gen):
    rows = [torch.randint(0, trans.shape[0], (n,), generator=gen)]
    for _ in range(length):
        rows.append(torch.multinomial(trans[rows[-1]], 1, generator=gen).squeeze(1))
    return torch.stack(rows, 1)


class EventLM(nn.Module):
    def __init__(self, vocab, dim=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        nn.init.normal_(self.emb.weight, std=0.15)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.head(h)


def grown(weight, rows):
    old = weight.detach()
    fresh = old.mean(0, keepdim=True) + 0.15 * torch.randn(
        rows - old.shape[0], old.shape[1], generator=torch.Generator().manual_seed(SEED))
    return nn.Parameter(torch.cat([old, fresh]))


def enlarge(model, vocab):
    for layer, size_attr in ((model.emb, "num_embeddings"), (model.head, "out_features")):
        layer.weight = grown(layer.weight, vocab)
        setattr(layer, size_attr, vocab)
    return model


def nll(model, seq):
    logits = model(seq[:, :-1])
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), seq[:, 1:].reshape(-1))


def train(model, corpus, steps, lr, gen, tag):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    model.train()
    for step in range(1, steps + 1):
        pick = torch.randint(0, len(corpus), (32,), generator=gen)
        loss = nll(model, corpus[pick])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 50 == 0:
            print(f"{tag} step {step} nll {loss.item():.4f}")


def export(model):
    """Serving format: one table for input and output."""
    return {k: v.clone() for k, v in model.state_dict().items() if not k.startswith("head.")}


def restore(table):
    served = EventLM(table["emb.weight"].shape[0])
    served.load_state_dict({**table, "head.weight": table["emb.weight"]})
    return served.eval()


def main():
    gen = torch.Generator().manual_seed(SEED)
    old_trans = transition_matrix(OLD, 1)
    model = EventLM(OLD)
    train(model, simulate(old_trans, 1000, CTX, gen), 220, 5e-3, gen, "v1")

    new_trans = transition_matrix(NEW, 2)
    corpus, held_out = simulate(new_trans, 1500, CTX, gen), simulate(new_trans, 400, CTX, gen)
    enlarge(model, NEW)
    train(model, corpus, 200, 5e-3, gen, "v2")

    served = restore(export(model))
    with torch.no_grad():
        print(f"held-out nll of the served model: {nll(served, held_out).item():.4f}")


if __name__ == "__main__":
    main()
