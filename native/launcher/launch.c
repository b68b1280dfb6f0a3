/* Starts a program that can do nothing but compute: it reads and writes only the paths named,
   starts no other process, has no network and no superuser powers. Linux only: Landlock for files
   and TCP, seccomp for the rest. This holds for the program's whole life, whatever code runs in it.

     recua-launch [--need] [--read PATH]... [--write PATH]... [--share PATH]... [--device PATH]...
                  [--run PATH]... -- PROGRAM [ARGUMENT]...

   A path includes everything below it; paths that do not exist or cannot be opened for lack of
   permission are skipped. --share allows to write, but not to remove or shorten what others have in
   their memory; --device also allows ioctl(). The environment tells the program what is in force:
   RECUA_CONFINED=landlock:7,seccomp. NODE_OPTIONS is removed: the modules and debuggers that it
   loads need files and ports. With --need the program is not started if the kernel has no Landlock.
   Exit codes: 125 for wrong arguments, 126 if the program could not be confined, 127 if it does not
   start. The program is killed when the thread that started it ends, even if it is stuck or
   stopped.

   Freestanding: without a C library, so that one file runs beside any of them. */

#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* --- System calls, without a C library. */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
enum { SYS_write = 1, SYS_close = 3, SYS_socket = 41, SYS_clone = 56, SYS_fork = 57, SYS_vfork = 58, SYS_execve = 59, SYS_ptrace = 101, SYS_pivot_root = 155, SYS_prctl = 157,
       SYS_capget = 125, SYS_capset = 126, SYS_chroot = 161, SYS_mount = 165, SYS_umount2 = 166, SYS_swapon = 167, SYS_reboot = 169, SYS_init_module = 175,
       SYS_delete_module = 176, SYS_exit_group = 231, SYS_kexec_load = 246, SYS_add_key = 248, SYS_request_key = 249,
       SYS_keyctl = 250, SYS_openat = 257, SYS_unshare = 272, SYS_fallocate = 285, SYS_perf_event_open = 298, SYS_open_by_handle_at = 304,
       SYS_setns = 308, SYS_prlimit64 = 302, SYS_process_vm_readv = 310, SYS_process_vm_writev = 311, SYS_finit_module = 313, SYS_seccomp = 317,
       SYS_kexec_file_load = 320, SYS_bpf = 321, SYS_execveat = 322, SYS_userfaultfd = 323,
       SYS_chmod = 90, SYS_fchmod = 91, SYS_chown = 92, SYS_fchown = 93, SYS_lchown = 94, SYS_utime = 132, SYS_setxattr = 188, SYS_lsetxattr = 189,
       SYS_fsetxattr = 190, SYS_removexattr = 197, SYS_lremovexattr = 198, SYS_fremovexattr = 199, SYS_utimes = 235, SYS_fchownat = 260,
       SYS_futimesat = 261, SYS_fchmodat = 268, SYS_utimensat = 280 };
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
enum { SYS_setxattr = 5, SYS_lsetxattr = 6, SYS_fsetxattr = 7, SYS_removexattr = 14, SYS_lremovexattr = 15, SYS_fremovexattr = 16, SYS_fchmod = 52,
       SYS_fchmodat = 53, SYS_fchownat = 54, SYS_fchown = 55, SYS_utimensat = 88, SYS_umount2 = 39, SYS_mount = 40, SYS_pivot_root = 41, SYS_fallocate = 47, SYS_chroot = 51, SYS_openat = 56, SYS_close = 57, SYS_write = 64,
       SYS_exit_group = 94, SYS_capget = 90, SYS_capset = 91, SYS_unshare = 97, SYS_kexec_load = 104, SYS_init_module = 105, SYS_delete_module = 106,
       SYS_ptrace = 117, SYS_reboot = 142, SYS_prctl = 167, SYS_socket = 198, SYS_add_key = 217, SYS_request_key = 218,
       SYS_keyctl = 219, SYS_clone = 220, SYS_execve = 221, SYS_swapon = 224, SYS_perf_event_open = 241, SYS_prlimit64 = 261, SYS_open_by_handle_at = 265,
       SYS_setns = 268, SYS_process_vm_readv = 270, SYS_process_vm_writev = 271, SYS_finit_module = 273, SYS_seccomp = 277,
       SYS_bpf = 280, SYS_execveat = 281, SYS_userfaultfd = 282, SYS_kexec_file_load = 294 };
