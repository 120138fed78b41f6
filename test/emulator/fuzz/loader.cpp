// Loads damaged code objects until the time or the count is used up. fuzz_loader.py builds and runs it.
//
//     loader SECONDS INPUTS SEED FILE...
//
// Every input lies in a heap block of exactly its size, so that AddressSanitizer sees each byte read beyond it.
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "decode/decoder.h"
#include "gfx950/gfx950.h"
#include "loader/elf.h"
#include "loader/lines.h"
#include "machine/kernel.h"

// The loader alone is looked at: LLVM's library cannot be loaded beside AddressSanitizer (RTLD_DEEPBIND).
std::unique_ptr<gfx950::exec::Program> gfx950::decode::decode_kernel(const std::string&, const uint8_t*, uint64_t,
                                                                     uint64_t, Around) {
  throw Error(ErrorKind::unsupported_instruction, "no decoder here");
}

// The sanitizer's own ends the process where the standard has an exception.
void* operator new(size_t size) {
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace {

using Bytes = std::vector<uint8_t>;

uint64_t state, iteration;
const Bytes* current = nullptr;

uint64_t next() {  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
uint64_t below(uint64_t limit) { return limit == 0 ? 0 : next() % limit; }

// A sanitizer's finding ends the process: the input is kept.
void on_death() {
  std::fprintf(stderr, "fuzz: input %llu is in finding.bin\n", static_cast<unsigned long long>(iteration));
  if (current == nullptr) return;
  if (FILE* file = std::fopen("finding.bin", "wb")) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
  }
}

template <class T>
void put(Bytes& bytes, size_t at, T value) {
  if (at + sizeof value <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof value);
}

uint64_t hostile_number() {
  static const uint64_t numbers[] = {0,
                                     1,
                                     2,
                                     7,
                                     0x7f,
                                     0xff,
                                     0x7fff,
                                     0xffff,
                                     0x7fffffff,
                                     0xffffffff,
                                     0x80000000,
                                     0x100000000,
                                     0x7fffffffffffffff,
                                     0xffffffffffffffff,
                                     0xfffffffffffffff8};
  return below(4) == 0 ? next() >> below(64) : numbers[below(std::size(numbers))];
}

void flip_bits(Bytes& b) {
  for (uint64_t n = 1 + below(8); n > 0 && !b.empty(); --n) b[below(b.size())] ^= static_cast<uint8_t>(1u << below(8));
}
void random_bytes(Bytes& b) {
  const size_t at = below(b.size()), n = std::min<size_t>(b.size() - at, 1 + below(64));
  for (size_t k = 0; k < n; ++k) b[at + k] = static_cast<uint8_t>(next());
}
void truncate(Bytes& b) { b.resize(below(b.size() + 1)); }
void extend(Bytes& b) { b.resize(b.size() + below(4096), static_cast<uint8_t>(next())); }
void numbers_anywhere(Bytes& b) {
  for (uint64_t n = 1 + below(4); n > 0; --n) {
    const uint64_t value = hostile_number();
    const size_t at = below(b.size());
    if (below(2) != 0) {
      put(b, at / 4 * 4, static_cast<uint32_t>(value));
    } else {
      put(b, at / 8 * 8, value);
    }
  }
}
// The ELF header, then one field of a program or section header.
void header_fields(Bytes& b) {
  for (uint64_t n = 1 + below(3); n > 0; --n) {
    uint64_t table = 0, count = 1, size = 64;
    const uint64_t which = below(4);
    if (b.size() >= 64 && which != 0) {
      std::memcpy(&table, b.data() + (which == 1 ? 32 : 40), 8);
      uint16_t entries;
      std::memcpy(&entries, b.data() + (which == 1 ? 56 : 60), 2);
      count = entries;
      size = which == 1 ? 56 : 64;
    }
    const uint64_t at = table + below(std::max<uint64_t>(count, 1)) * size + below(size / 4) * 4;
    if (at < b.size()) {
      if (below(2) != 0) {
        put(b, at, static_cast<uint32_t>(hostile_number()));
      } else {
        put(b, at, hostile_number());
      }
    }
  }
}
// Bytes of one section: metadata notes, symbols, strings, relocations, line tables.
void section_bytes(Bytes& b) {
  uint64_t table = 0, offset = 0, size = 0;
  uint16_t count = 0;
  if (b.size() < 64) return flip_bits(b);
  std::memcpy(&table, b.data() + 40, 8);
  std::memcpy(&count, b.data() + 60, 2);
  const uint64_t header = table + below(std::max<uint16_t>(count, 1)) * 64;
  if (header > b.size() || b.size() - header < 64) return flip_bits(b);
  std::memcpy(&offset, b.data() + header + 24, 8);
  std::memcpy(&size, b.data() + header + 32, 8);
  if (size == 0 || offset >= b.size() || size > b.size() - offset) return flip_bits(b);
  for (uint64_t n = 1 + below(6); n > 0; --n) {
    const uint64_t at = offset + below(size);
    if (below(3) == 0) {
      put(b, at, static_cast<uint32_t>(hostile_number()));
    } else {
      b[at] = below(2) != 0 ? static_cast<uint8_t>(next()) : static_cast<uint8_t>(0xff * below(2));
    }
  }
}
void move_block(Bytes& b) {
  const size_t from = below(b.size()), to = below(b.size());
  const size_t n = std::min({b.size() - from, b.size() - to, static_cast<size_t>(1 + below(512))});
  std::memmove(b.data() + to, b.data() + from, n);
}

struct Kind {
  const char* name;
  void (*damage)(Bytes&);
};
const Kind kKinds[] = {{"bits flipped", flip_bits},
                       {"random bytes", random_bytes},
                       {"truncated", truncate},
                       {"extended", extend},
                       {"hostile numbers", numbers_anywhere},
                       {"header fields", header_fields},
                       {"bytes of a section", section_bytes},
                       {"blocks moved", move_block}};

const char* name_of(gfx950::ErrorKind kind) {
  switch (kind) {
    case gfx950::ErrorKind::invalid_image:
      return "invalid image";
    case gfx950::ErrorKind::unsupported_target:
      return "other target";
    default:
      return "other error";
  }
}

// Everything that reads a code object, but for its instructions.
void look_at(const gfx950::CodeObject& object) {
  for (const gfx950::KernelInfo& info : object.kernels()) {
    const gfx950::Kernel* kernel = object.find(info.name);
    if (kernel == nullptr) std::abort();
    for (int k = 0; k < 16; ++k) {
      kernel->lines->at(kernel->address + (k < 8 ? below(kernel->code_size + 8) : next()));
    }
    unsigned sum = 0;  // the code is readable
    for (uint64_t k = 0; k < kernel->code_size; k += 64) sum += kernel->code[k];
    if (sum == 1) std::fputs("", stderr);
  }
  object.global("nothing of this name");
}

std::string try_load(const Bytes& input) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[input.size()]);
  std::copy(input.begin(), input.end(), exact.get());
  try {
    look_at(*gfx950::CodeObject::load(exact.get(), input.size()));
    return "loaded";
  } catch (const gfx950::Error& error) {
    return name_of(error.kind());
  } catch (const std::bad_alloc&) {
    return "no memory";
  }
}

