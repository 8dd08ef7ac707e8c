"""Stopping: all processes stop after the same update. A signal to one of them travels with the counts of the next update."""

import signal
from types import FrameType

import torch
from torch import Tensor

from instep.distributed.interrupt import SIGNALS, Interrupt


class Stopping:
    """What is asked of one process, and what all of them have heard."""

    def __init__(self) -> None:
        self._interrupt: AgreedInterrupt | None = None

    def interrupt(self) -> "AgreedInterrupt":
        """Notes signals to this process; its `signal` is what all processes know of."""
        self._interrupt = AgreedInterrupt()
        return self._interrupt

    def told(self, lacking: bool) -> Tensor:
        """Whether a gradient is lacking here, and each signal."""
        asked = None if self._interrupt is None else self._interrupt.noted
        return torch.tensor([float(lacking), *(float(asked == number) for number in SIGNALS)], dtype=torch.float64)

    def take(self, told: list[float]) -> bool:
        """Whether some process lacks a gradient; notes the signals that some process has heard."""
        lacking, *signals = told
        self._agree(signals)
        return bool(lacking)

    def _agree(self, signals: list[float]) -> None:
        heard = [number for number, count in zip(SIGNALS, signals, strict=True) if count]
        if heard and self._interrupt is not None:
            self._interrupt.signal = signal.SIGTERM if signal.SIGTERM in heard else heard[0]


class AgreedInterrupt(Interrupt):
    """`noted` is what asked this process to stop; `signal` what all of them stop for."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: int | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted is not None:
            raise KeyboardInterrupt
        self.noted = number
