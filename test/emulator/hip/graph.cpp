// Stream capture and graphs. A graph is a list of work in the order in which it was recorded: streams run one after
// another, so the order is a valid one, and forks and joins need no edges.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <unordered_map>
#include <vector>

#include "gfx950_hip.h"
#include "runtime.h"

struct ihipGraph {
  std::vector<gfx950::hip::GraphNode> nodes;
};

struct hipGraphExec {
  std::vector<gfx950::hip::GraphNode> nodes;
};

namespace gfx950::hip {
namespace {

LiveHandles graphs, executables;

struct Capture {
  unsigned long long id;
  hipStream_t origin;
  hipStreamCaptureMode mode;
  std::thread::id thread;
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  std::unique_ptr<ihipGraph> graph = std::make_unique<ihipGraph>();
};

struct CapturingStream {
  std::shared_ptr<Capture> capture;
  uint64_t recorded = 0;  // nodes that came through this stream
  uint64_t joined = 0;    // of these, how many another stream of the capture waits for
};

struct CapturedEvent {
  std::shared_ptr<Capture> capture;
  hipStream_t stream;
  uint64_t recorded;
};

std::mutex mutex;
std::atomic<int> underway{0};
unsigned long long next_id = 1;
std::unordered_map<hipStream_t, CapturingStream> streams;
std::unordered_map<hipEvent_t, CapturedEvent> events;

CapturingStream* find(hipStream_t stream) {
  const auto found = streams.find(stream);
  return found == streams.end() ? nullptr : &found->second;
}

hipError_t broken(const char* call) {
  return fail(hipErrorStreamCaptureInvalidated,
              std::string(call) + ": operation failed due to a previous error during capture");
}

hipError_t not_permitted(const char* call, Capture* capture) {
  capture->status = hipStreamCaptureStatusInvalidated;
  return fail(hipErrorStreamCaptureUnsupported,
              std::string("operation not permitted when stream is capturing (") + call + ")");
}

hipError_t run_nodes(const std::vector<GraphNode>& nodes) {
  for (const GraphNode& node : nodes) {
    if (hipError_t error = node.run()) return error;
    if (deferred_error() != hipSuccess) break;  // a kernel failed: what follows would work on wrong data
  }
  return hipSuccess;
}

}  // namespace

bool record(hipStream_t stream, hipError_t* code, const std::function<GraphNode()>& make_node) {
  if (underway.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard<std::mutex> lock(mutex);
  CapturingStream* capturing = find(stream);
  if (!capturing) return false;
  if (capturing->capture->status == hipStreamCaptureStatusInvalidated) {
    *code = broken("capture");
    return true;
  }
  capturing->capture->graph->nodes.push_back(make_node());
  ++capturing->recorded;
  *code = hipSuccess;
  return true;
}

hipError_t check_wait(const char* call, const hipStream_t* stream) {
  if (underway.load(std::memory_order_relaxed) == 0) return hipSuccess;
  std::lock_guard<std::mutex> lock(mutex);
  if (stream) {
    CapturingStream* capturing = find(*stream);
    return capturing ? not_permitted(call, capturing->capture.get()) : hipSuccess;
  }
  for (const auto& [_, capturing] : streams) {  // the whole device waits for streams that record, too
    Capture* capture = capturing.capture.get();
    const bool here = capture->thread == std::this_thread::get_id();
    if (capture->mode == hipStreamCaptureModeGlobal || here) return not_permitted(call, capture);
  }
  return hipSuccess;
}

bool capture_event_record(hipEvent_t event, hipStream_t stream) {
  if (underway.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard<std::mutex> lock(mutex);
  CapturingStream* capturing = find(stream);
  if (capturing) {
    events[event] = {capturing->capture, stream, capturing->recorded};
  } else {
    events.erase(event);
  }
  return capturing != nullptr;
}

hipError_t capture_event_wait(hipStream_t stream, hipEvent_t event) {
  if (underway.load(std::memory_order_relaxed) == 0) return hipSuccess;
  std::lock_guard<std::mutex> lock(mutex);
  CapturingStream* waiting = find(stream);
  const auto found = events.find(event);
  if (found == events.end()) {
    if (!waiting) return hipSuccess;
    waiting->capture->status = hipStreamCaptureStatusInvalidated;
    return fail(hipErrorStreamCaptureIsolation,
                "hipStreamWaitEvent: dependency created on uncaptured work in another "
                "stream");
  }
  const CapturedEvent& captured = found->second;
  if (waiting && waiting->capture != captured.capture) {
    waiting->capture->status = captured.capture->status = hipStreamCaptureStatusInvalidated;
    return fail(hipErrorStreamCaptureMerge,
                "hipStreamWaitEvent: operation would result in a merge of separate capture sequences");
  }
  if (!waiting) streams[stream] = {captured.capture, 0, 0};
  if (CapturingStream* recorded_on = find(captured.stream)) {
    recorded_on->joined = std::max(recorded_on->joined, captured.recorded);
  }
  return hipSuccess;
}

bool is_captured_event(hipEvent_t event) {
  if (underway.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard<std::mutex> lock(mutex);
  return events.count(event) > 0;
}

void forget_event(hipEvent_t event) {
  std::lock_guard<std::mutex> lock(mutex);
  events.erase(event);
}

}  // namespace gfx950::hip

using namespace gfx950::hip;

extern "C" {

int gfx950_captures_underway() { return underway.load(std::memory_order_relaxed); }

int gfx950_capture_host_node(void* stream, const char* name, int (*run)(void*), void (*release)(void*), void* context) {
  const std::shared_ptr<void> owner(context, release);
  hipError_t code = hipErrorInvalidValue;
  const auto make_node = [&] {
    return GraphNode{name, [owner, run] { return static_cast<hipError_t>(run(owner.get())); }};
  };
  if (!record(static_cast<hipStream_t>(stream), &code, make_node)) {
    return fail(hipErrorInvalidValue, "gfx950_capture_host_node: the stream does not capture");
  }
  return code;
}

void gfx950_hold_clock(int held) { hold_clock(held != 0); }

int gfx950_refuse_in_capture(void* stream, const char* call) {
  std::lock_guard<std::mutex> lock(mutex);
  CapturingStream* capturing = find(static_cast<hipStream_t>(stream));
  return capturing ? not_permitted(call, capturing->capture.get()) : hipSuccess;
}

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipStreamBeginCapture: not a live stream");
  if (reinterpret_cast<uintptr_t>(stream) <= 1) {
    return fail(hipErrorStreamCaptureUnsupported, "hipStreamBeginCapture: the legacy stream cannot capture");
  }
  if (mode < hipStreamCaptureModeGlobal || mode > hipStreamCaptureModeRelaxed) {
    return fail(hipErrorInvalidValue, "hipStreamBeginCapture: mode " + std::to_string(mode));
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (find(stream)) return fail(hipErrorInvalidValue, "hipStreamBeginCapture: the stream captures already");
  auto capture = std::make_shared<Capture>();
  capture->id = next_id++;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  streams[stream] = {std::move(capture), 0, 0};
  ++underway;
  return hipSuccess;
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  if (!graph) return fail(hipErrorInvalidValue, "hipStreamEndCapture: null pointer");
  *graph = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  CapturingStream* capturing = find(stream);
  if (!capturing) return fail(hipErrorInvalidValue, "hipStreamEndCapture: the stream does not capture");
  const std::shared_ptr<Capture> capture = capturing->capture;
  if (capture->origin != stream) {
    return fail(hipErrorStreamCaptureUnmatched, "hipStreamEndCapture: the capture began in another stream");
  }
  bool unjoined = false;
  for (auto it = streams.begin(); it != streams.end();) {
    const bool part = it->second.capture == capture;
    if (part && it->first != stream && it->second.joined < it->second.recorded) unjoined = true;
    it = part ? streams.erase(it) : std::next(it);
  }
  for (auto it = events.begin(); it != events.end();) {
    it = it->second.capture == capture ? events.erase(it) : std::next(it);
  }
  --underway;
  if (capture->status == hipStreamCaptureStatusInvalidated) return broken("hipStreamEndCapture");
  if (unjoined) {
    return fail(hipErrorStreamCaptureUnjoined,
                "hipStreamEndCapture: the capture was joined by a stream whose work the "
                "first stream does not wait for");
  }
  *graph = capture->graph.release();
  graphs.add(*graph);
  return hipSuccess;
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id) {
  if (!status) return fail(hipErrorInvalidValue, "hipStreamGetCaptureInfo: null pointer");
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipStreamGetCaptureInfo: not a live stream");
  std::lock_guard<std::mutex> lock(mutex);
  const CapturingStream* capturing = find(stream);
  *status = capturing ? capturing->capture->status : hipStreamCaptureStatusNone;
  if (id && capturing) *id = capturing->capture->id;
  return hipSuccess;
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return hipStreamGetCaptureInfo(stream, status, nullptr);
}

// The mode matters for calls that a capture forbids to other threads; memory and modules are not among them here.
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  if (!mode) return fail(hipErrorInvalidValue, "hipThreadExchangeStreamCaptureMode: null pointer");
  thread_local hipStreamCaptureMode of_thread = hipStreamCaptureModeGlobal;
  std::swap(*mode, of_thread);
  return hipSuccess;
}

// Nodes are named by their place in the graph; nothing here takes such a handle.
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  if (!graphs.contains(graph) || !count) return fail(hipErrorInvalidValue, "hipGraphGetNodes: not a live graph");
  if (nodes) return fail(hipErrorNotSupported, "hipGraphGetNodes: only the number of nodes is modelled");
  *count = graph->nodes.size();
  return hipSuccess;
}

hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char* path, unsigned) {
  if (!graphs.contains(graph) || !path) return fail(hipErrorInvalidValue, "hipGraphDebugDotPrint: not a live graph");
  std::FILE* file = std::fopen(path, "w");
  if (!file) return fail(hipErrorInvalidValue, std::string("hipGraphDebugDotPrint: cannot write ") + path);
  std::fprintf(file, "digraph emulated {\n");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    std::fprintf(file, "  n%zu [label=\"%s\"];\n", i, graph->nodes[i].name.c_str());
    if (i) std::fprintf(file, "  n%zu -> n%zu;\n", i - 1, i);
  }
  std::fprintf(file, "}\n");
  std::fclose(file);
  return hipSuccess;
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  if (!graphs.remove(graph)) return fail(hipErrorInvalidValue, "hipGraphDestroy: not a live graph");
  delete graph;
  return hipSuccess;
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long) {
  if (!exec || !graphs.contains(graph)) return fail(hipErrorInvalidValue, "hipGraphInstantiate: not a live graph");
  *exec = new hipGraphExec{graph->nodes};
  executables.add(*exec);
  return hipSuccess;
}

hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  return hipGraphInstantiateWithFlags(exec, graph, 0);
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  if (!executables.contains(exec)) return fail(hipErrorInvalidValue, "hipGraphLaunch: not a live executable graph");
  if (!valid_stream(stream)) return fail(hipErrorInvalidHandle, "hipGraphLaunch: not a live stream");
  hipError_t code = hipSuccess;
  const auto as_child = [&] { return GraphNode{"graph", [nodes = exec->nodes] { return run_nodes(nodes); }}; };
  if (record(stream, &code, as_child)) return code;
  return run_nodes(exec->nodes);
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  if (!executables.remove(exec)) return fail(hipErrorInvalidValue, "hipGraphExecDestroy: not live");
  delete exec;
  return hipSuccess;
}

}  // extern "C"
