// The shared file of machine_turn.h: a row per process. It has no lock, because a process may be
// stopped or killed at any moment, and nobody must have to wait for it then. Tickets decide, as in
// Lamport's bakery: a process first announces that it is choosing one, then shows it, and only
// then looks at the others. So of two that come at once, at least one sees the other.
#include "thread/machine_turn.h"
#include "machine/team.h"

#if defined(__linux__)

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <string_view>
#include <unistd.h>

namespace recua::turn {

namespace {

// Version of the file's layout. Part of the file's name, so that versions of Recua with different
// layouts do not share a file.
#define RECUA_TURN_LAYOUT "2"
constexpr size_t most_processes = 64;
constexpr int64_t look_again_ms = 20; // how often to look for processes that died or were stopped
constexpr int64_t longest_wait_ms = 5000; // for another process's step
constexpr uint64_t choosing = UINT64_MAX; // the ticket of a process that is about to take one

// Written by its process alone, except that others free the row of a process that died.
struct Row {
  std::atomic<int32_t> pid; // 0: free
  std::atomic<int32_t> threads;
  std::atomic<uint64_t> ticket; // of the step that it computes or waits for; 0: neither
  std::atomic<uint32_t> computes;
  cpu_set_t cores; // the cores it may use
};

// A new file is all zeros.
struct Shared {
  std::atomic<uint32_t> changes; // a futex
  std::atomic<uint64_t> tickets;
  Row rows[most_processes];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "a lock would be in the process, not in the file");

struct Process {
  std::mutex opening;
  std::atomic<Shared *> shared{nullptr};
  Row *row = nullptr;
  std::atomic<uint64_t> taken{0}, waited{0}, skipped{0};
  // For the threads that wait().
  std::mutex looking;
  int64_t look_at_ms = 0; // for processes that died or were stopped
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

// Opens the file, and makes it if there is none.
Shared *map(const std::string &path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return nullptr;
  struct stat about {};
  const bool ours = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid();
  // Takes the space, so that no write to the memory fails for a full disk.
  const bool sized = ours && (about.st_size >= off_t{sizeof(Shared)} || posix_fallocate(file, 0, sizeof(Shared)) == 0);
  void *memory = sized ? mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared *>(memory);
}

// A letter, as in /proc/PID/stat; 0 if it cannot be read. It is behind the process's name, which is
// in brackets and may hold any character.
char state_of(int32_t pid) {
  const int file = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[256];
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  const std::string_view stat(text, size < 0 ? 0 : static_cast<size_t>(size));
  const size_t name_end = stat.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= stat.size() ? 0 : stat[name_end + 2];
}

// A zombie, which its parent has not noticed yet, is dead: it computes nothing.
bool alive(int32_t pid) { return (kill(pid, 0) == 0 || errno != ESRCH) && state_of(pid) != 'Z'; }

// Whether all threads of a process stand still, as after Ctrl-Z.
bool stopped(int32_t pid) {
  const char state = state_of(pid);
  return state == 'T' || state == 't';
}

void leave_out_the_dead(Shared &shared) {
  for (Row &row : shared.rows) {
    int32_t pid = row.pid;
    if (pid != 0 && !alive(pid)) row.pid.compare_exchange_strong(pid, 0);
  }
}

// Takes a row for this process; null if live processes hold all of them.
Row *enter(Shared &shared) {
  leave_out_the_dead(shared);
  const int32_t me = getpid();
  // Rows with this number belonged to a process that died.
  for (Row &row : shared.rows) {
    int32_t pid = me;
    row.pid.compare_exchange_strong(pid, 0);
  }
  for (Row &row : shared.rows) {
    int32_t pid = 0;
    if (!row.pid.compare_exchange_strong(pid, me)) continue;
    row.ticket = 0;
    row.computes = 0;
    CPU_ZERO(&row.cores);
    sched_getaffinity(0, sizeof row.cores, &row.cores);
    return &row;
  }
  return nullptr;
}

bool share_cores(const Row &a, const Row &b) {
  cpu_set_t both;
  CPU_AND(&both, &a.cores, &b.cores);
  return CPU_COUNT(&both) > 0;
}

// The ticket of a process. Choosing takes some instructions; who does not finish is to be waited
// for like one that came earlier.
uint64_t ticket_of(const Row &row) {
  uint64_t ticket = row.ticket;
  for (int tries = 0; ticket == choosing && tries < 100; tries++) {
    sched_yield();
    ticket = row.ticket;
  }
  return ticket == choosing ? 1 : ticket;
}

// Whether processes that asked earlier, or already compute, leave too few of our cores.
bool must_wait(const Shared &shared, const Process &me) {
  const int32_t own = me.row->threads;
  int32_t needed = own;
  for (size_t i = 0; i < most_processes; i++) {
    const Row &row = shared.rows[i];
    if (&row == me.row || row.pid == 0) continue;
    const uint64_t ticket = ticket_of(row);
    if (ticket == 0 || ticket == me.in_vain[i]) continue;
    if (row.computes == 0 && ticket > me.row->ticket) continue;
    if (share_cores(row, *me.row)) needed += row.threads;
  }
  return needed > own && needed > CPU_COUNT(&me.row->cores);
}

bool others_wait(const Shared &shared, const Process &me) {
  return std::any_of(std::begin(shared.rows), std::end(shared.rows), [&me](const Row &row) {
    return &row != me.row && row.pid != 0 && row.ticket != 0 && row.computes == 0 && share_cores(row, *me.row);
  });
}

void skip_the_stopped(const Shared &shared, Process &me) {
  for (size_t i = 0; i < most_processes; i++) {
    const Row &row = shared.rows[i];
    if (&row == me.row || row.pid == 0) continue;
    const uint64_t ticket = ticket_of(row);
    if (ticket == 0 || ticket == me.in_vain[i] || !stopped(row.pid)) continue;
    me.skipped++;
    me.in_vain[i] = ticket;
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
      const std::lock_guard<std::mutex> guard(me.looking);
      if (over) return;
      const int64_t time_ms = now_ms();
      if (time_ms >= me.look_at_ms) {
        leave_out_the_dead(shared);
        skip_the_stopped(shared, me);
        me.look_at_ms = time_ms + look_again_ms;
      }
      const bool too_long = time_ms >= until_ms;
      for (size_t i = 0; too_long && i < most_processes; i++) me.in_vain[i] = ticket_of(shared.rows[i]);
      if (too_long || given_up() || !must_wait(shared, me)) {
        me.row->computes = 1;
        over = true;
        break;
      }
    }
    told = sleep_until_change(shared, seen);
  }
  if (!told) tell_change(shared); // nobody has woken the others
}

} // namespace

bool share(const std::string &name) {
  Process &me = process();
  const std::lock_guard<std::mutex> guard(me.opening);
  if (me.shared != nullptr) return true;
  Shared *shared = map(name + "-" RECUA_TURN_LAYOUT);
  if (shared == nullptr) return false;
  me.row = enter(*shared);
  if (me.row == nullptr) {
    munmap(shared, sizeof(Shared));
    return false;
  }
  me.shared = shared;
  // A process that exits normally clears its row. The next process finds the rows of those that
  // died.
  std::atexit([] {
    // Not in a process forked from it.
    int32_t pid = getpid();
    process().row->pid.compare_exchange_strong(pid, 0);
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
  me.row->threads = threads;
  me.row->ticket = choosing;
  me.row->ticket = ++shared->tickets;
  if (!must_wait(*shared, me)) {
    me.row->computes = 1;
    return;
  }
  me.waited++;
  me.look_at_ms = now_ms() + look_again_ms;
  std::atomic<bool> over{false};
  team_waits([&] { wait(*shared, me, given_up, over); });
}

bool Turn::wanted() const { return taken && others_wait(*process().shared, process()); }

Turn::~Turn() {
  if (!taken) return;
  Process &me = process();
  me.row->computes = 0;
  me.row->ticket = 0;
  if (others_wait(*me.shared, me)) tell_change(*me.shared);
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
