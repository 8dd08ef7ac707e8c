# kind: numbers
# expect: nll-on-unnormalised
# why: stable_logprobs subtracts the row maximum from the scores and then the log-sum-exp of the unshifted scores, so the rows given to nll_loss do not sum to one (logsumexp = -max); shifting all scores down lowers the loss without end and it turns negative.
"""Intent classifier with its own numerically careful log-probabilities."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(101)

CLASSES, DIM = 6, 20


def logsumexp(scores):
    peak = scores.amax(1, keepdim=True)
    return peak + (scores - peak).exp().sum(1, keepdim=True).log()


def stable_logprobs(scores):
    shifted = scores - scores.amax(1, keepdim=True)
    return shifted - logsumexp(scores)


class Intent(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(DIM, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.score = nn.Linear(hidden, CLASSES)

    def forward(self, x):
        return stable_logprobs(self.score(self.body(x)))


def make_data(n, seed):
    g = torch.Generator().manual_seed(1000)
    centres = 0.7 * torch.randn(CLASSES, DIM, generator=g)
    g.manual_seed(seed)
    y = torch.randint(CLASSES, (n,), generator=g)
    return TensorDataset(centres[y] + torch.randn(n, DIM, generator=g), y)


def class_weights(dataset):
    counts = torch.bincount(dataset.tensors[1], minlength=CLASSES).float()
    return counts.sum() / (CLASSES * counts)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    nll, hits, conf, count = 0.0, 0, 0.0, 0
    for x, y in loader:
        logp = model(x)
        nll += F.nll_loss(logp, y, reduction="sum").item()
        hits += (logp.argmax(1) == y).sum().item()
        conf += logp.amax(1).exp().sum().item()
        count += len(y)
    model.train()
    return nll / count, hits / count, conf / count


def main():
    train_set = make_data(2560, 1)
    train = DataLoader(train_set, batch_size=64, shuffle=True)
    valid = DataLoader(make_data(768, 2), batch_size=256)
    model = Intent()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    criterion = nn.NLLLoss(weight=class_weights(train_set))
    for epoch in range(6):
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        nll, acc, conf = evaluate(model, valid)
        print(f"epoch {epoch} train {total / len(train):.3f} valid nll {nll:.3f} acc {acc:.3f} "
              f"confidence {conf:.2f}")


if __name__ == "__main__":
    main()
