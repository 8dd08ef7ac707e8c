"""Who takes part: the name on the command line, the name in the table, the package whose version is shown."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contestant:
    """A file of this folder that has `prepare(job)`, which gives the function that trains."""

    label: str
    package: str
    module: str
    library: bool = True  # not a loop written by hand


CONTESTANTS = {
    "plain": Contestant("plain loop, DataLoader", "torch", "plain", library=False),
    "hand": Contestant("best loop by hand", "torch", "hand", library=False),
    "instep": Contestant("**Instep**", "instep", "instep"),
    "instep-defaults": Contestant("**Instep**, defaults", "instep", "instep_defaults"),
    "lightning": Contestant("Lightning Trainer", "lightning", "lightning"),
    "fabric": Contestant("Lightning Fabric", "lightning", "fabric"),
    "accelerate": Contestant("Accelerate", "accelerate", "accelerate"),
    "transformers": Contestant("transformers Trainer", "transformers", "transformers"),
    "ignite": Contestant("Ignite", "pytorch-ignite", "ignite"),
    "skorch": Contestant("skorch", "skorch", "skorch"),
    "keras": Contestant("Keras on torch", "keras", "keras"),
    "poutyne": Contestant("Poutyne", "poutyne", "poutyne"),
    "pytorch-accelerated": Contestant("pytorch-accelerated", "pytorch-accelerated", "pytorch_accelerated"),
}
