# a second list of events for the same loop clips after the step
import torch
from torch import nn

torch.manual_seed(2)
net, head = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 1)
parameters = [*net.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=3e-3)


def clip():
    nn.utils.clip_grad_norm_(parameters, 0.5)


def run(events, count, length):
    for _ in range(count):
        x = torch.randn(16, length, 4)
        error = head(net(x)[0][:, -1]).squeeze(1) - x.sum((1, 2)) / length**0.5
        optimizer.zero_grad()
        error.pow(2).mean().backward()
        for event in events:
            event()


run([clip, optimizer.step], 60, 6)
run([optimizer.step, clip], 40, 12)
