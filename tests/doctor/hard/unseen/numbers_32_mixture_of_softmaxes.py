# kind: numbers
# expect: nll-on-unnormalised
# why: the mixture of softmaxes gives probabilities and they go to nll_loss without a logarithm;
#   the perplexity beside it does take the logarithm.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
np.random.seed(3)
torch.manual_seed(3)

VOCAB, EMB, HID, EXPERTS = 26, 32, 64, 3
SEQ, BATCH, EPOCHS = 24, 32, 8


def sample_corpus(n_sequences):
    """An order-two Markov source: the next letter depends on the two before it."""
    table = np.random.RandomState(5).dirichlet(np.full(VOCAB, 0.06), size=(VOCAB, VOCAB))
    cdf = table.cumsum(-1)
    out = np.zeros((n_sequences, SEQ + 1), dtype=np.int64)
    out[:, :2] = np.random.randint(0, VOCAB, size=(n_sequences, 2))
    for t in range(2, SEQ + 1):
        u = np.random.rand(n_sequences, 1)
        out[:, t] = (u > cdf[out[:, t - 2], out[:, t - 1]]).sum(1).clip(max=VOCAB - 1)
    return torch.from_numpy(out)


class MixtureOfSoftmaxes(nn.Module):
    def __init__(self, hidden, vocab, experts):
        super().__init__()
        self.experts = experts
        self.prior = nn.Linear(hidden, experts)
        self.latent = nn.Linear(hidden, experts * hidden)
        self.decoder = nn.Linear(hidden, vocab)

    @staticmethod
    def _softmax(z):
        e = torch.exp(z - z.max(dim=-1, keepdim=True).values)
        return e / e.sum(dim=-1, keepdim=True)

    def forward(self, h):
        weights = self._softmax(self.prior(h))
        latent = torch.tanh(self.latent(h)).unflatten(-1, (self.experts, -1))
        each = self._softmax(self.decoder(latent))
        return (weights.unsqueeze(-1) * each).sum(dim=-2)


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB)
        self.rnn = nn.GRU(EMB, HID, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = MixtureOfSoftmaxes(HID, VOCAB, EXPERTS)

    def forward(self, tokens):
        h, _ = self.rnn(self.emb(tokens))
        return self.head(self.drop(h))


def loss_of(model, tokens):
    out = model(tokens[:, :-1])
    return F.nll_loss(out.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))


def perplexity(model, tokens):
    model.eval()
    with torch.no_grad():
        p = model(tokens[:, :-1]).gather(-1, tokens[:, 1:].unsqueeze(-1))
        return p.clamp_min(1e-9).log().mean().neg().exp().item()


corpus = sample_corpus(1400)
train, valid = corpus[:1152], corpus[1152:]
net = LanguageModel()
opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)

for epoch in range(EPOCHS):
    net.train()
    order = torch.randperm(len(train))
    running = 0.0
    for idx in order.split(BATCH):
        opt.zero_grad(set_to_none=True)
        loss = loss_of(net, train[idx])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        running += loss.item() * len(idx)
    print("epoch", epoch, "loss %.4f" % (running / len(train)), "valid ppl %.2f" % perplexity(net, valid))
