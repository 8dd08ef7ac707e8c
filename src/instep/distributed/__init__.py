"""Many processes: the same result. It uses PyTorch's torchrun, process groups, DistributedDataParallel and FSDP2.

`world` is the processes that take part and `meeting` how they find one another, `processes` what a run asks of them, `turn` the
exchange of gradients and counts: in one message (`flat_turn`), while the backward goes on (`bucket_turn`) or in shares
(`shard_turn`), as `chosen_turn` decides. `agreement` is what must be the same everywhere, `state` the tensors of rank 0,
`interrupt` the signals, `launch` torchrun for the command. `shard` is for models that do not fit in one process, `dtensors` for
their tensors; `stand_in` lets all processes call such a model equally often.
"""
