#include "elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "gfx950/gfx950.h"

namespace gfx950::loader {
namespace {

constexpr uint16_t kMachineAmdgpu = 224;
constexpr uint8_t kOsAbiAmdgpuHsa = 64;
constexpr uint32_t kMachMask = 0xff;
constexpr uint32_t kMachGfx950 = 0x4f;
constexpr uint32_t kNoteMetadata = 32;
constexpr uint64_t kMaxImage = 1ull << 32;
constexpr uint64_t kMaxLoaded = 1ull << 30;  // what segments may ask the host for

// Relocation types of the AMDGPU psABI that a linked object may carry.
enum : uint32_t { kRelNone = 0, kRelAbs64 = 3, kRelAbs32 = 6, kRelRelative64 = 13 };

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::invalid_image, "code object: " + what); }

class File {
 public:
  File(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  void need(uint64_t offset, uint64_t length, const char* what) const {
    if (offset > size_ || length > size_ - offset) {
      fail(std::string(what) + " at " + std::to_string(offset) + " of " + std::to_string(length) +
           " bytes lies outside the " + std::to_string(size_) + " bytes given");
    }
  }
  template <class T>
  T read(uint64_t offset, const char* what) const {
    need(offset, sizeof(T), what);
    T value;
    std::memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }
  template <class T>
  T element(uint64_t table, uint64_t index, uint64_t stride, const char* what) const {
    return read<T>(table + index * stride, what);
  }
  // A NUL-terminated string inside [begin, begin + length).
  std::string text(uint64_t begin, uint64_t length, uint64_t offset, const char* what) const {
    need(begin, length, what);
    if (offset >= length) fail(std::string(what) + ": offset " + std::to_string(offset) + " is outside its table");
    const char* start = reinterpret_cast<const char*>(data_ + begin + offset);
    const size_t limit = length - offset;
    const size_t size = strnlen(start, limit);
    if (size == limit) fail(std::string(what) + ": name without an end");
    return std::string(start, size);
  }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

Elf64_Ehdr check_header(const File& file) {
  const auto header = file.read<Elf64_Ehdr>(0, "ELF header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) fail("no ELF magic");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    fail("not a little-endian 64-bit ELF file");
  }
  if (header.e_machine != kMachineAmdgpu) {
    throw Error(ErrorKind::unsupported_target,
                "code object: ELF machine " + std::to_string(header.e_machine) + ", expected AMDGPU (224)");
  }
  if (header.e_ident[EI_OSABI] != kOsAbiAmdgpuHsa) {
    throw Error(ErrorKind::unsupported_target,
                "code object: OS ABI " + std::to_string(header.e_ident[EI_OSABI]) + ", expected AMDGPU HSA (64)");
  }
  if (header.e_type != ET_DYN) fail("not linked (ELF type " + std::to_string(header.e_type) + ", expected ET_DYN)");
  const uint32_t mach = header.e_flags & kMachMask;
  if (mach != kMachGfx950) {
    throw Error(ErrorKind::unsupported_target,
                "code object: EF_AMDGPU_MACH " + std::to_string(mach) + ", expected gfx950 (79); compile for gfx950");
  }
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) fail("odd program header size");
  if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) fail("odd section header size");
  return header;
}

void load_segments(const File& file, const Elf64_Ehdr& header, Elf& elf) {
  uint64_t low = UINT64_MAX, high = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto ph = file.element<Elf64_Phdr>(header.e_phoff, i, sizeof(Elf64_Phdr), "program header");
    if (ph.p_type != PT_LOAD) continue;
    if (ph.p_filesz > ph.p_memsz) fail("segment " + std::to_string(i) + " is larger in the file than in memory");
    if (ph.p_vaddr > kMaxImage || ph.p_memsz > kMaxImage) fail("segment " + std::to_string(i) + " beyond 4 GiB");
    file.need(ph.p_offset, ph.p_filesz, "segment");
    low = std::min(low, ph.p_vaddr);
    high = std::max(high, ph.p_vaddr + ph.p_memsz);
  }
  if (low >= high) fail("nothing to load");
  constexpr uint64_t kPage = 4096;
  elf.base_address = low & ~(kPage - 1);
  elf.image_size = high - elf.base_address;
  if (elf.image_size > kMaxLoaded) fail(std::to_string(elf.image_size) + " bytes to load; the limit is 1 GiB");
  elf.storage = std::make_unique<uint8_t[]>(elf.image_size + kPage);
  const uintptr_t raw = reinterpret_cast<uintptr_t>(elf.storage.get());
  elf.image = reinterpret_cast<uint8_t*>((raw + kPage - 1) & ~(kPage - 1));
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto ph = file.element<Elf64_Phdr>(header.e_phoff, i, sizeof(Elf64_Phdr), "program header");
    if (ph.p_type != PT_LOAD) continue;
    std::memcpy(elf.image + (ph.p_vaddr - elf.base_address), file.data() + ph.p_offset, ph.p_filesz);
    if ((ph.p_flags & PF_X) != 0) elf.executable.emplace_back(ph.p_vaddr, ph.p_vaddr + ph.p_filesz);
  }
}

