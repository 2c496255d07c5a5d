/* A thread frees what another allocates, and the other one forks at any moment of it: children allocate and free. First
   beside more threads than the library knows one by one, then without them. */
#include "memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>

enum { BLOCKS = 512, CROWD = 4200, FORKS_IN_CROWD = 60, FORKS = 300, PAUSES = 50 };
static const size_t SIZE = 200000;

static _Atomic(void *) blocks[BLOCKS];
static atomic_int is_over, is_parked, goes_on;
static atomic_long freed;

/* Stands still while the other thread forks, wherever it was. A fork that waits for it gets it to go on. */
static void park(int signal) {
    (void)signal;
    atomic_store(&is_parked, 1);
    for (int pause = 0; pause < PAUSES && !atomic_load(&goes_on); pause++) usleep(20);
}

static void *free_blocks(void *argument) {
    while (!atomic_load(&is_over)) {
        for (int block = 0; block < BLOCKS; block++) {
            void *taken = atomic_exchange(&blocks[block], NULL);
            if (!taken) continue;
            free(taken);
            atomic_fetch_add(&freed, 1);
        }
    }
    return argument;
}

static void in_child(void) {
    static void *own[BLOCKS];
    alarm(120);
    for (int block = 0; block < BLOCKS; block++) free(atomic_exchange(&blocks[block], NULL));
    for (int block = 0; block < BLOCKS; block++) CHECK((own[block] = malloc(SIZE)) != NULL);
    for (int block = 0; block < BLOCKS; block++) free(own[block]);
    malloc_trim(0);
    _exit(0);
}

/* Parent and thread give each other blocks; the parent forks so many times. */
static void exchange(int forks) {
    atomic_store(&is_over, 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_blocks, NULL) == 0);
    uint64_t state = 99;
    for (int turn = 0; turn < forks; turn++) {
        long enough = atomic_load(&freed) + (long)(next_random(&state) % (BLOCKS / 2));
        for (int block = 0; block < BLOCKS; block++) {
            char *made = malloc(SIZE);
            CHECK(made);
            *made = 1;
            free(atomic_exchange(&blocks[block], made));
        }
        while (atomic_load(&freed) < enough) sched_yield();
        atomic_store(&goes_on, 0);
        atomic_store(&is_parked, 0);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        while (!atomic_load(&is_parked)) sched_yield();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) in_child();
        atomic_store(&goes_on, 1);
        join_child(child);
        if (getenv("VERBOSE")) fprintf(stderr, "%d ", turn);
    }
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

static pthread_mutex_t crowd_stays = PTHREAD_MUTEX_INITIALIZER;

static void *stand_by(void *argument) {
    void *volatile own = malloc(100);
    CHECK(pthread_mutex_lock(&crowd_stays) == 0 && pthread_mutex_unlock(&crowd_stays) == 0);
    free(own);
    return argument;
}

static void exchange_in_crowd(void) {
    static pthread_t crowd[CROWD];
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
    CHECK(pthread_mutex_lock(&crowd_stays) == 0);
    int threads = 0;
    while (threads < CROWD && pthread_create(&crowd[threads], &small, stand_by, NULL) == 0) threads++;
    CHECK(threads == CROWD);
    exchange(FORKS_IN_CROWD);
    CHECK(pthread_mutex_unlock(&crowd_stays) == 0);
    for (int thread = 0; thread < threads; thread++) CHECK(pthread_join(crowd[thread], NULL) == 0);
}

int main(void) {
    end_if_it_hangs();
    struct sigaction action = {.sa_handler = park};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    exchange_in_crowd();
    exchange(FORKS);
    return 0;
}
