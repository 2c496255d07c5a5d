/* Programs that filter their system calls, so that the kernel ends them at others than those that they know: for one thread or
   for all. They are not paged. One that is paged when it does that is as before, since its filter has what the library calls on
   its threads. */
#include "memory.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { PAGES = 12000, ROUNDS = 3 };

/* A clock may be a call, too, in a virtual machine. */
static const int KNOWN[] = {SYS_read, SYS_write, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mincore, SYS_brk, SYS_futex,
    SYS_exit, SYS_exit_group, SYS_clock_nanosleep, SYS_nanosleep, SYS_clock_gettime, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_gettid, SYS_getpid, SYS_ioctl, SYS_pread64, SYS_sched_yield};
enum { COUNT = sizeof KNOWN / sizeof *KNOWN };

enum way { BY_PRCTL, OF_ONE_THREAD, OF_ALL_THREADS };

/* Lets through these calls. */
static void filter_but(const int *known, int count, enum way way) {
    struct sock_filter steps[COUNT + 3];
    int n = 0;
    steps[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++)
        steps[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, known[i], count - i, 0);
    steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog all = {n, steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (way == BY_PRCTL) CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0);
    else
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, way == OF_ALL_THREADS ? SECCOMP_FILTER_FLAG_TSYNC : 0, &all) == 0);
}

static void filter(enum way way) { filter_but(KNOWN, COUNT, way); }

/* What a worker in a sandbox does at the least. */
static const int FEW[] = {SYS_write, SYS_exit_group, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_execve};

static void check_few_calls(void (*end)(int)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        filter_but(FEW, sizeof FEW / sizeof *FEW, BY_PRCTL);
        char *words[] = {"/nonexistent", NULL};
        for (int round = 0; round < 2; round++) {
            size_t bytes = (1 << 20) << 6 * round;
            char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
            mprotect(memory, 4096, PROT_READ);
            madvise(memory, 4096, MADV_DONTNEED);
            munmap(memory, bytes);
            execv(words[0], words);
        }
        end(0);
    }
    join_child(child);
}

static void use(uint64_t *memory) {
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t page = 0; page < PAGES; page++) {
            fill(memory, page, round);
            if (page % 100 == 0) usleep(1000);
        }
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, round));
    }
}

static void check_child(enum way way) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t *memory = map_pages(PAGES);
        filter(way);
        use(memory);
        exit(0);
    }
    join_child(child);
}

int main(void) {
    end_if_it_hangs();
    for (enum way way = BY_PRCTL; way <= OF_ALL_THREADS; way++) check_child(way);
    void (*ends[])(int) = {exit, _exit, _Exit, quick_exit};
    for (int i = 0; i < 4; i++) check_few_calls(ends[i]);
    /* Calls that come back as signals: the library's would, too. */
    char selector = 0;
    CHECK(prctl(59, 1, 0, 0, &selector) == -1 && errno == EINVAL);
    CHECK(prctl(59, 0, 0, 0, 0) == 0);
    uint64_t *memory = map_pages(PAGES);
    use(memory);
    wait_until_paged(memory, PAGES);
    filter(OF_ONE_THREAD);
    use(memory);
    return 0;
}
