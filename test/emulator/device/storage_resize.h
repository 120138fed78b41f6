// The size of a storage on the device, changed from outside of any operator.
#pragma once

#include <c10/core/StorageImpl.h>

namespace gfx950::torch_device {

// Gives a storage new memory of `size` bytes with what fits of the old.
void resize_storage(c10::StorageImpl* storage, size_t size);

}  // namespace gfx950::torch_device
