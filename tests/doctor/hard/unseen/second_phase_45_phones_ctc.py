# kind: in a second phase
# expect: clip-of-nothing
# why: the Trainer takes the list of parameters to clip when it is made. For CTC it is given a new recogniser with a copied
#   encoder and a new optimizer, but the list still is the frame classifier's, whose gradients are None by then.
import copy

import torch
import torch.nn as nn

torch.set_num_threads(1)

PHONES, MELS, FRAMES = 9, 20, 40


class Speech:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.shape = torch.randn(PHONES + 1, MELS, generator=torch.Generator().manual_seed(0))

    def utterance(self):
        g = self.gen
        frames, phones = [], []
        while len(frames) < FRAMES:
            ph = int(torch.randint(1, PHONES + 1, (1,), generator=g))
            if phones and ph == phones[-1]:
                continue
            hold = int(torch.randint(4, 8, (1,), generator=g))
            hold = min(hold, FRAMES - len(frames))
            frames += [ph] * hold
            phones.append(ph)
        frames = torch.tensor(frames)
        mel = self.shape[frames] + 0.9 * torch.randn(FRAMES, MELS, generator=g)
        return mel, frames, torch.tensor(phones)

    def many(self, n):
        return [self.utterance() for _ in range(n)]


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(MELS, dim), nn.LayerNorm(dim), nn.ReLU())
        self.rnn = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, mel):
        return self.rnn(self.inp(mel))[0]


class FrameClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.frame_head = nn.Linear(64, PHONES + 1)

    def forward(self, mel):
        return self.frame_head(self.encoder(mel))

    def loss(self, batch):
        mel, frames, _ = zip(*batch)
        return nn.functional.cross_entropy(self(torch.stack(mel)).flatten(0, 1), torch.stack(frames).flatten())


class Recogniser(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.ctc_head = nn.Linear(64, PHONES + 1)
        self.ctc = nn.CTCLoss(blank=0)

    def forward(self, mel):
        return self.ctc_head(self.encoder(mel)).log_softmax(-1)

    def loss(self, batch):
        mel, _, phones = zip(*batch)
        logp = self(torch.stack(mel)).transpose(0, 1)
        lengths = torch.tensor([len(p) for p in phones])
        return self.ctc(logp, torch.cat(phones), torch.full((len(batch),), FRAMES), lengths)


class Trainer:
    def __init__(self, model, lr, clip):
        self.model, self.clip = model, clip
        self.params = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.params, lr=lr)

    def continue_with(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def validate(self, valid):
        self.model.eval()
        with torch.no_grad():
            return self.model.loss(valid).item()

    def fit(self, train, valid, epochs, size=16):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for pick in torch.randperm(len(train)).split(size):
                loss = self.model.loss([train[i] for i in pick.tolist()])
                loss.backward()
                nn.utils.clip_grad_norm_(self.params, self.clip)
                self.optimizer.step()
                self.optimizer.zero_grad()
                total += loss.item() * len(pick)
            print(f"{type(self.model).__name__:16s} {epoch}  train {total / len(train):.3f}  "
                  f"valid {self.validate(valid):.3f}")


def main():
    torch.manual_seed(64)
    train, valid = Speech(1).many(800), Speech(2).many(160)
    frames = FrameClassifier()
    trainer = Trainer(frames, lr=1e-3, clip=0.5)
    trainer.fit(train, valid, epochs=2)
    trainer.continue_with(Recogniser(copy.deepcopy(frames.encoder)), lr=1e-3)
    trainer.fit(train, valid, epochs=4)


if __name__ == "__main__":
    main()
