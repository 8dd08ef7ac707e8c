import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed(1)


def random_sentence():
    length = int(torch.randint(5, 10, (1,)))
    words = torch.randint(0, 12, (length,))
    previous = torch.cat([torch.zeros(1, dtype=torch.long), words[:-1]])
    return words, ((words + previous) % 3)


training_data = [random_sentence() for _ in range(20)]


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocab_size, tagset_size):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim)
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence)
        lstm_out, _ = self.lstm(embeds.view(len(sentence), 1, -1))
        return F.log_softmax(self.hidden2tag(lstm_out.view(len(sentence), -1)), dim=1)


model = LSTMTagger(8, 12, 12, 3)
loss_function = nn.NLLLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)

for _epoch in range(5):
    for i in torch.randperm(len(training_data)).tolist():
        sentence, tags = training_data[i]
        model.zero_grad()
        tag_scores = model(sentence)
        loss = loss_function(tag_scores, tags)
        loss.backward()
        optimizer.step()

model.eval()
with torch.no_grad():
    print(model(training_data[0][0]).argmax(1))
