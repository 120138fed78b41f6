#include "crew.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace gfx950 {
namespace {

struct Job {
  const std::function<void(unsigned)>* work = nullptr;
  unsigned begun = 0, active = 0;  // helpers
  bool closed = false;
};

class Crew {
 public:
  void run(unsigned helpers, const std::function<void(unsigned)>& work) {
    auto job = std::make_shared<Job>();
    job->work = &work;
    {
      std::lock_guard lock(mutex_);
      for (; threads_ < helpers; ++threads_) std::thread([this] { serve(); }).detach();
      for (unsigned k = 0; k < helpers; ++k) tickets_.push_back(job);
    }
    wake_.notify_all();
    work(0);
    std::unique_lock lock(mutex_);
    job->closed = true;
    done_.wait(lock, [&] { return job->active == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !tickets_.empty(); });
      const std::shared_ptr<Job> job = tickets_.front();
      tickets_.pop_front();
      if (job->closed) continue;
      const unsigned number = ++job->begun;
      ++job->active;
      lock.unlock();
      (*job->work)(number);
      lock.lock();
      if (--job->active == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::shared_ptr<Job>> tickets_;
  unsigned threads_ = 0;
};

}  // namespace

void run_with_helpers(unsigned helpers, const std::function<void(unsigned)>& work) {
  if (helpers == 0) {
    work(0);
    return;
  }
  // Never destroyed: its threads wait in it until the process ends. A forked child has none of them and starts afresh.
  static std::mutex mutex;
  static Crew* crew = nullptr;
  static pid_t owner = 0;
  Crew* mine;
  {
    std::lock_guard lock(mutex);
    if (owner != getpid()) {
      crew = new Crew;
      owner = getpid();
    }
    mine = crew;
  }
  mine->run(helpers, work);
}

}  // namespace gfx950
