# kind: in a second phase
# expect: nothing
# like: dead-parameter
# why: ULMFiT-style fine-tuning. The optimizer holds all groups from the start; the embedding and the LSTM are
#   frozen at first and thawed on schedule (steps 80 and 160), so for a while they rightly get no gradient.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(11)

VOCAB, LEN, CLASSES = 40, 24, 4
DOCS, HELD = 1920, 480


def make_docs():
    g = torch.Generator().manual_seed(5)
    chains = torch.softmax(2.2 * torch.randn(CLASSES, VOCAB, VOCAB, generator=g), dim=-1)
    label = torch.randint(CLASSES, (DOCS + HELD,), generator=g)
    tok = torch.randint(VOCAB, (DOCS + HELD,), generator=g)
    out = [tok]
    for _ in range(LEN - 1):
        tok = torch.multinomial(chains[label, tok], 1, generator=g).squeeze(1)
        out.append(tok)
    return torch.stack(out, 1), label


class Body(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.table = nn.Embedding(VOCAB, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)

    def forward(self, ids):
        return self.rnn(self.table(ids))[0]


class Classifier(nn.Module):
    def __init__(self, body, width=48):
        super().__init__()
        self.body = body
        self.head = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, CLASSES))

    def forward(self, ids):
        h = self.body(ids)
        return self.head(torch.cat([h.mean(1), h.amax(1)], dim=1))


def batches(n, size):
    for chunk in torch.randperm(n).split(size):
        if len(chunk) == size:
            yield chunk


docs, labels = make_docs()
tr_x, tr_y, va_x, va_y = docs[:DOCS], labels[:DOCS], docs[DOCS:], labels[DOCS:]

# ---- language model -------------------------------------------------------------------------
body = Body()
decoder = nn.Linear(48, VOCAB)
lm_opt = torch.optim.Adam([*body.parameters(), *decoder.parameters()], lr=2e-3)
for epoch in range(4):
    seen = 0.0
    for rows in batches(DOCS, 64):
        ids = tr_x[rows]
        lm_opt.zero_grad()
        logits = decoder(body(ids[:, :-1]))
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        loss.backward()
        lm_opt.step()
        seen += loss.item()
    print(f"lm epoch {epoch}  train {seen / (DOCS // 64):.3f}")

# ---- classifier, thawed from the top ----------------------------------------------------------
net = Classifier(body)
body.requires_grad_(False)
thaw_at = {80: body.rnn, 160: body.table}
opt = torch.optim.AdamW([
    {"params": net.head.parameters(), "lr": 2e-3},
    {"params": body.rnn.parameters(), "lr": 1e-3},
    {"params": body.table.parameters(), "lr": 5e-4},
], weight_decay=1e-3)


def score():
    net.eval()
    with torch.no_grad():
        logits = net(va_x)
        result = F.cross_entropy(logits, va_y).item(), (logits.argmax(1) == va_y).float().mean().item()
    net.train()
    return result


step = 0
for epoch in range(9):
    net.train()
    for rows in batches(DOCS, 64):
        if step in thaw_at:
            thaw_at[step].requires_grad_(True)
        opt.zero_grad()
        loss = F.cross_entropy(net(tr_x[rows]), tr_y[rows])
        loss.backward()
        opt.step()
        step += 1
    print("clf epoch %d  valid %.3f  acc %.3f" % (epoch, *score()))
