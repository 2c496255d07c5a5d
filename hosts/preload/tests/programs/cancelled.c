/* A thread that is to be cancelled makes calls that are no cancellation points, and in which the library waits. */
#include "memory.h"
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { PAGES = 12000, OWN = 16 };

static uint64_t *memory;
static int steps;

static void *works(void *argument) {
    CHECK(pthread_cancel(pthread_self()) == 0);
    pid_t child = fork();
    if (child == 0) _exit(holds(memory, 0, 1) ? 0 : 1);
    CHECK(child > 0);
    steps++;
    int own = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(own >= 0 && ioctl(own, UFFDIO_API, &api) == 0);
    uint64_t *pages = map_pages(OWN);
    struct uffdio_register range = {.range = {(uintptr_t)pages, OWN * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(own, UFFDIO_REGISTER, &range) == 0);
    steps++;
    CHECK(munmap(pages, OWN * PAGE) == 0);
    steps++;
    pthread_testcancel();
    return argument;
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, works, NULL) == 0 && pthread_join(thread, &result) == 0);
    CHECK(steps == 3 && result == PTHREAD_CANCELED);
    int status;
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
