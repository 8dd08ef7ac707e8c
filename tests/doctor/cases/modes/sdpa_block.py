import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, d, heads, dropout):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in self.qkv(x).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class GPT(nn.Module):
    def __init__(self, vocab=19, d=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(8, d)
        self.ln, self.attn = nn.LayerNorm(d), Attention(d, 2, 0.2)
        self.head = nn.Linear(d, vocab)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        logits = self.head(x + self.attn(self.ln(x)))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


torch.manual_seed(16)
stream = (torch.arange(1200) * 5 + torch.arange(1200) // 7) % 19


def batch(lo, hi):
    ix = torch.randint(lo, hi - 9, (12,))
    return torch.stack([stream[i : i + 8] for i in ix]), torch.stack([stream[i + 1 : i + 9] for i in ix])


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for it in range(48):
    model.train()
    _, loss = model(*batch(0, 1000))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 12 == 11:
        model.eval()
        with torch.no_grad():
            print(it, loss.item(), model(*batch(1000, 1200))[1].item())
