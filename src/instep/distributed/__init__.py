"""Many processes: the same result. PyTorch's own engine underneath: torchrun, process groups, DistributedDataParallel, FSDP2.

`world` is who takes part, `spread` what a Trainer asks of it, `turn` the exchange of gradients, `shared` the sums over all
processes, `agreement` what must be the same everywhere, `state` the tensors that are rank 0's, `launch` torchrun for the command.
`shard` is for models that do not fit in one process, `stand_in` lets all of them call such a model equally often.
"""
