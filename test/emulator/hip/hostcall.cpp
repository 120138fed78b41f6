#include "hostcall.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

namespace gfx950::hip {
namespace {

// A wave has one packet at a time, and a launch that may call runs one workgroup at a time: 16 waves.
constexpr uint64_t kPackets = 32;
constexpr uint64_t kIndexMask = kPackets - 1;
constexpr unsigned kLanes = 64, kSlotWords = 8;
constexpr size_t kMessageLimit = size_t{1} << 17;  // words, 1 MiB: of all messages that lanes have begun

// As ockl lays them out in device memory.
struct Header {
  uint64_t next, lanes;
  uint32_t service, control;  // control: bit 0 is set while the packet waits for the host
};
struct Payload {
  uint64_t slots[kLanes][kSlotWords];
};
struct Buffer {
  uint64_t headers, payloads, doorbell, free_stack, ready_stack, index_mask;
};
// The part of an HSA signal that a kernel touches: it adds to the value, and sends an interrupt if there is a mailbox.
struct Signal {
  int64_t kind, value;
  uint64_t mailbox;
  uint32_t event, unused[9];
};

constexpr size_t kSignalAt = 64, kMailboxAt = kSignalAt + sizeof(Signal), kHeadersAt = 256;
constexpr size_t kPayloadsAt = 4096;
constexpr size_t kSize = kPayloadsAt + kPackets * sizeof(Payload);
static_assert(sizeof(Signal) == 64 && kHeadersAt + kPackets * sizeof(Header) <= kPayloadsAt);

enum Service : uint32_t { kFunctionCall = 1, kPrintf = 2, kDeviceMemory = 3, kSanitizer = 4 };

std::string refusal(uint32_t service) {
  const char* names[] = {"nothing", "a function of the host", "printf", "device memory (malloc in a kernel)",
                         "the address sanitizer"};
  return "a call of the host for " +
         (service < 5 ? std::string(names[service]) : "the unknown service " + std::to_string(service));
}

// The first word of a slot describes the message that the other seven continue.
bool begins(uint64_t descriptor) { return (descriptor & 1) != 0; }
bool ends(uint64_t descriptor) { return (descriptor & 2) != 0; }
unsigned length(uint64_t descriptor) { return descriptor >> 5 & 7; }
uint64_t message_of(uint64_t descriptor) { return descriptor >> 8; }

}  // namespace

Hostcall::Hostcall() {
  buffer_ = static_cast<uint8_t*>(Memory::instance().allocate(kSize, 0, false));
  if (buffer_ == nullptr) throw std::bad_alloc();
  std::memset(buffer_, 0, kPayloadsAt);
  const uint64_t base = reinterpret_cast<uint64_t>(buffer_);
  auto* buffer = reinterpret_cast<Buffer*>(buffer_);
  // A tag above the index tells uses of a packet apart; index and tag are never both 0, which is the end of a stack.
  *buffer = {base + kHeadersAt, base + kPayloadsAt, base + kSignalAt, kPackets - 1, 0, kIndexMask};
  reinterpret_cast<Signal*>(buffer_ + kSignalAt)->mailbox = base + kMailboxAt;
  auto* headers = reinterpret_cast<Header*>(buffer_ + kHeadersAt);
  for (uint64_t k = 1; k < kPackets; ++k) headers[k].next = k == 1 ? kPackets : k - 1;
  service_.buffer = buffer_;
  service_.serve = [this] { return serve(); };
}

Hostcall::~Hostcall() {
  std::fflush(stdout);
  Memory::instance().release(buffer_);
}

std::string Hostcall::serve() {
  auto& ready = reinterpret_cast<Buffer*>(buffer_)->ready_stack;
  uint64_t packet = __atomic_exchange_n(&ready, 0, __ATOMIC_ACQ_REL);
  std::vector<uint64_t> order;  // the stack has the newest on top
  for (; packet != 0; packet = reinterpret_cast<Header*>(buffer_ + kHeadersAt)[packet & kIndexMask].next) {
    if (order.size() == kPackets) return "a damaged stack of calls of the host";
    order.push_back(packet & kIndexMask);
  }
  for (auto index = order.rbegin(); index != order.rend(); ++index) {
    std::string wrong = serve_packet(*index);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string Hostcall::serve_packet(uint64_t index) {
  Header& header = reinterpret_cast<Header*>(buffer_ + kHeadersAt)[index];
  Payload& payload = reinterpret_cast<Payload*>(buffer_ + kPayloadsAt)[index];
  if (header.service != kPrintf) return refusal(header.service);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((header.lanes >> lane & 1) == 0) continue;
    std::string wrong = serve_message(payload.slots[lane]);
    if (!wrong.empty()) return wrong;
  }
  __atomic_and_fetch(&header.control, ~uint32_t{1}, __ATOMIC_RELEASE);
  return "";
}

std::string Hostcall::serve_message(uint64_t* slot) {
  uint64_t descriptor = slot[0];
  if (begins(descriptor)) {
    descriptor = (descriptor & 0xfe) | ++next_message_ << 8;
    slot[0] = descriptor;
    messages_[next_message_];
  }
  const auto message = messages_.find(message_of(descriptor));
  if (message == messages_.end()) return "a printf that continues a message which nobody began";
  std::vector<uint64_t>& words = message->second;
  words.insert(words.end(), slot + 1, slot + 1 + length(descriptor));
  if (words.size() * messages_.size() > kMessageLimit) return "printf of more than 1 MiB";
  if (!ends(descriptor)) return "";
  if (words.empty() || words[0] > 1) return "a printf to neither stdout nor stderr";
  std::string text;
  std::string wrong = format_message(words, 1, text);
  if (!wrong.empty()) return wrong;
  std::fwrite(text.data(), 1, text.size(), words[0] == 1 ? stderr : stdout);
  slot[0] = text.size();  // what printf returns
  messages_.erase(message);
  return "";
}

}  // namespace gfx950::hip
