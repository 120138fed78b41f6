// torch.cuda.CUDAGraph: one capture, its pool and its executable graph.
#pragma once

#include <ATen/core/Generator.h>

#include <vector>

#include "gfx950_hip.h"
#include "hip_functions.h"
#include "memory_pool.h"

namespace gfx950::torch_device {

class Graph {
 public:
  explicit Graph(bool keep_graph) : keep_graph_(keep_graph) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // On the current stream. A pool of {0, 0} asks for one of the graph's own.
  void begin_capture(PoolId pool, hipStreamCaptureMode mode);
  // The number of nodes.
  size_t end_capture();
  void instantiate();
  void replay();
  void reset();
  PoolId pool() const;
  void register_generator(const at::Generator& generator);
  void enable_debug() { debug_ = true; }
  void debug_dump(const char* path);
  hipGraph_t raw_graph() const;
  hipGraphExec_t raw_executable() const;

 private:
  void destroy_graph();

  const bool keep_graph_;
  bool debug_ = false, capturing_ = false, captured_ = false;
  c10::DeviceIndex device_ = -1;
  hipStream_t stream_ = nullptr;
  uint64_t capture_ = 0;
  PoolId pool_{0, 0};
  bool holds_pool_ = false;
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t executable_ = nullptr;
  std::vector<at::Generator> generators_;
};

}  // namespace gfx950::torch_device
