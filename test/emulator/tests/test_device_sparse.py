"""Sparse tensors on the emulated device: COO and compressed layouts, through ATen's CPU kernels."""

import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
}


class TestSparse(TestCase):
    def dense(self):
        torch.manual_seed(61)
        return torch.randn(6, 5) * (torch.rand(6, 5) > 0.6)

    def test_coo_there_and_back(self):
        dense = self.dense()
        sparse = dense.cuda().to_sparse()
        self.assertEqual((sparse.device.type, sparse.layout), ("cuda", torch.sparse_coo))
        self.assertTrue(sparse.is_coalesced())
        self.assertEqual((sparse.indices().device.type, sparse.values().device.type), ("cuda", "cuda"))
        self.assertEqual(sparse.to_dense().cpu(), dense)
        self.assertEqual(sparse.cpu().to_dense(), dense)
        self.assertEqual(dense.to_sparse().cuda().to_dense().cpu(), dense)

    def test_made_from_indices_and_values(self):
        indices, values = torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([3.0, 4.0, 5.0])
        sparse = torch.sparse_coo_tensor(indices, values, (2, 3), device="cuda")
        self.assertFalse(sparse.is_coalesced())
        expected = torch.tensor([[0.0, 0, 3], [9, 0, 0]])
        self.assertEqual(sparse.to_dense().cpu(), expected)
        joined = sparse.coalesce()
        self.assertEqual((joined._nnz(), joined.is_coalesced()), (2, True))
        self.assertEqual(joined.to_dense().cpu(), expected)

    def test_a_change_in_place_reaches_the_device(self):
        dense = self.dense()
        sparse = dense.cuda().to_sparse()
        sparse.mul_(2)
        self.assertEqual(sparse.to_dense().cpu(), 2 * dense)
        other = torch.ones(6, 5, device="cuda").to_sparse()
        sparse.add_(other)  # more elements than before
        self.assertEqual(sparse.to_dense().cpu(), 2 * dense + 1)
        sparse.zero_()
        self.assertEqual(sparse.to_dense().cpu(), torch.zeros(6, 5))

    def test_products_and_gradients(self):
        dense, right = self.dense(), torch.randn(5, 4)
        for device in ("cpu", "cuda"):
            leaf = dense.to(device).detach().clone().requires_grad_()
            other = right.to(device).detach().clone().requires_grad_()
            product = torch.sparse.mm(leaf.to_sparse(), other)
            product.sum().backward()
            if device == "cpu":
                expected = product, leaf.grad, other.grad
        for actual, wanted in zip((product, leaf.grad, other.grad), expected, strict=True):
            self.assertEqual(actual.device.type, "cuda")
            self.assertEqual(actual.cpu().to_dense(), wanted.to_dense())

    @parametrize("layout", list(COMPRESSED))
    def test_compressed(self, layout):
        dense = self.dense()
        sparse = dense.cuda().to_sparse(layout=layout)
        self.assertEqual((sparse.device.type, sparse.layout), ("cuda", layout))
        twin = dense.to_sparse(layout=layout)
        for name in COMPRESSED[layout]:
            self.assertEqual(getattr(sparse, name)().cpu(), getattr(twin, name)())
        self.assertEqual(sparse.values().cpu(), twin.values())
        self.assertEqual(sparse.to_dense().cpu(), dense)
        self.assertEqual(sparse.cpu().to_dense(), dense)

    def test_csr_times_dense(self):
        dense, right = self.dense(), torch.randn(5, 4)
        actual = dense.cuda().to_sparse_csr() @ right.cuda()
        self.assertEqual(actual.cpu(), dense @ right)

    @parametrize("reduce", ["sum", "mean", "amax", "amin"])
    def test_reduced_products_keep_what_their_gradients_need(self, reduce):
        dense, right = self.dense(), torch.randn(5, 4)
        for device in ("cpu", "cuda"):
            leaf = dense.to(device).to_sparse_csr().detach().requires_grad_()
            other = right.to(device).detach().clone().requires_grad_()
            product = torch.sparse.mm(leaf, other, reduce)
            product.sum().backward()
            if device == "cpu":
                expected = product.detach(), leaf.grad.values(), other.grad
        for actual, wanted in zip((product.detach(), leaf.grad.values(), other.grad), expected, strict=True):
            self.assertEqual(actual.cpu(), wanted)

    def test_operands_on_two_devices(self):
        sparse = self.dense().cuda().to_sparse()
        with self.assertRaisesRegex(RuntimeError, "Expected all tensors to be on the same device"):
            torch.sparse.mm(sparse, torch.ones(5, 4))


instantiate_parametrized_tests(TestSparse)

if __name__ == "__main__":
    run_tests()
