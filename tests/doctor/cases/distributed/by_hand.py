import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn


def sync(module):
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, src=0)


def run(rank, size, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    torch.manual_seed(10 + rank)
    model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))
    sync(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(36):
        data = torch.randn(16, 5)
        optimizer.zero_grad()
        loss = F.mse_loss(model(data), data.sum(1, keepdim=True))
        loss.backward()
        for param in model.parameters():
            dist.all_reduce(param.grad)
            param.grad.div_(size)
        optimizer.step()
        if rank == 0 and step % 12 == 0:
            print(step, loss.item())
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    mp.start_processes(run, args=(2, free_port()), nprocs=2, start_method="fork")
