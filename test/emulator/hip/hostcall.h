// What a kernel asks of the host while it runs, by the protocol of AMD's device libraries (ockl, "hostcall"): printf.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gfx950/gfx950.h"

namespace gfx950::hip {

// Of one launch. The buffer holds packets on two stacks in device memory, free and ready; a wave takes one, fills in a
// slot of 64 bytes for each lane, pushes it, sends an interrupt and waits until the host has cleared its flag.
class Hostcall {
 public:
  Hostcall();   // throws std::bad_alloc
  ~Hostcall();  // flushes what was printed
  Hostcall(const Hostcall&) = delete;
  Hostcall& operator=(const Hostcall&) = delete;

  const HostService& service() const { return service_; }

 private:
  // All return what is wrong with the request, or nothing.
  std::string serve();
  std::string serve_packet(uint64_t index);
  std::string serve_message(uint64_t* slot);

  uint8_t* buffer_ = nullptr;
  HostService service_;
  uint64_t next_message_ = 0;
  std::map<uint64_t, std::vector<uint64_t>> messages_;  // begun and not ended
};

// printf of a message: the format string, then the arguments, in units of 8 bytes; see print.cpp. Appends to `out`.
// Returns what is wrong with it, or nothing.
std::string format_message(const std::vector<uint64_t>& message, size_t first, std::string& out);

}  // namespace gfx950::hip
