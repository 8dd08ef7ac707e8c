# kind: second_phase
# expect: nothing
# why: might be accused of lambda-absolute-lr, padding-in-loss and future-leaks; the Noam schedule returns the rate itself because the optimizer's lr is 1.0, padding has the ignored label and is masked in attention and pooling, and a masked-token encoder is meant to look both ways.
"""Masked-token pretraining with tied output weights, then topic classification."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

PAD, MASK, FIRST, VOCAB, TOPICS = 0, 1, 2, 34, 5
LONGEST, DIM, IGNORE = 16, 48, -100


def texts(n, tables, gen):
    """Markov text with one transition table per topic, cut to random lengths."""
    topic = torch.randint(0, TOPICS, (n,), generator=gen)
    token = torch.randint(0, VOCAB - FIRST, (n,), generator=gen)
    columns = [token]
    for _ in range(LONGEST - 1):
        token = torch.multinomial(tables[topic, token], 1, generator=gen).squeeze(1)
        columns.append(token)
    out = torch.stack(columns, dim=1) + FIRST
    length = torch.randint(8, LONGEST + 1, (n,), generator=gen)
    return out.masked_fill(torch.arange(LONGEST) >= length[:, None], PAD), topic


def hide(tokens, gen=None):
    """Masks 15 % of the real tokens; all other places get the ignored label."""
    chosen = (torch.rand(tokens.shape, generator=gen) < 0.15) & (tokens != PAD)
    return tokens.masked_fill(chosen, MASK), tokens.masked_fill(~chosen, IGNORE)


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.place = nn.Parameter(0.1 * torch.randn(LONGEST, DIM))
        layer = nn.TransformerEncoderLayer(DIM, 4, 96, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(DIM), enable_nested_tensor=False)
        nn.init.normal_(self.embed.weight, std=0.15)

    def forward(self, tokens):
        return self.encoder(self.embed(tokens) + self.place, src_key_padding_mask=tokens == PAD)


class MaskedModel(nn.Module):
    def __init__(self, trunk):
        super().__init__()
        self.trunk = trunk
        self.decoder = nn.Linear(DIM, VOCAB)
        self.decoder.weight = trunk.embed.weight

    def forward(self, tokens):
        return self.decoder(self.trunk(tokens))


class TopicModel(nn.Module):
    def __init__(self, trunk):
        super().__init__()
        self.trunk, self.drop, self.head = trunk, nn.Dropout(0.1), nn.Linear(DIM, TOPICS)

    def forward(self, tokens):
        real = (tokens != PAD).unsqueeze(-1).float()
        pooled = (self.trunk(tokens) * real).sum(1) / real.sum(1)
        return self.head(self.drop(pooled))


def noam(step, warmup=80, scale=0.2):
    step += 1
    return scale * DIM ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def masked_loss(model, tokens, labels, reduction="mean"):
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction=reduction)


def pretrain(model, corpus, held_out, gen, epochs=6):
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = LambdaLR(optimizer, noam)
    loader = DataLoader(TensorDataset(corpus), batch_size=64, shuffle=True)
    held_tokens, held_labels = hide(held_out, gen)
    for epoch in range(epochs):
        model.train()
        for (tokens,) in loader:
            optimizer.zero_grad()
            masked_loss(model, *hide(tokens)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            loss = masked_loss(model, held_tokens, held_labels).item()
        print(f"masked epoch {epoch} held-out loss {loss:.4f} lr {schedule.get_last_lr()[0]:.2e}")


def finetune(model, data, valid, epochs=10):
    groups = [{"params": model.head.parameters(), "lr": 3e-3}]
    for depth, part in enumerate(reversed(model.trunk.encoder.layers)):
        groups.append({"params": part.parameters(), "lr": 5e-4 * 0.6 ** depth})
    low = [model.trunk.embed.weight, model.trunk.place, *model.trunk.encoder.norm.parameters()]
    groups.append({"params": low, "lr": 2e-4})
    optimizer = torch.optim.AdamW(groups, weight_decay=1e-3)
    loader = DataLoader(TensorDataset(*data), batch_size=32, shuffle=True)
    total = epochs * len(loader)
    schedule = LambdaLR(optimizer, lambda step: max(0.0, 1 - step / total))
    for epoch in range(epochs):
        model.train()
        for tokens, topic in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(tokens), topic).backward()
            optimizer.step()
            schedule.step()
        if epoch % 3 == 0:
            print(f"topics epoch {epoch} valid accuracy {accuracy(model, *valid):.3f}")


@torch.no_grad()
def accuracy(model, tokens, topic):
    model.eval()
    return (model(tokens).argmax(1) == topic).float().mean().item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(29)
    gen = torch.Generator().manual_seed(29)
    shared = 1.5 * torch.randn(TOPICS, 1, VOCAB - FIRST, generator=gen)
    tables = torch.softmax(2.0 * torch.randn(VOCAB - FIRST, VOCAB - FIRST, generator=gen) + shared, dim=-1)
    corpus, topics = texts(2200, tables, gen)
    valid, test = texts(500, tables, gen), texts(800, tables, gen)
    trunk = Trunk()
    pretrain(MaskedModel(trunk), corpus, valid[0], gen)
    classifier = TopicModel(trunk)
    finetune(classifier, (corpus[:600], topics[:600]), valid)
    print(f"test accuracy {accuracy(classifier, *test):.3f}")
