// Source lines of a code object: its DWARF line tables (.debug_line of versions 4 and 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gfx950::loader {

struct Section {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

class LineTable {
 public:
  LineTable() = default;
  // Nothing is thrown: what is damaged, or of another version, has no lines. `text`: .debug_line_str, `strings`:
  // .debug_str, where version 5 keeps names.
  LineTable(Section lines, Section text, Section strings);

  bool empty() const { return rows_.empty(); }
  // "file:line" of the instruction at a virtual address of the object; "" if the table has none.
  std::string at(uint64_t address) const;

 private:
  struct Row {
    uint64_t address;
    uint32_t file, line;  // line 0: none, or the end of a sequence
  };
  friend class UnitReader;

  std::vector<Row> rows_;  // by address
  std::vector<std::string> files_;
};

}  // namespace gfx950::loader
