// torch.ops.gfx950_emulator.finished_work: what a collective of the device returns, which is complete as it returns.
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace gfx950::torch_device {
namespace {

class FinishedWork final : public c10d::Work {
 public:
  explicit FinishedWork(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(tensors_));
    return future;
  }

 private:
  std::vector<at::Tensor> tensors_;
};

c10::intrusive_ptr<c10d::Work> finished_work(std::vector<at::Tensor> tensors) {
  return c10::make_intrusive<FinishedWork>(std::move(tensors));
}

TORCH_LIBRARY_FRAGMENT(gfx950_emulator, m) {
  m.def("finished_work(Tensor[] tensors) -> __torch__.torch.classes.c10d.Work", TORCH_FN(finished_work));
}

}  // namespace
}  // namespace gfx950::torch_device