void read_notes(const File& file, uint64_t begin, uint64_t length, Elf& elf) {
  file.need(begin, length, "note");
  uint64_t cursor = begin;
  const uint64_t end = begin + length;
  while (end - cursor >= sizeof(Elf64_Nhdr)) {
    const auto note = file.read<Elf64_Nhdr>(cursor, "note header");
    cursor += sizeof(Elf64_Nhdr);
    const uint64_t name_size = (uint64_t{note.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t desc_size = (uint64_t{note.n_descsz} + 3) & ~uint64_t{3};
    if (name_size > end - cursor || note.n_descsz > end - cursor - name_size) fail("note runs past its section");
    const std::string name(reinterpret_cast<const char*>(file.data() + cursor), note.n_namesz);
    if (note.n_type == kNoteMetadata && name.compare(0, 6, "AMDGPU") == 0) {
      elf.metadata = parse_msgpack(file.data() + cursor + name_size, note.n_descsz);
    }
    cursor += std::min(name_size + desc_size, end - cursor);
  }
}

void read_symbols(const File& file, const Elf64_Ehdr& header, uint32_t wanted, Elf& elf) {
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto sh = file.element<Elf64_Shdr>(header.e_shoff, i, sizeof(Elf64_Shdr), "section header");
    if (sh.sh_type != wanted) continue;
    if (sh.sh_link >= header.e_shnum) fail("symbol table without a string table");
    const auto str = file.element<Elf64_Shdr>(header.e_shoff, sh.sh_link, sizeof(Elf64_Shdr), "section header");
    file.need(sh.sh_offset, sh.sh_size, "symbol table");
    for (uint64_t k = 0; k < sh.sh_size / sizeof(Elf64_Sym); ++k) {
      const auto sym = file.element<Elf64_Sym>(sh.sh_offset, k, sizeof(Elf64_Sym), "symbol");
      if (sym.st_shndx == SHN_UNDEF || sym.st_name == 0) continue;
      elf.symbols.push_back({file.text(str.sh_offset, str.sh_size, sym.st_name, "symbol name"), sym.st_value,
                             sym.st_size, static_cast<uint8_t>(ELF64_ST_TYPE(sym.st_info))});
    }
  }
}

// Line tables are for messages: a file whose sections are damaged has none.
LineTable read_lines(const File& file, const Elf64_Ehdr& header) {
  if (header.e_shstrndx >= header.e_shnum) return {};
  Section lines, text, strings;
  try {
    const auto names =
        file.element<Elf64_Shdr>(header.e_shoff, header.e_shstrndx, sizeof(Elf64_Shdr), "section header");
    for (int i = 0; i < header.e_shnum; ++i) {
      const auto sh = file.element<Elf64_Shdr>(header.e_shoff, i, sizeof(Elf64_Shdr), "section header");
      if (sh.sh_type != SHT_PROGBITS || (sh.sh_flags & (SHF_ALLOC | SHF_COMPRESSED)) != 0) continue;
      const std::string name = file.text(names.sh_offset, names.sh_size, sh.sh_name, "section name");
      Section* section = name == ".debug_line"       ? &lines
                         : name == ".debug_line_str" ? &text
                         : name == ".debug_str"      ? &strings
                                                     : nullptr;
      if (section == nullptr) continue;
      file.need(sh.sh_offset, sh.sh_size, "section");
      *section = {file.data() + sh.sh_offset, sh.sh_size};
    }
  } catch (const Error&) {
    return {};
  }
  return LineTable(lines, text, strings);
}

void relocate(const File& file, const Elf64_Ehdr& header, Elf& elf) {
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto sh = file.element<Elf64_Shdr>(header.e_shoff, i, sizeof(Elf64_Shdr), "section header");
    if (sh.sh_type == SHT_REL) fail("relocations without addends are not AMDGPU's");
    if (sh.sh_type != SHT_RELA || (sh.sh_flags & SHF_ALLOC) == 0) continue;
    file.need(sh.sh_offset, sh.sh_size, "relocations");
    if (sh.sh_link >= header.e_shnum) fail("relocations without a symbol table");
    const auto table = file.element<Elf64_Shdr>(header.e_shoff, sh.sh_link, sizeof(Elf64_Shdr), "section header");
    for (uint64_t k = 0; k < sh.sh_size / sizeof(Elf64_Rela); ++k) {
      const auto rela = file.element<Elf64_Rela>(sh.sh_offset, k, sizeof(Elf64_Rela), "relocation");
      const uint32_t type = ELF64_R_TYPE(rela.r_info);
      const uint64_t load_bias = reinterpret_cast<uint64_t>(elf.image) - elf.base_address;
      if (type == kRelNone) continue;
      uint64_t value = load_bias + static_cast<uint64_t>(rela.r_addend);
      if (type != kRelRelative64) {
        const uint64_t index = ELF64_R_SYM(rela.r_info);
        if (index >= table.sh_size / sizeof(Elf64_Sym)) fail("relocation names symbol " + std::to_string(index));
        const auto sym = file.element<Elf64_Sym>(table.sh_offset, index, sizeof(Elf64_Sym), "symbol");
        if (sym.st_shndx == SHN_UNDEF) {
          const auto str = file.element<Elf64_Shdr>(header.e_shoff, table.sh_link, sizeof(Elf64_Shdr), "strings");
          fail("undefined symbol '" + file.text(str.sh_offset, str.sh_size, sym.st_name, "symbol name") + "'");
        }
        value += sym.st_value;
      }
      if (type == kRelAbs64 || type == kRelRelative64) {
        std::memcpy(elf.at(rela.r_offset, 8, "relocation target"), &value, 8);
      } else {
        fail("relocation type " + std::to_string(type) + " is not one a linked object needs (ABS64, RELATIVE64)");
      }
    }
  }
}

}  // namespace

