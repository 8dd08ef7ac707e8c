"""The run that is rehearsed in these tests: the Trainer itself."""

from instep.trainer import Trainer

RehearsedTrainer = Trainer