#else
#error "recua-launch is for x86-64 and arm64."
#endif
/* Newer calls have the same number on all architectures. */
enum { SYS_io_uring_setup = 425, SYS_clone3 = 435, SYS_landlock_create_ruleset = 444, SYS_landlock_add_rule = 445, SYS_landlock_restrict_self = 446,
       SYS_fchmodat2 = 452, SYS_setxattrat = 463, SYS_removexattrat = 466, SYS_file_setattr = 469 };

static long call(long number, long a, long b, long c, long d, long e) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#endif
}

enum { E_NOENT = 2, E_ACCES = 13, E_NOTDIR = 20, E_INVAL = 22, E_PERM = 1, E_NOSYS = 38 };

static size_t length(const char *text) {
  size_t count = 0;
  while (text[count] != '\0') count++;
  return count;
}

static int is(const char *a, const char *b) {
  while (*a != '\0' && *a == *b) a++, b++;
  return *a == *b;
}

static int begins(const char *text, const char *with) {
  while (*with != '\0' && *text == *with) text++, with++;
  return *with == '\0';
}

static void say(const char *text) { call(SYS_write, 2, (long)text, (long)length(text), 0, 0); }

static void fail(int code, const char *text, const char *name) {
  say("recua-launch: ");
  say(text);
  say(name);
  say("\n");
  for (;;) call(SYS_exit_group, code, 0, 0, 0, 0);
}

/* --- Landlock: the files allowed. */

enum {
  RUN = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, REMOVE_DIR = 1 << 4, REMOVE_FILE = 1 << 5,
  MAKE_DIR = 1 << 7, MAKE_FILE = 1 << 8, RENAME = 1 << 13, TRUNCATE = 1 << 14, IOCTL_DEV = 1 << 15,
  OF_A_FILE = RUN | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
  READS = READ_FILE | READ_DIR,
  SHARES = READS | WRITE_FILE | MAKE_FILE,
  WRITES = READS | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | RENAME | TRUNCATE,
};

struct ruleset {
  uint64_t files, network, scoped;
};

struct rule {
  uint64_t rights;
  int32_t folder;
} __attribute__((packed));

struct landlock {
  int version, ruleset;
  uint64_t handled;
};

static struct landlock open_landlock(void) {
  /* The number of rights that each version of the interface knows. */
  static const unsigned char known[] = {0, 13, 14, 15, 15, 16};
  const long version = call(SYS_landlock_create_ruleset, 0, 0, 1, 0, 0);
  struct landlock all = {(int)version, -1, 0};
  if (version < 1) return all;
  all.handled = (1u << known[version < 5 ? version : 5]) - 1;
  struct ruleset wanted = {all.handled, version >= 4 ? 3 : 0, version >= 6 ? 3 : 0};
  const size_t bytes = version >= 6 ? sizeof wanted : version >= 4 ? 16 : 8;
  all.ruleset = (int)call(SYS_landlock_create_ruleset, (long)&wanted, (long)bytes, 0, 0, 0);
  if (all.ruleset < 0) all.version = 0;
  return all;
}

static void allow(const struct landlock *all, const char *path, uint64_t rights) {
  if (all->version < 1) return;
  const long folder = call(SYS_openat, -100, (long)path, 010000000 | 02000000 /* O_PATH | O_CLOEXEC */, 0, 0);
  if (folder == -E_NOENT || folder == -E_NOTDIR || folder == -E_ACCES) return;
  if (folder < 0) fail(126, "cannot open ", path);
  struct rule one = {rights & all->handled, (int32_t)folder};
  long done = call(SYS_landlock_add_rule, all->ruleset, 1, (long)&one, 0, 0);
  if (done == -E_INVAL) { /* not a folder */
    one.rights &= OF_A_FILE;
    done = call(SYS_landlock_add_rule, all->ruleset, 1, (long)&one, 0, 0);
  }
  if (done < 0) fail(126, "cannot allow ", path);
  call(SYS_close, folder, 0, 0, 0, 0);
}

/* --- seccomp: the system calls refused. */

#define REFUSED(number, error) \
  {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (error)}

#define CALL_NUMBER {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)}

/* Unless this argument, an int, is 0. */
#define REFUSED_UNLESS_0(number, argument, error) \
  {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, number}, \
  {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 8 * (argument)}, \
  {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (error)}, CALL_NUMBER

