#include "graph.h"

#include <ATen/core/GraphImplInterface.h>

#include "capture.h"
#include "device_memory.h"
#include "streams.h"

namespace gfx950::torch_device {
namespace {

void check(hipError_t code) {
  if (code != hipSuccess) raise_hip_error(code, gfx950_last_error());
}

}  // namespace

Graph::~Graph() {
  try {
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("a graph could not be reset: ", error.what());
  }
}

void Graph::begin_capture(PoolId pool, hipStreamCaptureMode mode) {
  TORCH_CHECK(!captured_ && !capturing_,
              "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
  device_ = current_device();
  stream_ = reinterpret_cast<hipStream_t>(current_stream(device_).id());
  TORCH_CHECK(
      stream_ != nullptr,
      "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on "
      "the default stream.)");
  pool_ = pool == PoolId{0, 0} ? new_pool_id(false) : pool;
  check(hipStreamBeginCapture(stream_, mode));
  unsigned long long id = 0;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  check(hipStreamGetCaptureInfo(stream_, &status, &id));
  capture_ = id;
  for (const at::Generator& generator : generators_) allow_generator(capture_, generator);
  begin_pool(device_, pool_, {PoolRoute::By::capture, capture_});
  holds_pool_ = capturing_ = true;
}

size_t Graph::end_capture() {
  TORCH_CHECK(capturing_, "CUDAGraph::capture_end was called without capture_begin.");
  const int64_t now = current_stream(device_).id();
  TORCH_CHECK(now == reinterpret_cast<int64_t>(stream_), "Capture must end on the same stream it began on.");
  capturing_ = false;
  const hipError_t code = hipStreamEndCapture(stream_, &graph_);
  end_pool(device_, pool_);
  forget_generators(capture_);
  put_back_saved(capture_);
  check(code);
  TORCH_CHECK(graph_ != nullptr, "Invalid capture.");
  captured_ = true;
  size_t nodes = 0;
  check(hipGraphGetNodes(graph_, nullptr, &nodes));
  if (!keep_graph_) {
    instantiate();
    if (!debug_) destroy_graph();
  }
  return nodes;
}

void Graph::instantiate() {
  TORCH_CHECK(captured_, "capture_end() must have been called before calling instantiate");
  TORCH_CHECK(graph_ != nullptr, "instantiate() is intended to be called by the user only when keep_graph=true");
  if (executable_) check(hipGraphExecDestroy(executable_));
  executable_ = nullptr;
  check(hipGraphInstantiateWithFlags(&executable_, graph_, 0));
}

void Graph::replay() {
  TORCH_CHECK(captured_, "Called CUDAGraph::replay without a preceding successful capture.");
  if (!executable_) instantiate();
  replay_executable(executable_, device_);
}

void Graph::reset() {
  if (capturing_) {  // an exception left it open
    capturing_ = false;
    if (hipStreamEndCapture(stream_, &graph_) != hipSuccess) graph_ = nullptr;
    end_pool(device_, pool_);
    forget_generators(capture_);
    put_back_saved(capture_);
  }
  if (holds_pool_) {
    holds_pool_ = false;
    release_pool(device_, pool_);
  }
  destroy_graph();
  if (executable_) check(hipGraphExecDestroy(std::exchange(executable_, nullptr)));
  captured_ = false;
}

void Graph::destroy_graph() {
  if (graph_) check(hipGraphDestroy(std::exchange(graph_, nullptr)));
}

PoolId Graph::pool() const {
  TORCH_CHECK(captured_, "Called CUDAGraph::pool() without a preceding successful capture.");
  return pool_;
}

void Graph::register_generator(const at::Generator& generator) { generators_.push_back(generator); }

void Graph::debug_dump(const char* path) {
  TORCH_CHECK(debug_ || keep_graph_,
              "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode() before capture_begin()");
  TORCH_CHECK(graph_ != nullptr, "CUDAGraph::debug_dump was called without a preceding successful capture.");
  check(hipGraphDebugDotPrint(graph_, path, 0));
  if (!keep_graph_) destroy_graph();
}

hipGraph_t Graph::raw_graph() const {
  TORCH_CHECK(keep_graph_,
              "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true");
  TORCH_CHECK(captured_, "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
  return graph_;
}

hipGraphExec_t Graph::raw_executable() const {
  TORCH_CHECK(executable_, "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called");
  return executable_;
}

namespace {

// torch.accelerator.Graph.
struct AcceleratorGraph final : public at::GraphImplInterface {
  explicit AcceleratorGraph(const at::GraphImplArgs& arguments) : graph(arguments.keep_graph) {}
  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override {
    hipStreamCaptureMode chosen = hipStreamCaptureModeGlobal;
    if (mode == at::GraphCaptureMode::ThreadLocal) chosen = hipStreamCaptureModeThreadLocal;
    if (mode == at::GraphCaptureMode::Relaxed) chosen = hipStreamCaptureModeRelaxed;
    graph.begin_capture(pool, chosen);
  }
  void capture_end() override { graph.end_capture(); }
  void instantiate() override { graph.instantiate(); }
  void replay() override { graph.replay(); }
  void reset() override { graph.reset(); }
  at::MempoolId_t pool() const override { return graph.pool(); }
  void enable_debug_mode() override { graph.enable_debug(); }
  void debug_dump(const std::string& path) override { graph.debug_dump(path.c_str()); }
  Graph graph;
};

}  // namespace
}  // namespace gfx950::torch_device

namespace at {

using EmulatedGraph = gfx950::torch_device::AcceleratorGraph;
REGISTER_GRAPH_IMPL(CUDA, EmulatedGraph)

}  // namespace at
