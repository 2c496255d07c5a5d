/* A program that limits its own data, and whose signal handler maps memory and forks at any moment. */
#include "memory.h"

#include <sys/resource.h>
#include <sys/time.h>

enum { PAGES = 12000, PART = 64, SIGNALS = 5000 };

static volatile int handled;

static void handle(int signal) {
    (void)signal;
    int before = errno;
    void *part = mmap(NULL, PART * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(part != MAP_FAILED && munmap(part, PART * PAGE) == 0);
    if (handled++ % 64 == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(0);
        join_child(child);
    }
    errno = before;
}

int main(void) {
    end_if_it_hangs();
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 3);
    wait_until_paged(memory, PAGES);
    struct rlimit limit = {8ul << 30, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0 && setrlimit(RLIMIT_AS, &limit) == 0);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 200}, {0, 200}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (handled < SIGNALS) {
        uint64_t *part = map_pages(PART);
        CHECK(munmap(part, PART * PAGE) == 0);
    }
    struct itimerval never = {0};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 3));
    return 0;
}
