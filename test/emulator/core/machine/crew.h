// Host threads that help to run workgroups. They stay between launches: most launches are shorter than a thread's
// start.
#pragma once

#include <functional>

namespace gfx950 {

// Calls work(0) on this thread and work(1) to work(helpers) on others, as far as these find the time to begin before
// work(0) has returned: `work` takes pieces of a shared job until none is left. Returns when every call has. `work`
// must not throw.
void run_with_helpers(unsigned helpers, const std::function<void(unsigned)>& work);

}  // namespace gfx950
