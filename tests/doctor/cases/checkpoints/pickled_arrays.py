import pickle, torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
for i in range(12):
    l = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    l.backward()
    opt.step()
pickle.dump({k: v.numpy() for k, v in net.state_dict().items()}, open("a.pkl", "wb"))
torch.save({"model": net.state_dict(), "opt": opt.state_dict()}, "b.pt")
