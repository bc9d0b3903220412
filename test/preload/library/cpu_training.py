"""Trains a small network on the processor: forked workers of a DataLoader make batches, autograd computes gradients,
and PyTorch starts processes. Prints the weights' digest."""
import hashlib
import os

import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        point = torch.linspace(0, 1, 16) * (index % 17)
        return point, point.sin().sum(), os.getpid()


def squared(number):
    return int((torch.tensor(float(number)) ** 2).item())


def main():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    workers = set()
    for points, sums, processes in DataLoader(Points(), batch_size=32, num_workers=2):
        workers.update(processes.tolist())
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(points).squeeze(1), sums).backward()
        optimizer.step()
    assert not torch.cuda.is_available()
    with torch.multiprocessing.get_context("spawn").Pool(2) as pool:
        children = pool.map(squared, (2, 3))
    weights = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()
    preloaded = "libtally_preload" in open("/proc/self/maps").read()
    print(f"weights {weights}, {len(workers - {os.getpid()})} workers, children {children}, preloaded {preloaded}")


if __name__ == "__main__":
    main()