/* Unless this argument, a pointer, is null. */
#define REFUSED_UNLESS_NULL(number, argument, error) \
  {BPF_JMP | BPF_JEQ | BPF_K, 0, 6, number}, \
  {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 8 * (argument)}, \
  {BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0}, \
  {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 8 * (argument) + 4}, \
  {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (error)}, CALL_NUMBER

static long filter_calls(void) {
  static struct sock_filter steps[] = {
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch)},
    {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | E_PERM},
    CALL_NUMBER,
#if defined(__x86_64__)
    {BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000}, /* x32 calls, which have their own numbers */
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | E_PERM},
#endif
    REFUSED(SYS_socket, E_ACCES),
    REFUSED(SYS_io_uring_setup, E_NOSYS), /* its operations bypass the filter */
    REFUSED(SYS_execveat, E_PERM),
    REFUSED(SYS_ptrace, E_PERM), REFUSED(SYS_process_vm_readv, E_PERM), REFUSED(SYS_process_vm_writev, E_PERM),
    REFUSED(SYS_unshare, E_PERM), REFUSED(SYS_setns, E_PERM), REFUSED(SYS_mount, E_PERM), REFUSED(SYS_umount2, E_PERM),
    REFUSED(SYS_pivot_root, E_PERM), REFUSED(SYS_chroot, E_PERM), REFUSED(SYS_open_by_handle_at, E_PERM),
    REFUSED(SYS_bpf, E_PERM), REFUSED(SYS_perf_event_open, E_PERM), REFUSED(SYS_userfaultfd, E_PERM),
    REFUSED(SYS_keyctl, E_PERM), REFUSED(SYS_add_key, E_PERM), REFUSED(SYS_request_key, E_PERM),
    REFUSED(SYS_init_module, E_PERM), REFUSED(SYS_finit_module, E_PERM), REFUSED(SYS_delete_module, E_PERM),
    REFUSED(SYS_kexec_load, E_PERM), REFUSED(SYS_kexec_file_load, E_PERM), REFUSED(SYS_reboot, E_PERM), REFUSED(SYS_swapon, E_PERM),
    /* Landlock allows these for every file of the user. */
    REFUSED(SYS_fchmod, E_PERM), REFUSED(SYS_fchmodat, E_PERM), REFUSED(SYS_fchmodat2, E_PERM),
    REFUSED(SYS_fchown, E_PERM), REFUSED(SYS_fchownat, E_PERM), REFUSED(SYS_file_setattr, E_PERM),
    REFUSED(SYS_setxattr, E_PERM), REFUSED(SYS_lsetxattr, E_PERM), REFUSED(SYS_fsetxattr, E_PERM), REFUSED(SYS_setxattrat, E_PERM),
    REFUSED(SYS_removexattr, E_PERM), REFUSED(SYS_lremovexattr, E_PERM), REFUSED(SYS_fremovexattr, E_PERM), REFUSED(SYS_removexattrat, E_PERM),
    REFUSED_UNLESS_NULL(SYS_utimensat, 1, E_PERM), /* a path; without one, the file is open */
#if defined(__x86_64__)
    REFUSED(SYS_chmod, E_PERM), REFUSED(SYS_chown, E_PERM), REFUSED(SYS_lchown, E_PERM),
    REFUSED(SYS_utime, E_PERM), REFUSED(SYS_utimes, E_PERM), REFUSED(SYS_futimesat, E_PERM),
#endif
    REFUSED_UNLESS_0(SYS_prlimit64, 0, E_PERM), /* another process, which a limit can kill */
    REFUSED_UNLESS_0(SYS_fallocate, 1, E_PERM), /* it can shorten a file */
    /* A process that it left behind would outlive it. Its flags are in memory, so that no filter can
       read them; C libraries then use clone(). */
    REFUSED(SYS_clone3, E_NOSYS),
#if defined(__x86_64__)
    REFUSED(SYS_fork, E_PERM), REFUSED(SYS_vfork, E_PERM),
#endif
    /* It makes threads, too. */
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_clone},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args)},
    {BPF_JMP | BPF_JSET | BPF_K, 1, 0, 0x10000 /* CLONE_THREAD */},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | E_PERM},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
  return call(SYS_seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 0, (long)&filter, 0, 0);
}

