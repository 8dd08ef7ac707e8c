"""Who takes part: the name on the command line and in the table, the package whose version is shown, and what it cannot do."""

from dataclasses import dataclass, field

from benchmarks.peer.work import Work


@dataclass(frozen=True)
class Contestant:
    """A file of this folder that has `prepare(job)`, which gives the function that trains."""

    label: str
    package: str
    module: str
    library: bool = True  # not a loop written by hand
    cannot: dict[str, str] = field(default_factory=dict)  # a work or a kind of work, and the reason

    def reason_against(self, name: str, work: Work) -> str | None:
        """Why it does not do this work; None where it does."""
        return self.cannot.get(name) or self.cannot.get(work.kind)


EPOCHS = {"resume": "resumes at the start of an epoch", "checkpoint": "saves at the end of an epoch"}
SAME_WEIGHT = {"tokens": "gives each micro-batch the same weight, however many tokens it has"}

CONTESTANTS = {
    "plain": Contestant("plain loop, DataLoader", "torch", "plain", library=False),
    "hand": Contestant(
        *("best loop by hand", "torch", "hand"),
        library=False,
        cannot={"workers": "as the plain loop: the DataLoader's workers"},
    ),
    "instep": Contestant("**Instep**", "instep", "instep"),
    "instep-defaults": Contestant(
        *("**Instep**, defaults", "instep", "instep_defaults"), cannot={"resume": "as Instep", "checkpoint": "as Instep"}
    ),
    "lightning": Contestant(
        *("Lightning Trainer", "lightning", "lightning"),
        cannot={"resume": "starts the epoch's data again, and warns, unless the loader itself can resume"},
    ),
    "fabric": Contestant(
        *("Lightning Fabric", "lightning", "fabric"), cannot={"resume": "leaves the position in the data to the loop"}
    ),
    "accelerate": Contestant("Accelerate", "accelerate", "accelerate"),
    "transformers": Contestant("transformers Trainer", "transformers", "transformers"),
    "ignite": Contestant(
        *("Ignite", "pytorch-ignite", "ignite"),
        cannot={"resume": "loads and leaves out every batch before the position"},
    ),
    "skorch": Contestant(
        *("skorch", "skorch", "skorch"),
        cannot={**EPOCHS, "processes": "has no processes of its own; Accelerate can give it some"},
    ),
    "keras": Contestant(
        *("Keras on torch", "keras", "keras"),
        cannot={
            **SAME_WEIGHT,
            "resume": EPOCHS["resume"],
            "processes": "`fit()` has none on torch; one writes a loop under DistributedDataParallel",
        },
    ),
    "poutyne": Contestant(
        *("Poutyne", "poutyne", "poutyne"),
        cannot={
            **EPOCHS,
            "tokens": "weighs micro-batches by samples, not by tokens",
            "processes": "has none; only several devices in one process",
        },
    ),
    "pytorch-accelerated": Contestant(
        *("pytorch-accelerated", "pytorch-accelerated", "pytorch_accelerated"), cannot={**EPOCHS, **SAME_WEIGHT}
    ),
}
