"""Gloo on device tensors, in two processes: each collective against the same on host tensors, DDP and FSDP steps."""

import socket
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from device_process import run_emulated
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.common_utils import TestCase, run_tests

WORLD = 2


def collectives(rank, device):
    """Results of every collective, on the host."""

    def mine(*shape, seed=0):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(10 * seed + rank)).to(device)

    def new(count, *shape):
        return [torch.full(shape, -1.0, device=device) for _ in range(count)]

    results = {}
    results["all_reduce"] = mine(3, 4)
    dist.all_reduce(results["all_reduce"])
    results["all_reduce_max"] = mine(5).t()
    dist.all_reduce(results["all_reduce_max"], op=dist.ReduceOp.MAX)
    given = [mine(2)]
    group, total = dist.group.WORLD.boxed(), torch.classes.c10d.ReduceOp()
    returned, _ = torch.ops.c10d.allreduce_(given, group, total, None, False, -1)
    assert [part.data_ptr() for part in returned] == [part.data_ptr() for part in given]
    results["as_an_operator"] = returned
    results["broadcast"] = mine(4)
    dist.broadcast(results["broadcast"], 1)
    results["reduce"] = mine(4)
    dist.reduce(results["reduce"], 0)
    results["all_gather"] = new(WORLD, 3)
    dist.all_gather(results["all_gather"], mine(3))
    (results["all_gather_tensor"],) = new(1, WORLD * 3)
    dist.all_gather_into_tensor(results["all_gather_tensor"], mine(3))
    (results["reduce_scatter_tensor"],) = new(1, 3)
    dist.reduce_scatter_tensor(results["reduce_scatter_tensor"], mine(WORLD * 3))
    results["gather"] = new(WORLD, 2)
    dist.gather(mine(2), results["gather"] if rank == 0 else None, dst=0)
    results["scatter"] = new(1, 2)
    dist.scatter(results["scatter"][0], [mine(2, seed=1), mine(2, seed=2)] if rank == 0 else None, src=0)
    (results["all_to_all_tensor"],) = new(1, 4)
    dist.all_to_all_single(results["all_to_all_tensor"], mine(4))
    (results["received"],) = new(1, 3)
    if rank == 0:
        dist.send(mine(3), 1)
    else:
        dist.recv(results["received"], 0)
    work = dist.all_reduce(later := mine(2), async_op=True)
    work.wait()
    results["asynchronous"] = later
    dist.barrier()
    return torch.utils._pytree.tree_map(lambda tensor: tensor.cpu(), results)


def trained(device):
    torch.manual_seed(3)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 6, generator=generator).to(device)).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def sharded(device):
    """A step with parameters that lie in parts on all processes, of a model and of a DTensor."""
    mesh = init_device_mesh(device, (WORLD,))
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    generator = torch.Generator().manual_seed(dist.get_rank())
    model(torch.randn(4, 6, generator=generator).to(device)).square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    weights = [parameter.full_tensor().detach().cpu() for parameter in model.parameters()]
    x = distribute_tensor(torch.arange(16.0).reshape(4, 4).to(device), mesh, [Shard(0)])
    return [*weights, (x @ x.t()).full_tensor().cpu()]


def worker(rank, port, folder):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    results = {device: (collectives(rank, device), trained(device), sharded(device)) for device in ("cpu", "cuda")}
    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def main(port, folder):
    mp.spawn(worker, (port, folder), nprocs=WORLD)


class TestCollectives(TestCase):
    def test_two_processes(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            code = f"import test_device_collectives as t; t.main({port}, {folder!r})"
            done = run_emulated(code, env={"PYTHONPATH": str(Path(__file__).parent)})
            self.assertEqual(done.returncode, 0, done.stderr)
            for rank in range(WORLD):
                results = torch.load(Path(folder) / f"{rank}.pt")
                self.assertEqual(results["cuda"], results["cpu"])


if __name__ == "__main__":
    run_tests()