/* --- Capabilities: a superuser keeps only those to read and write what the rules above allow, to
   lock memory and to choose processors. */

static void drop_capabilities(void) {
  enum { DAC_OVERRIDE = 1, DAC_READ_SEARCH = 2, FOWNER = 3, IPC_LOCK = 14, SYS_NICE = 23 };
  const uint32_t kept = 1u << DAC_OVERRIDE | 1u << DAC_READ_SEARCH | 1u << FOWNER | 1u << IPC_LOCK | 1u << SYS_NICE;
  struct {
    uint32_t version;
    int32_t process;
  } header = {0x20080522, 0};
  struct {
    uint32_t effective, permitted, inheritable;
  } sets[2];
  if (call(SYS_capget, (long)&header, (long)sets, 0, 0, 0) < 0) fail(126, "cannot read capabilities", "");
  for (int i = 0; i < 2; i++) {
    const uint32_t mask = i == 0 ? kept : 0;
    sets[i].effective &= mask;
    sets[i].permitted &= mask;
    sets[i].inheritable = 0;
  }
  if (call(SYS_capset, (long)&header, (long)sets, 0, 0, 0) < 0) fail(126, "cannot give up capabilities", "");
}

/* --- Main. */

static uint64_t rights_of(const char *option) {
  if (is(option, "--read")) return READS;
  if (is(option, "--write")) return WRITES;
  if (is(option, "--share")) return SHARES;
  if (is(option, "--device")) return READS | WRITE_FILE | IOCTL_DEV;
  return is(option, "--run") ? RUN | READS : 0;
}

static char told[64] = "RECUA_CONFINED=";

static void tell(const char *text) {
  size_t at = length(told);
  while (*text != '\0') told[at++] = *text++;
  told[at] = '\0';
}

/* `stack` as the kernel sets it up: the argument count, the arguments, a null, the environment, a
   null. */
__attribute__((used, noreturn)) void launch(long *stack) {
  const long count = stack[0];
  char **arguments = (char **)(stack + 1);
  char **environment = arguments + count + 1;
  struct landlock all = open_landlock();
  int need = 0;
  long at = 1;
  for (; at < count && !is(arguments[at], "--"); at++) {
    if (is(arguments[at], "--need")) {
      need = 1;
      continue;
    }
    const uint64_t rights = rights_of(arguments[at]);
    if (rights == 0) fail(125, "expected --need, --read, --write, --share, --device, --run or --, got ", arguments[at]);
    if (at + 1 >= count) fail(125, "expected a path after ", arguments[at]);
    allow(&all, arguments[++at], rights);
  }
  if (at + 1 >= count) fail(125, "expected -- and a program", "");
  if (need && all.version < 1) fail(126, "this kernel has no Landlock", "");

  call(SYS_prctl, 1 /* PR_SET_PDEATHSIG */, 9 /* SIGKILL */, 0, 0, 0);
  if (call(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0) < 0) fail(126, "cannot give up new privileges", "");
  if (all.version >= 1) {
    if (call(SYS_landlock_restrict_self, all.ruleset, 0, 0, 0, 0) < 0) fail(126, "Landlock cannot be used", "");
    call(SYS_close, all.ruleset, 0, 0, 0, 0);
    char version[] = {'l', 'a', 'n', 'd', 'l', 'o', 'c', 'k', ':', (char)('0' + (all.version < 9 ? all.version : 9)), ',', '\0'};
    tell(version);
  }
  drop_capabilities();
  if (filter_calls() >= 0) tell("seccomp");
  else if (need) fail(126, "this kernel has no seccomp filters", "");

  static char *changed[65536];
  size_t names = 0;
  for (char **name = environment; *name != NULL && names < sizeof changed / sizeof *changed - 2; name++)
    if (!begins(*name, "NODE_OPTIONS=")) changed[names++] = *name;
  changed[names] = told;
  char **program = arguments + at + 1;
  call(SYS_execve, (long)program[0], (long)program, (long)changed, 0, 0);
  fail(127, "cannot start ", program[0]);
  __builtin_unreachable();
}

#if defined(__x86_64__)
__asm__(".text\n.globl _start\n_start:\n  xor %ebp, %ebp\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call launch\n");
#else
__asm__(".text\n.globl _start\n_start:\n  mov x29, #0\n  mov x30, #0\n  mov x0, sp\n  b launch\n");
#endif
