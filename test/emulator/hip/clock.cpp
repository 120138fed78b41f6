// The virtual clock and what is counted about launches.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "gfx950_hip.h"
#include "runtime.h"

namespace gfx950::hip {
namespace {

// Published: HBM 8 TB/s, of which 7.2 are reached by copies; PCIe 5.0 x16 carries 64 GB/s, about 55 after protocol.
constexpr double kHbmBytesPerNanosecond = 7200.0;
constexpr double kHostLinkBytesPerNanosecond = 55.0;
// Launch overhead that fits published small-shape GEMM figures; a copy on the device is such a launch.
constexpr double kLaunchNanoseconds = 7000.0;
constexpr double kHostCopyNanoseconds = 10000.0;

constexpr double kPicosecondsPerNanosecond = 1000.0;

struct KernelStatistics {
  uint64_t launches = 0;
  double nanoseconds = 0;
  LaunchCounts counts;
};

// What gfx950_launch_statistics() reports, by its key.
constexpr std::pair<const char*, uint64_t LaunchCounts::*> kCounts[] = {
    {"workgroups", &LaunchCounts::workgroups},
    {"waves", &LaunchCounts::waves},
    {"wave_instructions", &LaunchCounts::wave_instructions},
    {"salu", &LaunchCounts::salu},
    {"valu", &LaunchCounts::valu},
    {"mfma", &LaunchCounts::mfma},
    {"lds", &LaunchCounts::lds},
    {"vmem", &LaunchCounts::vmem},
    {"smem", &LaunchCounts::smem},
    {"branch", &LaunchCounts::branch},
    {"other", &LaunchCounts::other},
    {"bytes_loaded", &LaunchCounts::bytes_loaded},
    {"bytes_stored", &LaunchCounts::bytes_stored},
    {"uninitialised_lds_reads", &LaunchCounts::uninitialised_lds_reads},
};

thread_local bool clock_held = false;
std::mutex mutex;
// Whole picoseconds: differences are exact, so the same work takes the same time whenever it runs.
uint64_t now_picoseconds = 0;
std::map<std::string, KernelStatistics> statistics;
std::map<std::string, std::shared_ptr<const TimingReport>> reports;  // of each kernel's last launch

void append_json_string(std::string* out, const std::string& text) {
  *out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      *out += escape;
    } else {
      *out += c;
    }
  }
  *out += '"';
}

size_t copy_text(const std::string& text, char* buffer, size_t size) {
  if (buffer && size > text.size()) std::memcpy(buffer, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

}  // namespace

void advance_clock(double nanoseconds) {
  if (clock_held || !std::isfinite(nanoseconds) || nanoseconds < 0) return;
  std::lock_guard<std::mutex> lock(mutex);
  now_picoseconds += static_cast<uint64_t>(std::llround(nanoseconds * kPicosecondsPerNanosecond));
}

void hold_clock(bool held) { clock_held = held; }

uint64_t clock_picoseconds() {
  std::lock_guard<std::mutex> lock(mutex);
  return now_picoseconds;
}

void count_launch(const std::string& kernel_name, const LaunchResult& result) {
  std::lock_guard<std::mutex> lock(mutex);
  reports[kernel_name] = result.report;
  if (!result.executed) return;
  KernelStatistics& entry = statistics[kernel_name];
  ++entry.launches;
  entry.nanoseconds += result.nanoseconds;
  for (const auto& [name, count] : kCounts) entry.counts.*count += result.counts.*count;
}

double copy_nanoseconds(size_t bytes, Link link) {
  const double size = static_cast<double>(bytes);
  if (link == Link::host) return kHostCopyNanoseconds + size / kHostLinkBytesPerNanosecond;
  return kLaunchNanoseconds + 2 * size / kHbmBytesPerNanosecond;  // read and written
}

double fill_nanoseconds(size_t bytes) {
  return kLaunchNanoseconds + static_cast<double>(bytes) / kHbmBytesPerNanosecond;
}

}  // namespace gfx950::hip

using namespace gfx950::hip;

extern "C" {

double gfx950_clock_now_ns() { return static_cast<double>(clock_picoseconds()) / kPicosecondsPerNanosecond; }
uint64_t gfx950_clock_now_ps() { return clock_picoseconds(); }
void gfx950_clock_advance_ns(double nanoseconds) { advance_clock(nanoseconds); }
void gfx950_charge_device_copy(size_t bytes) { advance_clock(copy_nanoseconds(bytes, Link::device)); }
void gfx950_charge_host_copy(size_t bytes) { advance_clock(copy_nanoseconds(bytes, Link::host)); }

uint64_t gfx950_launch_count(const char* kernel_name) {
  if (!kernel_name) return 0;
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = statistics.find(kernel_name);
  return found == statistics.end() ? 0 : found->second.launches;
}

size_t gfx950_launch_statistics(char* buffer, size_t size) {
  std::string text = "{";
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [name, entry] : statistics) {
      if (text.size() > 1) text += ", ";
      append_json_string(&text, name);
      char fields[96];
      std::snprintf(fields, sizeof(fields), ": {\"launches\": %llu, \"nanoseconds\": %.17g",
                    static_cast<unsigned long long>(entry.launches), entry.nanoseconds);
      text += fields;
      for (const auto& [count, field] : kCounts) {
        text += std::string(", \"") + count + "\": " + std::to_string(entry.counts.*field);
      }
      text += "}";
    }
  }
  text += "}";
  return copy_text(text, buffer, size);
}

size_t gfx950_timing_report(const char* kernel_name, char* buffer, size_t size) {
  std::shared_ptr<const gfx950::TimingReport> report;
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = reports.find(kernel_name ? kernel_name : "");
    if (found != reports.end()) report = found->second;
  }
  return copy_text(report ? to_json(*report) : "null", buffer, size);
}

void gfx950_reset_launch_statistics() {
  std::lock_guard<std::mutex> lock(mutex);
  statistics.clear();
  reports.clear();
}

}  // extern "C"
