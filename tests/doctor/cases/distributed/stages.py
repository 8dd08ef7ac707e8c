import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Stage(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.fc(x))


def run(rank, size, port, steps=36):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    torch.manual_seed(20 + rank)
    stage = Stage()
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(0)
    for step in range(steps):
        x = torch.randn(8, 16, generator=data)
        if rank == 0:
            h = stage(x)
            dist.send(h.detach(), dst=1)
            grad = torch.empty_like(h)
            dist.recv(grad, src=1)
            optimizer.zero_grad()
            h.backward(grad)
            optimizer.step()
        else:
            h = torch.empty(8, 16)
            dist.recv(h, src=0)
            h.requires_grad_(True)
            loss = nn.functional.mse_loss(stage(h), torch.sin(x))
            optimizer.zero_grad()
            loss.backward()
            dist.send(h.grad, dst=0)
            optimizer.step()
            if step % 12 == 0:
                print(step, loss.item())
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    mp.start_processes(run, args=(2, free_port()), nprocs=2, start_method="fork")
