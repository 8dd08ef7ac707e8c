import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Bigram(nn.Module):
    def __init__(self, vocab=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.out = nn.Linear(16, vocab)

    def forward(self, tokens):
        return self.out(self.embed(tokens))


def main():
    torch.manual_seed(31)
    text = torch.cumsum(torch.randint(1, 4, (400, 11)), dim=1) % 24
    loader = DataLoader(TensorDataset(text), batch_size=25, shuffle=True)
    model = Bigram()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(3):
        for (tokens,) in loader:
            logits = model(tokens[:, :-1])
            target = tokens[:, 1:]
            total = F.cross_entropy(logits.reshape(-1, 24), target.reshape(-1), reduction="sum")
            loss = total / target.numel()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
