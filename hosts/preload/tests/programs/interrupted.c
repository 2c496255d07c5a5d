/* A signal's handler forks while its thread is anywhere in `pthread_create`, which fails for want of room. */
#include "memory.h"

#include <pthread.h>
#include <time.h>

enum { PAGES = 6000, FORKS = 400 };

static uint64_t *memory;
static atomic_int forks;

static void fork_in_handler(int signal) {
    (void)signal;
    int before = errno;
    uint64_t page = forks % PAGES;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(holds(memory, page, 1) ? 0 : 1);
    join_child(child);
    forks++;
    errno = before;
}

static void *do_nothing(void *argument) { return argument; }

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 1ul << 50) == 0);
    uint64_t state = 5;
    while (forks < FORKS) {
        int before = forks;
        struct itimerspec once = {.it_value = {0, 20000 + next_random(&state) % 100000}};
        CHECK(timer_settime(timer, 0, &once, NULL) == 0);
        while (forks == before) {
            pthread_t thread;
            CHECK(pthread_create(&thread, &attributes, do_nothing, NULL) == EAGAIN);
        }
    }
    return 0;
}
