#include "lines.h"

#include <algorithm>
#include <cstring>

namespace gfx950::loader {
namespace {

constexpr size_t kMostRows = 1 << 20, kMostNames = 1 << 16, kLongestName = 4096;

// Standard and extended opcodes, content types and forms that matter (DWARF 5, 6.2 and 7.5).
enum : uint8_t { kCopy = 1, kAdvancePc, kAdvanceLine, kSetFile, kConstAddPc = 8, kFixedAdvancePc = 9 };
enum : uint8_t { kEndSequence = 1, kSetAddress = 2 };
enum : uint64_t { kPath = 1, kDirectory = 2 };

// Thrown and caught in this file alone.
struct Damaged {};

class Cursor {
 public:
  Cursor(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  size_t left() const { return left_; }
  Cursor part(uint64_t size) {
    const uint8_t* begin = take(size);
    return Cursor(begin, static_cast<size_t>(size));
  }
  void skip(uint64_t size) { take(size); }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  uint64_t offset(bool wide) { return wide ? number<uint64_t>() : number<uint32_t>(); }
  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = number<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  int64_t sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const uint8_t byte = number<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }
  std::string text() {
    const size_t size = strnlen(reinterpret_cast<const char*>(at_), std::min(left_, kLongestName));
    if (size == left_ || size == kLongestName) throw Damaged();
    return std::string(reinterpret_cast<const char*>(take(size + 1)), size);
  }

 private:
  const uint8_t* take(uint64_t size) {
    if (size > left_) throw Damaged();
    const uint8_t* begin = at_;
    at_ += size;
    left_ -= static_cast<size_t>(size);
    return begin;
  }

  const uint8_t* at_;
  size_t left_;
};

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() || (!name.empty() && name[0] == '/') ? name : folder + "/" + name;
}

}  // namespace

// One unit: its header with the names of files, then the program that makes the rows.
class UnitReader {
 public:
  UnitReader(LineTable& table, Section text, Section strings) : table_(table), text_(text), strings_(strings) {}

  // Throws Damaged; rows so far stay.
  void read(Cursor unit, bool wide) {
    wide_ = wide;
    const uint16_t version = unit.number<uint16_t>();
    if (version != 4 && version != 5) return;
    if (version == 5) unit.skip(2);  // sizes of an address and of a segment's number
    Cursor header = unit.part(unit.offset(wide));
    step_ = header.number<uint8_t>();
    header.skip(2);  // operations per instruction; whether rows are statements
    line_base_ = header.number<int8_t>();
    line_range_ = header.number<uint8_t>();
    opcode_base_ = header.number<uint8_t>();
    if (line_range_ == 0 || opcode_base_ == 0) throw Damaged();
    lengths_.assign(opcode_base_, 0);
    for (unsigned k = 1; k < opcode_base_; ++k) lengths_[k] = header.number<uint8_t>();
    first_file_ = static_cast<uint32_t>(table_.files_.size());
    if (version == 5) {
      const std::vector<Name> folders = names(header);
      for (const Name& file : names(header)) {
        add_file(file.folder < folders.size() ? joined(folders[file.folder].path, file.path) : file.path);
      }
      numbered_from_ = 0;
    } else {
      std::vector<std::string> folders(1);
      for (std::string folder = header.text(); !folder.empty(); folder = header.text()) add(folders, folder);
      for (std::string name = header.text(); !name.empty(); name = header.text()) {
        const uint64_t folder = header.uleb();
        header.uleb();  // time of change
        header.uleb();  // size
        add_file(folder < folders.size() ? joined(folders[folder], name) : name);
      }
      numbered_from_ = 1;
    }
    run(unit);
  }

 private:
  struct Name {
    std::string path;
    uint64_t folder = 0;
  };

  template <class T>
  static void add(std::vector<T>& list, const T& item) {
    if (list.size() >= kMostNames) throw Damaged();
    list.push_back(item);
  }
  void add_file(const std::string& path) { add(table_.files_, path); }

  std::string pooled(Section pool, uint64_t offset) {
    if (offset >= pool.size) throw Damaged();
    return Cursor(pool.data + offset, pool.size - static_cast<size_t>(offset)).text();
  }

  // A list of version 5: which fields each entry has, then the entries.
  std::vector<Name> names(Cursor& header) {
    std::vector<std::pair<uint64_t, uint64_t>> fields(header.number<uint8_t>());
    for (auto& field : fields) {
      field.first = header.uleb();
      field.second = header.uleb();
    }
    const uint64_t count = header.uleb();
    if (count > kMostNames || fields.empty()) {
      if (count == 0) return {};
      throw Damaged();
    }
    std::vector<Name> result(static_cast<size_t>(count));
    for (Name& name : result) {
      for (const auto& [content, form] : fields) {
        std::string text;
        uint64_t number = 0;
        value(header, form, text, number);
        if (content == kPath) name.path = text;
        if (content == kDirectory) name.folder = number;
      }
    }
    return result;
  }

