# kind: in a second phase
# expect: frozen-batchnorm-moves
# why: in phase 2 the backbone is frozen by requires_grad=False only; model.train() at the top of every epoch keeps its BatchNorm running statistics moving towards the shifted new domain, so the frozen backbone changes and the kept source head gets worse.
"""Pretrain a small encoder on a source task, then add a second head for a new domain on top of the frozen encoder."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(11)

DIM, HID = 20, 48
W_SRC = torch.randn(DIM, 4)
W_NEW = torch.randn(DIM, 3)


def source_domain(n):
    x = torch.randn(n, DIM)
    return x, (x @ W_SRC).argmax(1)


def new_domain(n):
    z = torch.randn(n, DIM)
    return 1.7 * z + 1.2, (z @ W_NEW).argmax(1)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(DIM, HID), nn.BatchNorm1d(HID), nn.ReLU(),
            nn.Linear(HID, HID), nn.BatchNorm1d(HID), nn.ReLU(),
        )
        self.heads = nn.ModuleDict({"source": nn.Linear(HID, 4)})

    def forward(self, x, head):
        return self.heads[head](self.encoder(x))

    def freeze_encoder(self):
        for p in self.encoder.parameters():
            p.requires_grad_(False)
        for p in self.heads["source"].parameters():
            p.requires_grad_(False)


def fit(model, data, head, epochs, lr):
    loader = DataLoader(TensorDataset(*data), batch_size=64, shuffle=True, drop_last=True)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=lr)
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x, head), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.item()
        if (epoch + 1) % 4 == 0:
            print(f"[{head}] epoch {epoch + 1:2d} loss {running / len(loader):.3f}")


@torch.no_grad()
def accuracy(model, data, head):
    model.eval()
    x, y = data
    return (model(x, head).argmax(1) == y).float().mean().item()


def main():
    model = TwoHeads()
    src_test, new_test = source_domain(1000), new_domain(1000)

    fit(model, source_domain(2048), "source", epochs=8, lr=3e-3)
    print(f"source accuracy after pretraining  {accuracy(model, src_test, 'source'):.3f}")

    model.freeze_encoder()
    model.heads["new"] = nn.Linear(HID, 3)
    fit(model, new_domain(1536), "new", epochs=8, lr=5e-3)
    print(f"new accuracy                       {accuracy(model, new_test, 'new'):.3f}")
    print(f"source accuracy, both heads served {accuracy(model, src_test, 'source'):.3f}")


if __name__ == "__main__":
    main()
