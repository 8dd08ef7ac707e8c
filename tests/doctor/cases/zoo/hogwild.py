import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train(rank, model, x, y):
    torch.manual_seed(100 + rank)
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for _ in range(3):
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad()
            F.nll_loss(model(xb), yb).backward()
            optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(17)
    torch.set_num_threads(1)
    x = torch.randn(512, 8)
    y = (x[:, 0] > 0).long()
    model = Net()
    model.share_memory()
    context = mp.get_context("fork")
    processes = [context.Process(target=train, args=(rank, model, x[:448], y[:448])) for rank in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    model.eval()
    with torch.no_grad():
        print((model(x[448:]).argmax(1) == y[448:]).float().mean().item())
