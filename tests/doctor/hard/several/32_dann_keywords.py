# kind: several losses and optimizers
# expect: single-class-loss
# also: constant-loss
# why: The domain discriminator has one output and is trained with cross-entropy against a float column;
#      softmax over one class is always 1, so the domain loss is always 0 and the adaptation does nothing.
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--lam", type=float, default=0.3)
parser.add_argument("--seed", type=int, default=17)
args = parser.parse_args()
torch.manual_seed(args.seed)

N_MEL, FRAMES, WORDS = 20, 24, 6
gen = torch.Generator().manual_seed(args.seed)
templates = torch.randn(WORDS, FRAMES, N_MEL, generator=gen)
channel = 0.8 * torch.randn(N_MEL, generator=gen)


def record(n, far_field):
    """Log-mel 'recordings' of isolated words: close microphone or far-field."""
    words = torch.randint(WORDS, (n,), generator=gen)
    mel = templates[words] + 1.5 * torch.randn(n, FRAMES, N_MEL, generator=gen)
    if far_field:
        mel = 0.7 * mel + 0.3 * mel.roll(1, dims=1) + channel
    return mel, words


close_x, close_y = record(1536, False)
far_x, _ = record(1536, True)
val_x, val_y = record(512, True)
mean, std = close_x.mean((0, 1)), close_x.std((0, 1))
close_x, far_x, val_x = ((x - mean) / std for x in (close_x, far_x, val_x))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


class Encoder(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.rnn = nn.GRU(N_MEL, hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.norm(out.mean(1))


encoder = Encoder()
words_head = nn.Sequential(nn.Dropout(0.1), nn.Linear(48, WORDS))
domain_head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))
main_opt = torch.optim.AdamW([*encoder.parameters(), *words_head.parameters()], lr=args.lr)
domain_opt = torch.optim.AdamW(domain_head.parameters(), lr=args.lr)

source = DataLoader(TensorDataset(close_x, close_y), args.batch, shuffle=True, drop_last=True)
target = DataLoader(TensorDataset(far_x), args.batch, shuffle=True, drop_last=True)


def train_epoch():
    encoder.train(), words_head.train(), domain_head.train()
    sums = torch.zeros(2)
    for (xs, ys), (xt,) in zip(source, target):
        feats = encoder(torch.cat([xs, xt]))
        word_loss = F.cross_entropy(words_head(feats[: len(xs)]), ys)
        is_far = torch.cat([torch.zeros(len(xs), 1), torch.ones(len(xt), 1)])
        domain_logits = domain_head(Reverse.apply(feats, args.lam))
        domain_loss = F.cross_entropy(domain_logits, is_far)
        main_opt.zero_grad()
        domain_opt.zero_grad()
        (word_loss + domain_loss).backward()
        main_opt.step()
        domain_opt.step()
        sums += torch.tensor([word_loss.item(), domain_loss.item()])
    return sums / len(source)


@torch.no_grad()
def accuracy(x, y):
    encoder.eval(), words_head.eval()
    return (words_head(encoder(x)).argmax(1) == y).float().mean().item()


for epoch in range(args.epochs):
    word, domain = train_epoch().tolist()
    print(f"epoch {epoch}: words {word:.3f} domain {domain:.3f} far-field accuracy {accuracy(val_x, val_y):.3f}")
