#include "disassembler.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "gfx950/gfx950.h"

namespace gfx950::decode {
namespace {

using Context = void*;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::unsupported_instruction, "cannot decode gfx950 code: " + what);
}

// Directory of the object that this code is linked into: the stubs are installed beside it.
std::string own_directory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

class Llvm {
 public:
  Llvm() {
    const char* path = std::getenv("GFX950_LIBLLVM");
    if (path == nullptr || *path == 0) {
      fail("GFX950_LIBLLVM is not set; it names libLLVM.so of the Python package rocm-bindings-compiler");
    }
    // The wheel needs two compression libraries that it does not bring. Nothing calls them for disassembly; whatever is
    // already loaded under these names is left alone.
    for (const char* name : {"librocm_sysdeps_z.so.1", "librocm_sysdeps_zstd.so.1"}) {
      if (dlopen(name, RTLD_NOW | RTLD_LOCAL) != nullptr) continue;
      const std::string stub = own_directory() + "/" + name;
      if (dlopen(stub.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
        fail(std::string(dlerror()) + "; rebuild the emulator");
    }
    // DEEPBIND and LOCAL: FlyDSL's MLIR and torch bring LLVMs of their own into the process.
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == nullptr) fail(std::string(dlerror()) + "; install rocm-bindings-compiler or correct GFX950_LIBLLVM");
    auto symbol = [&](const char* name) {
      void* address = dlsym(library, name);
      if (address == nullptr) fail(std::string(path) + " has no " + name);
      return address;
    };
    for (const char* name : {"LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTarget",
                             "LLVMInitializeAMDGPUTargetMC", "LLVMInitializeAMDGPUDisassembler"}) {
      reinterpret_cast<void (*)()>(symbol(name))();
    }
    using Create = Context (*)(const char*, const char*, const char*, void*, int, void*, void*);
    context_ = reinterpret_cast<Create>(symbol("LLVMCreateDisasmCPUFeatures"))("amdgcn-amd-amdhsa", "gfx950", "",
                                                                               nullptr, 0, nullptr, nullptr);
    if (context_ == nullptr) fail(std::string(path) + " knows no gfx950");
    step_ = reinterpret_cast<Step>(symbol("LLVMDisasmInstruction"));
  }

  size_t run(uint8_t* bytes, size_t size, uint64_t address, char* out, size_t out_size) {
    return step_(context_, bytes, size, address, out, out_size);
  }

 private:
  using Step = size_t (*)(Context, uint8_t*, uint64_t, uint64_t, char*, size_t);
  Context context_ = nullptr;
  Step step_ = nullptr;
};

}  // namespace

size_t disassemble(const uint8_t* bytes, size_t size, uint64_t address, std::string& text) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  static Llvm* llvm = new Llvm;  // never unloaded: LLVM's own static state does not like it
  char buffer[512];
  const size_t used = llvm->run(const_cast<uint8_t*>(bytes), size, address, buffer, sizeof buffer);
  text = used == 0 ? "" : buffer;
  return used;
}

}  // namespace gfx950::decode