// hipModuleLoadData gets no size: the headers say it. The bytes end where readable memory ends.
std::string try_size(const Bytes& input) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t room = (input.size() + page) / page * page;
  auto* map =
      static_cast<uint8_t*>(mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (map == MAP_FAILED) return "no memory";
  mprotect(map + room, page, PROT_NONE);
  uint8_t* begin = map + room - input.size();
  std::copy(input.begin(), input.end(), begin);
  std::string result = "loaded";
  try {
    if (gfx950::CodeObject::image_size(begin) > input.size()) result = "TOO LARGE A SIZE";
  } catch (const gfx950::Error& error) {
    result = name_of(error.kind());
  }
  munmap(map, room + page);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const double seconds = std::atof(argv[1]);
  const uint64_t inputs = std::strtoull(argv[2], nullptr, 10);
  state = std::strtoull(argv[3], nullptr, 10);
  std::vector<Bytes> seeds;
  for (int k = 4; k < argc; ++k) {
    std::ifstream file(argv[k], std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (seeds.back().empty() || try_load(seeds.back()) != "loaded") {
      std::fprintf(stderr, "fuzz: %s does not load undamaged\n", argv[k]);
      return 2;
    }
  }
  __asan_set_death_callback(on_death);
  std::map<std::string, std::map<std::string, uint64_t>> counts;
  const auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  uint64_t wrong = 0;
  for (; iteration < inputs && (iteration % 64 != 0 || elapsed() < seconds); ++iteration) {
    Bytes input = seeds[below(seeds.size())];
    const Kind& kind = kKinds[below(std::size(kKinds))];
    current = &input;
    kind.damage(input);
    while (below(4) == 0 && !input.empty()) kKinds[below(std::size(kKinds))].damage(input);
    ++counts[kind.name][try_load(input)];
    if (iteration % 16 != 0 || input.empty()) continue;
    const std::string size = try_size(input);
    wrong += size == "TOO LARGE A SIZE" ? 1 : 0;
    ++counts["size by headers alone"][size];
  }
  current = nullptr;
  for (const auto& [kind, outcomes] : counts) {
    for (const auto& [outcome, n] : outcomes) {
      std::printf("%s\t%s\t%llu\n", kind.c_str(), outcome.c_str(), static_cast<unsigned long long>(n));
    }
  }
  std::printf("seconds\t%.1f\t%llu\n", elapsed(), static_cast<unsigned long long>(iteration));
  return wrong != 0 ? 1 : 0;
}
