// CodeObject: an ELF file's kernels and globals, found through its metadata and symbols.
#include <cstring>
#include <unordered_map>

#include "../loader/elf.h"
#include "../loader/readable.h"
#include "kernel.h"

namespace gfx950 {
namespace {

using loader::MsgValue;

constexpr size_t kDescriptorSize = 64;
constexpr uint8_t kTypeObject = 1;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::invalid_image, "code object: " + what); }

uint32_t number(const MsgValue& map, const char* key) {
  const MsgValue* value = map.get(key);
  if (value == nullptr) return 0;
  if (value->kind != MsgValue::Kind::integer || value->integer < 0 || value->integer > UINT32_MAX) {
    fail(std::string("metadata: ") + key + " is not a 32-bit number");
  }
  return static_cast<uint32_t>(value->integer);
}

std::string text(const MsgValue& map, const char* key) {
  const MsgValue* value = map.get(key);
  return value != nullptr && value->kind == MsgValue::Kind::text ? value->text : "";
}

KernelInfo read_info(const MsgValue& map) {
  KernelInfo info;
  info.name = text(map, ".name");
  info.kernarg_size = number(map, ".kernarg_segment_size");
  info.group_segment_size = number(map, ".group_segment_fixed_size");
  info.private_segment_size = number(map, ".private_segment_fixed_size");
  info.vgpr_count = number(map, ".vgpr_count");
  info.agpr_count = number(map, ".agpr_count");
  info.sgpr_count = number(map, ".sgpr_count");
  info.vgpr_spill_count = number(map, ".vgpr_spill_count");
  info.sgpr_spill_count = number(map, ".sgpr_spill_count");
  info.max_flat_workgroup_size = number(map, ".max_flat_workgroup_size");
  const uint32_t wave = number(map, ".wavefront_size");
  if (wave != 0 && wave != 64)
    fail("kernel '" + info.name + "' has waves of " + std::to_string(wave) + "; gfx950 has 64");
  if (const MsgValue* arguments = map.get(".args")) {
    for (const MsgValue& argument : arguments->array) {
      info.arguments.push_back({text(argument, ".name"), text(argument, ".value_kind"), number(argument, ".offset"),
                                number(argument, ".size")});
    }
  }
  return info;
}

Descriptor read_descriptor(const uint8_t* data) {
  Descriptor d;
  auto read = [&](size_t offset, auto& field) { std::memcpy(&field, data + offset, sizeof field); };
  uint16_t preload;
  read(0, d.group_segment_size);
  read(4, d.private_segment_size);
  read(8, d.kernarg_size);
  read(16, d.entry_offset);
  read(44, d.rsrc3);
  read(48, d.rsrc1);
  read(52, d.rsrc2);
  read(56, d.properties);
  read(58, preload);
  d.preload_length = preload & 0x7f;
  d.preload_offset = preload >> 7;
  return d;
}

class ElfCodeObject : public CodeObject {
 public:
  ElfCodeObject(const uint8_t* data, size_t size) : elf_(loader::parse_elf(data, size)) {
    std::unordered_map<std::string, const loader::Symbol*> symbols;
    for (const loader::Symbol& symbol : elf_.symbols) symbols[symbol.name] = &symbol;
    const MsgValue* kernels = elf_.metadata.get("amdhsa.kernels");
    if (kernels == nullptr) fail("metadata without amdhsa.kernels");
    for (const MsgValue& map : kernels->array) add_kernel(map, symbols);
    for (const auto& kernel : kernels_) infos_.push_back(kernel->info);
    Memory::instance().add(elf_.image, elf_.image_size, Memory::Owner::code_object, 0);
  }
  ~ElfCodeObject() override { Memory::instance().remove(elf_.image); }

  const std::vector<KernelInfo>& kernels() const override { return infos_; }

  const Kernel* find(std::string_view name) const override {
    for (const auto& kernel : kernels_) {
      if (kernel->info.name == name) return kernel.get();
    }
    return nullptr;
  }

  std::optional<GlobalSymbol> global(std::string_view name) const override {
    for (const loader::Symbol& symbol : elf_.symbols) {
      if (symbol.type == kTypeObject && symbol.name == name) {
        return GlobalSymbol{elf_.at(symbol.value, symbol.size, "global"), symbol.size};
      }
    }
    return std::nullopt;
  }

 private:
  void add_kernel(const MsgValue& map, const std::unordered_map<std::string, const loader::Symbol*>& symbols) {
    auto kernel = std::make_unique<Kernel>();
    kernel->info = read_info(map);
    const std::string descriptor_name = text(map, ".symbol");
    auto descriptor = symbols.find(descriptor_name);
    if (descriptor == symbols.end())
      fail("no descriptor '" + descriptor_name + "' for kernel '" + kernel->info.name + "'");
    const uint64_t address = descriptor->second->value;
    kernel->descriptor = read_descriptor(elf_.at(address, kDescriptorSize, "kernel descriptor"));
    const uint64_t entry = address + static_cast<uint64_t>(kernel->descriptor.entry_offset);
    auto function = symbols.find(kernel->info.name);
    if (function == symbols.end()) fail("no symbol for kernel '" + kernel->info.name + "'");
    if (function->second->value != entry)
      fail("descriptor and symbol of '" + kernel->info.name + "' disagree on its entry");
    kernel->code_size = function->second->size;
    kernel->code = elf_.at(entry, kernel->code_size, "kernel code");
    kernel->address = entry;
    kernel->lines = &elf_.lines;
    const auto [begin, end] = elf_.executable_around(entry, kernel->code_size);
    kernel->around = {entry - begin, end - entry - kernel->code_size};
    kernels_.push_back(std::move(kernel));
  }

  loader::Elf elf_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<KernelInfo> infos_;
};

}  // namespace

std::shared_ptr<CodeObject> CodeObject::load(const void* data, size_t size) {
  const auto [object, object_size] = loader::unbundle(static_cast<const uint8_t*>(data), size);
  return std::make_shared<ElfCodeObject>(object, object_size);
}

size_t CodeObject::image_size(const void* data) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const uint64_t readable = loader::readable_bytes(data);
  if (readable < loader::kLongestMagic) fail("only " + std::to_string(readable) + " readable bytes");
  if (loader::is_elf(bytes)) return loader::elf_size(bytes, readable);
  if (loader::is_bundle(bytes)) return loader::bundle_size(bytes, readable);
  fail("neither an ELF file nor a clang offload bundle");
}

}  // namespace gfx950
