// The file of machine_turn.h: a row for each process, under a mutex that outlives who dies with it.
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
#include <unistd.h>

namespace recua::turn {

namespace {

#define RECUA_TURN_LAYOUT "1" // of the file, in its name: versions of Recua that differ do not meet
constexpr size_t most_processes = 64;
constexpr int64_t look_again_ms = 20;   // for processes that died
constexpr int64_t longest_wait_ms = 5000; // for a step of another process

struct Row {
  int32_t pid; // 0: free
  int32_t threads;
  uint64_t ticket; // of the step it computes or waits for; 0: neither
  uint32_t computes;
  cpu_set_t cores; // that it may use
};

struct Shared {
  uint32_t size;
  pthread_mutex_t mutex;
  std::atomic<uint32_t> changes; // waited on
  uint64_t tickets;
  Row rows[most_processes];
};

struct Process {
  std::mutex opening;
  std::atomic<Shared *> shared{nullptr};
  Row *row = nullptr;
  pid_t pid = 0;
  std::atomic<uint64_t> taken{0}, waited{0};
  // Of each row, the step that was waited for in vain.
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

// Rows are written whole before `ticket` or `pid` says that they count, so a process that died in
// between leaves nothing half done.
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

// An empty file of that layout, complete before it has its name.
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
  // Not over one that another process has made meanwhile.
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

// A row for this process; null where all are taken by living ones.
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

// Whether others, who asked before or compute already, leave too few of our cores. Under the lock.
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

// False where nothing changed for so long.
bool sleep_until_change(Shared &shared, uint32_t seen) {
  const timespec most{0, look_again_ms * 1000000};
  return syscall(SYS_futex, reinterpret_cast<uint32_t *>(&shared.changes), FUTEX_WAIT, seen, &most, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

void tell_change(Shared &shared) {
  shared.changes.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&shared.changes), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Until it is this process's turn, or there is no need to wait for that any more. On all threads of
// the team: whoever finds it out sets `over`, and the others, woken by the same change, go on.
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
    const Lock lock(shared);
    leave_out_the_dead(shared);
  }
  if (!told) tell_change(shared); // nobody woke the others
}

} // namespace

bool share(const std::string &name) {
  Process &me = process();
  const std::lock_guard<std::mutex> guard(me.opening);
  if (me.shared != nullptr) return true;
  // What a mutex looks like is the C library's own.
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
  // A process that ends in an orderly way leaves its row; of others the next one finds that they
  // died.
  std::atexit([] {
    Process &me = process();
    Shared *shared = me.shared;
    const Lock lock(*shared);
    if (me.row->pid == me.pid) *me.row = Row{};
  });
  return true;
}

Counts counts() { return {process().taken, process().waited}; }

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
