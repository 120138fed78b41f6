// What the files with C functions share: how an exception becomes a status and a text, or the exception's own type.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#define GFX950_EXPORT __attribute__((visibility("default")))

namespace gfx950::torch_device {

// What gfx950_torch_error() and gfx950_torch_error_kind() say on this thread.
struct LastError {
  std::string text;
  int kind =
      0;  // 0 RuntimeError, 1 AcceleratorError, 2 OutOfMemoryError, 3 IndexError, 4 ValueError, 5 NotImplementedError
  int code = 0;  // HIP's, for kind 1
};
LastError& last_error();
void keep_error();  // in a catch block

// Runs `body`, keeps its exception for gfx950_torch_error() and returns 0 or -1.
template <typename Body>
int guarded(Body body) {
  try {
    body();
    return 0;
  } catch (...) {
    keep_error();
    return -1;
  }
}

}  // namespace gfx950::torch_device
