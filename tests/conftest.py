import torch

torch.set_num_threads(1)  # the models are tiny: a second thread only waits for the first
