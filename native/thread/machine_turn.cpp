// The shared file of machine_turn.h: a row per process, under a robust mutex, which survives the
// death of its holder.
#include "thread/machine_turn.h"
#include "machine/team.h"

#if defined(__linux__)

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace recua::turn {

namespace {

// Version of the file's layout. Part of the file's name, so that versions of Recua with different
// layouts do not share a file.
#define RECUA_TURN_LAYOUT "1"
constexpr size_t most_processes = 64;
constexpr int64_t look_again_ms = 20;   // how often to look for dead processes
constexpr int64_t longest_wait_ms = 5000; // for another process's step

struct Row {
  int32_t pid; // 0: free
  int32_t threads;
  uint64_t ticket; // of the step that it computes or waits for; 0: neither
  uint32_t computes;
  cpu_set_t cores; // the cores it may use
};

struct Shared {
  uint32_t size;
  pthread_mutex_t mutex;
  std::atomic<uint32_t> changes; // a futex
  uint64_t tickets;
  Row rows[most_processes];
};

struct Process {
  std::mutex opening;
  std::atomic<Shared *> shared{nullptr};
  Row *row = nullptr;
  pid_t pid = 0;
  std::atomic<uint64_t> taken{0}, waited{0}, skipped{0};
  // By row: the ticket of a step that this process does not wait for, or no longer.
  uint64_t in_vain[most_processes] = {};
};

// Never destroyed: the compute thread may still use it at exit.
Process &process() {
  static auto *one = new Process();
  return *one;
}

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

// A row is written completely before `ticket` or `pid` makes it count, so a process that dies while
// writing leaves nothing half done.
class Lock {
public:
  explicit Lock(Shared &shared) : shared(shared) {
    if (pthread_mutex_lock(&shared.mutex) == EOWNERDEAD) pthread_mutex_consistent(&shared.mutex);
  }
  ~Lock() { pthread_mutex_unlock(&shared.mutex); }
  Lock(const Lock &) = delete;
  Lock &operator=(const Lock &) = delete;

private:
  Shared &shared;
};

// Makes an empty file with this layout; it gets its name only when it is complete.
bool make(const std::string &path) {
  const std::string draft = path + "." + std::to_string(getpid());
  const int file = open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  bool made = ftruncate(file, sizeof(Shared)) == 0;
  void *memory = made ? mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (memory != MAP_FAILED) {
    auto *shared = static_cast<Shared *>(memory);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    shared->size = sizeof(Shared);
    munmap(memory, sizeof(Shared));
  }
  close(file);
  // link() does not replace a file that another process has created in the meantime.
  made = memory != MAP_FAILED && (link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  unlink(draft.c_str());
  return made;
}

Shared *map(const std::string &path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return nullptr;
  struct stat about {};
  const bool ours = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
                    about.st_size == sizeof(Shared);
  void *memory = ours ? mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  auto *shared = static_cast<Shared *>(memory);
  if (shared->size == sizeof(Shared)) return shared;
  munmap(memory, sizeof(Shared));
  return nullptr;
}

bool alive(int32_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

void leave_out_the_dead(Shared &shared) {
  for (Row &row : shared.rows) {
    if (row.pid != 0 && !alive(row.pid)) row = Row{};
  }
}

// Whether all threads of a process stand still, as after Ctrl-Z. The state is behind its name,
// which is in brackets and may hold any character.
bool stopped(int32_t pid) {
  const int file = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[256];
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  const std::string_view stat(text, size < 0 ? 0 : static_cast<size_t>(size));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'T' || state == 't';
}

// Takes a row for this process; null if live processes hold all of them.
Row *enter(Shared &shared) {
  const Lock lock(shared);
  leave_out_the_dead(shared);
  for (Row &row : shared.rows) {
    if (row.pid != 0 && row.pid != getpid()) continue;
    row = Row{};
    CPU_ZERO(&row.cores);
    sched_getaffinity(0, sizeof row.cores, &row.cores);
    row.pid = getpid();
    return &row;
  }
  return nullptr;
}

bool share_cores(const Row &a, const Row &b) {
  cpu_set_t both;
  CPU_AND(&both, &a.cores, &b.cores);
  return CPU_COUNT(&both) > 0;
}

// Whether processes that asked earlier, or already compute, leave too few of our cores. Call under
// the lock.
bool must_wait(const Shared &shared, const Process &me) {
  int32_t needed = me.row->threads;
  for (size_t i = 0; i < most_processes; i++) {
    const Row &row = shared.rows[i];
    if (&row == me.row || row.pid == 0 || row.ticket == 0 || row.ticket == me.in_vain[i]) continue;
    if (!row.computes && row.ticket > me.row->ticket) continue;
    if (share_cores(row, *me.row)) needed += row.threads;
  }
  return needed > me.row->threads && needed > CPU_COUNT(&me.row->cores);
}

bool others_wait(const Shared &shared, const Process &me) {
  return std::any_of(std::begin(shared.rows), std::end(shared.rows), [&me](const Row &row) {
    return &row != me.row && row.ticket != 0 && !row.computes && share_cores(row, *me.row);
  });
}

// Does not hold the lock while it reads files.
void skip_the_stopped(Shared &shared, Process &me) {
  struct Seen {
    size_t at;
    int32_t pid;
    uint64_t ticket;
  };
  std::vector<Seen> seen;
  {
    const Lock lock(shared);
    for (size_t i = 0; i < most_processes; i++) {
      const Row &row = shared.rows[i];
      if (&row != me.row && row.pid != 0 && row.ticket != 0 && row.ticket != me.in_vain[i]) seen.push_back({i, row.pid, row.ticket});
    }
  }
  for (const Seen &other : seen) {
    if (!stopped(other.pid)) continue;
    const Lock lock(shared);
    if (me.in_vain[other.at] != other.ticket) me.skipped++;
    me.in_vain[other.at] = other.ticket;
  }
}

// False if nothing changed within look_again_ms.
bool sleep_until_change(Shared &shared, uint32_t seen) {
  const timespec most{0, look_again_ms * 1000000};
  return syscall(SYS_futex, reinterpret_cast<uint32_t *>(&shared.changes), FUTEX_WAIT, seen, &most, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

void tell_change(Shared &shared) {
  shared.changes.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&shared.changes), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Waits until it is this process's turn, or until waiting is no longer needed. Runs on all threads
// of the team: the first to notice sets `over`; the others, woken by the same change, return.
void wait(Shared &shared, Process &me, const std::function<bool()> &given_up, std::atomic<bool> &over) {
  const int64_t until_ms = now_ms() + longest_wait_ms;
  bool told = true;
  while (true) {
    const uint32_t seen = shared.changes;
    {
      const Lock lock(shared);
      if (over) return;
      const bool too_long = now_ms() >= until_ms;
      for (size_t i = 0; too_long && i < most_processes; i++) me.in_vain[i] = shared.rows[i].ticket;
      if (too_long || given_up() || !must_wait(shared, me)) {
        me.row->computes = 1;
        over = true;
        break;
      }
    }
    told = sleep_until_change(shared, seen);
    {
      const Lock lock(shared);
      leave_out_the_dead(shared);
    }
    if (!told) skip_the_stopped(shared, me);
  }
  if (!told) tell_change(shared); // nobody has woken the others
}

} // namespace

bool share(const std::string &name) {
  Process &me = process();
  const std::lock_guard<std::mutex> guard(me.opening);
  if (me.shared != nullptr) return true;
  // The layout of a mutex depends on the C library.
#ifdef __GLIBC__
  const std::string path = name + "-" RECUA_TURN_LAYOUT "-glibc";
#else
  const std::string path = name + "-" RECUA_TURN_LAYOUT "-other";
#endif
  Shared *shared = map(path);
  if (shared == nullptr && make(path)) shared = map(path);
  if (shared == nullptr) return false;
  me.row = enter(*shared);
  me.pid = getpid();
  if (me.row == nullptr) {
    munmap(shared, sizeof(Shared));
    return false;
  }
  me.shared = shared;
  // A process that exits normally clears its row. The next process finds the rows of those that
  // died.
  std::atexit([] {
    Process &me = process();
    Shared *shared = me.shared;
    const Lock lock(*shared);
    if (me.row->pid == me.pid) *me.row = Row{};
  });
  return true;
}

Counts counts() { return {process().taken, process().waited, process().skipped}; }

Turn::Turn(int32_t threads, const std::function<bool()> &given_up) {
  Process &me = process();
  Shared *shared = me.shared;
  if (shared == nullptr || threads == 0) return;
  taken = true;
  me.taken++;
  {
    const Lock lock(*shared);
    me.row->threads = threads;
    me.row->ticket = ++shared->tickets;
    if (!must_wait(*shared, me)) {
      me.row->computes = 1;
      return;
    }
  }
  me.waited++;
  std::atomic<bool> over{false};
  team_waits([&] { wait(*shared, me, given_up, over); });
}

bool Turn::wanted() const {
  if (!taken) return false;
  Process &me = process();
  const Lock lock(*me.shared);
  return others_wait(*me.shared, me);
}

Turn::~Turn() {
  if (!taken) return;
  Process &me = process();
  Shared *shared = me.shared;
  bool handed_over = false;
  {
    const Lock lock(*shared);
    me.row->ticket = 0;
    me.row->computes = 0;
    handed_over = others_wait(*shared, me);
  }
  if (handed_over) tell_change(*shared);
}

} // namespace recua::turn

#else

namespace recua::turn {

bool share(const std::string &) { return false; }
Counts counts() { return {}; }
Turn::Turn(int32_t, const std::function<bool()> &) {}
Turn::~Turn() { (void)taken; }
bool Turn::wanted() const { return false; }

} // namespace recua::turn

#endif