std::pair<uint64_t, uint64_t> Elf::executable_around(uint64_t address, uint64_t size) const {
  for (const auto& [begin, end] : executable) {
    if (address >= begin && address <= end && size <= end - address) return {begin, end};
  }
  return {address, address + size};
}

uint8_t* Elf::at(uint64_t address, uint64_t size, const char* what) const {
  if (address < base_address || address - base_address > image_size || size > image_size - (address - base_address)) {
    fail(std::string(what) + " at virtual address " + std::to_string(address) + " is not in a loaded segment");
  }
  return image + (address - base_address);
}

Elf parse_elf(const uint8_t* data, size_t size) {
  const File file(data, size);
  const Elf64_Ehdr header = check_header(file);
  Elf elf;
  elf.flags = header.e_flags;
  load_segments(file, header, elf);
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto ph = file.element<Elf64_Phdr>(header.e_phoff, i, sizeof(Elf64_Phdr), "program header");
    if (ph.p_type == PT_NOTE) read_notes(file, ph.p_offset, ph.p_filesz, elf);
  }
  if (elf.metadata.kind != MsgValue::Kind::map) fail("no AMDGPU metadata note");
  read_symbols(file, header, SHT_DYNSYM, elf);
  if (elf.symbols.empty()) read_symbols(file, header, SHT_SYMTAB, elf);
  relocate(file, header, elf);
  elf.lines = read_lines(file, header);
  return elf;
}

size_t elf_size(const uint8_t* data, uint64_t readable) {
  const File file(data, readable);
  const auto header = file.read<Elf64_Ehdr>(0, "ELF header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) fail("no ELF magic");
  uint64_t end = sizeof header;
  auto extend = [&](uint64_t offset, uint64_t length, const char* what) {
    if (offset > kMaxImage || length > kMaxImage) fail(std::string(what) + " beyond 4 GiB");
    file.need(offset, length, what);
    end = std::max(end, offset + length);
  };
  extend(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), "program headers");
  extend(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), "section headers");
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto ph = file.element<Elf64_Phdr>(header.e_phoff, i, sizeof(Elf64_Phdr), "program header");
    extend(ph.p_offset, ph.p_filesz, "segment");
  }
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto sh = file.element<Elf64_Shdr>(header.e_shoff, i, sizeof(Elf64_Shdr), "section header");
    if (sh.sh_type != SHT_NOBITS) extend(sh.sh_offset, sh.sh_size, "section");
  }
  return end;
}

}  // namespace gfx950::loader
