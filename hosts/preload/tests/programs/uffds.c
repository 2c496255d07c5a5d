/* A program that has the faults of some of its memory by a userfaultfd of its own: registered before it is paged, by calls
   that the library does not see, and afterwards. */
#include "memory.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { PAGES = 12000, OWN = 16 };

static int uffd;

static void *resolve(void *unused) {
    (void)unused;
    static char content[PAGE] __attribute__((aligned(PAGE)));
    memset(content, 'c', PAGE);
    for (;;) {
        struct uffd_msg message;
        struct pollfd ready = {uffd, POLLIN, 0};
        if (poll(&ready, 1, -1) < 1 || read(uffd, &message, sizeof message) != sizeof message) continue;
        struct uffdio_copy copy = {
            .dst = message.arg.pagefault.address & ~(PAGE - 1),
            .src = (uintptr_t)content,
            .len = PAGE,
        };
        CHECK(ioctl(uffd, UFFDIO_COPY, &copy) == 0 || errno == EEXIST);
    }
}

static struct uffdio_register registration(uint64_t *memory) {
    struct uffdio_register registration = {
        .range = {(uintptr_t)memory, OWN * PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    return registration;
}

static void check(uint64_t *memory) {
    for (size_t page = 0; page < OWN; page++) CHECK(*((char *)memory + page * PAGE) == 'c');
    /* What its monitor discards is its monitor's again. */
    CHECK(madvise(memory, OWN * PAGE, MADV_DONTNEED) == 0);
    memset(memory, 0, 8);
    CHECK(((char *)memory)[9] == 'c');
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(((char *)memory)[9] == 'c' ? 7 : 8);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(munmap(memory, OWN * PAGE) == 0);
}

int main(void) {
    end_if_it_hangs();
    uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    if (uffd < 0) return 0; /* Without the right to it there is nothing to look at. */
    CHECK(ioctl(uffd, UFFDIO_API, &api) == 0);
    uint64_t *seen = map_pages(OWN), *unseen = map_pages(OWN), *late = map_pages(OWN);
    struct uffdio_register request = registration(seen);
    CHECK(ioctl(uffd, UFFDIO_REGISTER, &request) == 0);
    request = registration(unseen);
    CHECK(syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &request) == 0);
    pthread_t resolver;
    CHECK(pthread_create(&resolver, NULL, resolve, NULL) == 0);
    for (uint64_t page = 0; page < OWN / 2; page++) fill(late, page, 1);
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    check(seen);
    check(unseen);
    request = registration(late);
    CHECK(ioctl(uffd, UFFDIO_REGISTER, &request) == 0);
    for (uint64_t page = 0; page < OWN / 2; page++) CHECK(holds(late, page, 1));
    CHECK(((char *)late)[(OWN - 1) * PAGE] == 'c');
    CHECK(munmap(late, OWN * PAGE) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
