"""Answer selection: one document per step; the sentence that holds the answer gets the sum of the attention of its words,
a distribution over all words of that document (as Attention Sum Readers)."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 24)
        self.attend = nn.Linear(24, 1)
        self.question = nn.Embedding(6, 24)
    def forward(self, words, sentence, question):
        h = torch.tanh(self.embed(words) * self.question(question))
        weights = torch.softmax(self.attend(h).squeeze(1), dim=0)  # over the whole document
        return torch.zeros(int(sentence[-1]) + 1).index_add(0, sentence, weights)  # sums to 1

def document(g):
    lengths = torch.randint(4, 10, (int(torch.randint(4, 9, (1,), generator=g)),), generator=g)
    sentence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    topic = int(torch.randint(0, 6, (1,), generator=g))
    words = torch.randint(0, 60, (len(sentence),), generator=g)
    mine = torch.rand(len(sentence), generator=g) < 0.4
    words = torch.where(mine, words % 10 + 10 * topic, words)
    share = torch.zeros(len(lengths)).index_add(0, sentence, (words // 10 == topic).float()) / lengths
    return words, sentence, torch.tensor(topic), share.argmax()

g = torch.Generator().manual_seed(1)
docs = [document(g) for _ in range(300)]
net = Scorer()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(6):
    total = 0.0
    for words, sentence, topic, label in torch.utils.data.DataLoader(docs, batch_size=None, shuffle=True):
        opt.zero_grad()
        loss = -(net(words, sentence, topic)[label] + 1e-9).log()
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, round(total / len(docs), 5))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
