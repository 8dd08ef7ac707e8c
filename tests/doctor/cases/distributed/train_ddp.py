import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Waves(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(4)
        self.x = torch.rand(n, 1, generator=g) * 6 - 3
        self.y = torch.sin(self.x)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def ddp_setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group(backend="gloo", rank=rank, world_size=world_size)


class Trainer:
    def __init__(self, model, loader, optimizer, rank):
        self.model = DDP(model)
        self.loader = loader
        self.optimizer = optimizer
        self.rank = rank

    def run_epoch(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def train(self, epochs):
        for epoch in range(epochs):
            loss = self.run_epoch()
            if self.rank == 0:
                print(f"epoch {epoch}: {loss:.4f}")


def worker(rank, world_size, port):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    ddp_setup(rank, world_size, port)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = Waves(256)
    loader = DataLoader(data, batch_size=16, shuffle=False, sampler=DistributedSampler(data))
    Trainer(model, loader, optimizer, rank).train(4)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    mp.start_processes(worker, args=(2, free), nprocs=2, start_method="fork")
