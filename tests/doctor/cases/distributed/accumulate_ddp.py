import contextlib
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        return self.head(self.body(x))

    def predict(self, x):
        return self.head(self.body(x)).argmax(1)


def fit(rank, world_size, accumulate=2):
    torch.manual_seed(1)
    x = torch.randn(400, 8)
    y = (x[:, 0] * x[:, 1] > 0).long()
    train = TensorDataset(x[:320], y[:320])
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=10, sampler=sampler)
    model = DDP(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        model.train()
        for i, (xb, yb) in enumerate(loader):
            last = (i + 1) % accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.cross_entropy(model(xb), yb) / accumulate
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            accuracy = (model.module.predict(x[320:]) == y[320:]).float().mean()
        if rank == 0:
            print(epoch, accuracy.item())


def worker(rank, world_size, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    fit(rank, world_size)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    mp.start_processes(worker, args=(2, free_port()), nprocs=2, start_method="fork")
