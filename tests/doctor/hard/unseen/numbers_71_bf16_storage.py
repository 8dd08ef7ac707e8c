# kind: numbers
# expect: update-below-precision
# why: the matrices are stored in bfloat16 (computed in float32) and AdamW updates them in place with lr 1e-4; most updates are below half a unit in the last place of the weights and are rounded away, so only small weights and the float32 norms and biases learn.
"""Small transformer that names the dominant word group, with weights stored in half the memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(27)

TOKENS, LENGTH, CLASSES = 32, 12, 8


class Packed(nn.Module):
    """Linear layer whose matrix is kept in bfloat16; arithmetic is float32."""

    def __init__(self, i, o):
        super().__init__()
        w = torch.empty(o, i)
        nn.init.xavier_uniform_(w)
        self.weight = nn.Parameter(w.to(torch.bfloat16))
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x):
        return F.linear(x, self.weight.float(), self.bias)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = Packed(dim, 3 * dim), Packed(dim, dim)
        self.up, self.down = Packed(dim, 2 * dim), Packed(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(mixed)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Reader(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Parameter((torch.randn(TOKENS, dim)).to(torch.bfloat16))
        self.place = nn.Parameter((torch.randn(LENGTH, dim)).to(torch.bfloat16))
        self.blocks = nn.Sequential(Block(dim, 4), Block(dim, 4))
        self.norm, self.out = nn.LayerNorm(dim), Packed(dim, CLASSES)

    def forward(self, ids):
        x = F.embedding(ids, self.embed).float() + self.place.float()
        return self.out(self.norm(self.blocks(x)).mean(1))


def batch(n, gen):
    ids = torch.randint(0, TOKENS, (n, LENGTH), generator=gen)
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    own = torch.rand(n, LENGTH, generator=gen) < 0.35
    group = TOKENS // CLASSES
    return torch.where(own, y[:, None] * group + ids % group, ids), y


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    hit = (model(data[0]).argmax(1) == data[1]).float().mean().item()
    model.train()
    return hit


def main():
    gen = torch.Generator().manual_seed(1)
    val = batch(1000, torch.Generator().manual_seed(2))
    model = Reader()
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                             {"params": plain, "weight_decay": 0.0}], lr=1e-4)
    for step in range(1, 451):
        ids, y = batch(48, gen)
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 90 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}  val acc {accuracy(model, val):.3f}")


if __name__ == "__main__":
    main()
