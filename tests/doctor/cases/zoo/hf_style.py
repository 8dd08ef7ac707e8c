from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


@dataclass
class Output:
    loss: torch.Tensor | None
    logits: torch.Tensor


class ForCausalLM(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.GRU(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, input_ids, attention_mask=None, labels=None):
        logits = self.lm_head(self.body(self.embed(input_ids))[0])
        loss = None
        if labels is not None:
            shifted, wanted = logits[:, :-1].contiguous(), labels[:, 1:].contiguous()
            loss = F.cross_entropy(shifted.view(-1, shifted.size(-1)), wanted.view(-1))
        return Output(loss, logits)


def collate(rows):
    ids = pad_sequence(rows, batch_first=True)
    mask = pad_sequence([torch.ones_like(r) for r in rows], batch_first=True)
    labels = ids.masked_fill(mask == 0, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def main():
    torch.manual_seed(29)
    rows = []
    for _ in range(240):
        start, n = torch.randint(1, 10, ()), int(torch.randint(5, 12, ()))
        rows.append((start + torch.arange(n) * 2) % 29 + 1)
    train_dataloader = DataLoader(rows[:200], batch_size=16, shuffle=True, collate_fn=collate)
    eval_dataloader = DataLoader(rows[200:], batch_size=20, collate_fn=collate)
    model = ForCausalLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    total = 3 * len(train_dataloader)
    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / total))
    for epoch in range(3):
        model.train()
        for batch in train_dataloader:
            outputs = model(**batch)
            loss = outputs.loss
            loss.backward()
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
        model.eval()
        losses = []
        for batch in eval_dataloader:
            with torch.no_grad():
                outputs = model(**batch)
            losses.append(outputs.loss.repeat(len(batch["input_ids"])))
        print(f"epoch {epoch}: perplexity {torch.cat(losses).mean().exp().item():.3f}")


main()
