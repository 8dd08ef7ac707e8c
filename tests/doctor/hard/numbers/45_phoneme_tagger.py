# kind: numbers
# expect: padding-in-loss
# why: the hand-written likelihood divides by the true number of frames but sums over all positions of the
#   padded batch, so the padding label is trained along with the others.
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

torch.set_num_threads(1)

PHONEMES = ["<pad>", "sil", "a", "e", "i", "s", "t", "m", "n"]
PAD = 0


def speak(n, dim, seed, table):
    g = torch.Generator().manual_seed(seed)
    utterances = []
    for _ in range(n):
        frames = []
        for _ in range(int(torch.randint(3, 9, (1,), generator=g))):
            ph = int(torch.randint(1, len(PHONEMES), (1,), generator=g))
            frames += [ph] * int(torch.randint(2, 6, (1,), generator=g))
        tags = torch.tensor(frames)
        sound = table[tags] + 0.9 * torch.randn(len(tags), dim, generator=g)
        utterances.append((sound, tags))
    return utterances


def pad_batch(batch):
    sounds, tags = zip(*batch)
    lengths = torch.tensor([len(t) for t in tags])
    return (pad_sequence(sounds, batch_first=True),
            pad_sequence(tags, batch_first=True, padding_value=PAD), lengths)


class Tagger(nn.Module):
    def __init__(self, dim, hidden=48):
        super().__init__()
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.proj = nn.Linear(2 * hidden, len(PHONEMES))

    def forward(self, sound, lengths):
        packed = pack_padded_sequence(sound, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=sound.size(1))
        return self.proj(self.drop(out))


def frame_nll(logits, tags, lengths):
    log_probs = logits - logits.logsumexp(dim=2, keepdim=True)
    picked = log_probs.gather(2, tags.unsqueeze(2)).squeeze(2)
    return -picked.sum() / lengths.sum()


def frame_error(model, loader):
    model.eval()
    wrong = frames = 0
    with torch.no_grad():
        for sound, tags, lengths in loader:
            real = torch.arange(tags.size(1)) < lengths.unsqueeze(1)
            best = model(sound, lengths).argmax(2)
            wrong += ((best != tags) & real).sum().item()
            frames += int(lengths.sum())
    return wrong / frames


def main():
    torch.manual_seed(6)
    dim = 10
    table = torch.randn(len(PHONEMES), dim)
    train, valid = speak(900, dim, 61, table), speak(200, dim, 62, table)
    every = torch.cat([s for s, _ in train])
    mean, std = every.mean(0), every.std(0)
    train = [((s - mean) / std, t) for s, t in train]
    valid = [((s - mean) / std, t) for s, t in valid]
    train_loader = DataLoader(train, batch_size=25, shuffle=True, collate_fn=pad_batch)
    valid_loader = DataLoader(valid, batch_size=50, collate_fn=pad_batch)

    model = Tagger(dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(6):
        model.train()
        total = frames = 0.0
        for sound, tags, lengths in train_loader:
            loss = frame_nll(model(sound, lengths), tags, lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * lengths.sum().item()
            frames += lengths.sum().item()
        print(f"epoch {epoch}  nll {total / frames:.4f}  frame error {frame_error(model, valid_loader):.3f}")


main()
