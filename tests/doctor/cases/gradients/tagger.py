"""Tag every token of a made-up sentence."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, vocab=30, tags=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.mix = nn.Conv1d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, tags)

    def forward(self, tokens):
        h = self.embed(tokens).transpose(1, 2)
        return self.head(torch.relu(self.mix(h)).transpose(1, 2))


class Trainer:
    def __init__(self, model, max_grad=0.5):
        self.model = model
        self.max_grad = max_grad
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)

    def train_step(self, tokens, tags):
        self.optimizer.zero_grad()
        logits = self.model(tokens)
        loss = self.criterion(logits.flatten(0, 1), tags.flatten())
        loss.backward()
        self.optimizer.step()
        nn.utils.clip_grad_value_(self.model.parameters(), self.max_grad)
        return loss.item()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            losses = [self.train_step(*batch) for batch in loader]
            self.scheduler.step()
            print(epoch, sum(losses) / len(losses))


if __name__ == "__main__":
    torch.manual_seed(5)
    tokens = torch.randint(0, 30, (96, 10))
    tags = tokens % 4
    Trainer(Tagger()).fit(DataLoader(TensorDataset(tokens, tags), batch_size=12, shuffle=True), epochs=5)