  void value(Cursor& header, uint64_t form, std::string& text, uint64_t& number) {
    switch (form) {
      case 0x08:
        text = header.text();
        return;
      case 0x1f:
        text = pooled(text_, header.offset(wide_));
        return;
      case 0x0e:
        text = pooled(strings_, header.offset(wide_));
        return;
      case 0x0b:
        number = header.number<uint8_t>();
        return;
      case 0x05:
        number = header.number<uint16_t>();
        return;
      case 0x06:
        number = header.number<uint32_t>();
        return;
      case 0x07:
        number = header.number<uint64_t>();
        return;
      case 0x0f:
        number = header.uleb();
        return;
      case 0x1e:
        header.skip(16);
        return;
      case 0x09:
        header.skip(header.uleb());
        return;
      default:
        throw Damaged();
    }
  }

  void row(uint64_t address, uint64_t file, int64_t line, bool end) {
    if (table_.rows_.size() >= kMostRows) throw Damaged();
    const uint64_t index = file - numbered_from_ + first_file_;
    const bool known = !end && file >= numbered_from_ && index < table_.files_.size() && line > 0 && line <= UINT32_MAX;
    table_.rows_.push_back(
        {address, known ? static_cast<uint32_t>(index) : 0, known ? static_cast<uint32_t>(line) : 0});
  }

  void run(Cursor& program) {
    uint64_t address = 0, file = 1;
    int64_t line = 1;
    while (program.left() != 0) {
      const uint8_t opcode = program.number<uint8_t>();
      if (opcode >= opcode_base_) {
        const unsigned adjusted = opcode - opcode_base_;
        address += uint64_t{step_} * (adjusted / line_range_);
        line = wrapped(line, line_base_ + static_cast<int>(adjusted % line_range_));
        row(address, file, line, false);
      } else if (opcode == 0) {
        Cursor extended = program.part(program.uleb());
        const uint8_t kind = extended.number<uint8_t>();
        if (kind == kEndSequence) {
          row(address, file, line, true);
          address = 0;
          file = 1;
          line = 1;
        } else if (kind == kSetAddress) {
          address = extended.number<uint64_t>();
        }
      } else if (opcode == kCopy) {
        row(address, file, line, false);
      } else if (opcode == kAdvancePc) {
        address += step_ * program.uleb();
      } else if (opcode == kAdvanceLine) {
        line = wrapped(line, program.sleb());
      } else if (opcode == kSetFile) {
        file = program.uleb();
      } else if (opcode == kConstAddPc) {
        address += uint64_t{step_} * ((255u - opcode_base_) / line_range_);
      } else if (opcode == kFixedAdvancePc) {
        address += program.number<uint16_t>();
      } else {
        for (unsigned k = 0; k < lengths_[opcode]; ++k) program.uleb();
      }
    }
  }

  static int64_t wrapped(int64_t line, int64_t by) {
    return static_cast<int64_t>(static_cast<uint64_t>(line) + static_cast<uint64_t>(by));
  }

  LineTable& table_;
  Section text_, strings_;
  bool wide_ = false;
  uint8_t step_ = 1, line_range_ = 1, opcode_base_ = 1;
  int line_base_ = 0;
  std::vector<uint8_t> lengths_;
  uint32_t first_file_ = 0, numbered_from_ = 0;
};

LineTable::LineTable(Section lines, Section text, Section strings) {
  Cursor all(lines.data, lines.size);
  try {
    while (all.left() != 0) {
      uint64_t length = all.number<uint32_t>();
      const bool wide = length == 0xffffffff;
      if (wide) length = all.number<uint64_t>();
      Cursor unit = all.part(length);
      try {
        UnitReader(*this, text, strings).read(unit, wide);
      } catch (const Damaged&) {  // the others may be whole
      }
    }
  } catch (const Damaged&) {
  }
  // An end of a sequence comes before the row of the next that begins there.
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.address != b.address ? a.address < b.address : a.line == 0 && b.line != 0;
  });
}

std::string LineTable::at(uint64_t address) const {
  auto after = std::upper_bound(rows_.begin(), rows_.end(), address,
                                [](uint64_t value, const Row& row) { return value < row.address; });
  if (after == rows_.begin()) return "";
  const Row& row = *--after;
  return row.line == 0 ? "" : files_[row.file] + ":" + std::to_string(row.line);
}

}  // namespace gfx950::loader
