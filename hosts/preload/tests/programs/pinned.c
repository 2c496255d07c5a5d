/* What a device writes to memory of the program is there afterwards: buffers that are registered with io_uring, and direct
   I/O. Where pages are copied, the program is refused both and goes on without them. */
#include "memory.h"
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGES = 12000, REGISTERED = 64, ROUNDS = 6 };

static void press(uint64_t *memory, uint64_t version) {
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, version);
}

/* The version that memory has afterwards. */
static uint64_t registered_buffers(uint64_t *memory, int refused) {
    struct io_uring_params parameters = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0) {
        CHECK(errno == ENOSYS || (errno == EPERM && !refused));
        return 1;
    }
    CHECK(!refused);
    char *entries = mmap(NULL, parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
                         MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, parameters.sq_entries * sizeof *entry, PROT_READ | PROT_WRITE, MAP_SHARED,
                                      ring, IORING_OFF_SQES);
    CHECK(entries != MAP_FAILED && entry != MAP_FAILED);
    uint64_t *buffer = map_pages(REGISTERED);
    for (uint64_t page = 0; page < REGISTERED; page++) fill(buffer, page, 1);
    struct iovec all = {buffer, REGISTERED * PAGE};
    CHECK(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &all, 1) == 0);
    int file = memfd_create("content", MFD_CLOEXEC);
    CHECK(file >= 0);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t page_content[WORDS];
        for (uint64_t page = 0; page < REGISTERED; page++) {
            for (size_t word = 0; word < WORDS; word++) page_content[word] = word_of(page, 100 + round, word);
            CHECK(pwrite(file, page_content, PAGE, page * PAGE) == PAGE);
        }
        press(memory, round);
        memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_READ_FIXED;
        entry->fd = file;
        entry->addr = (uintptr_t)buffer;
        entry->len = REGISTERED * PAGE;
        ((unsigned *)(entries + parameters.sq_off.array))[0] = 0;
        atomic_fetch_add((atomic_uint *)(entries + parameters.sq_off.tail), 1);
        CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
        press(memory, round + 1);
        for (uint64_t page = 0; page < REGISTERED; page++) CHECK(holds(buffer, page, 100 + round));
    }
    CHECK(close(ring) == 0 && close(file) == 0);
    return ROUNDS + 1;
}

int main(void) {
    end_if_it_hangs();
    const char *run = getenv("WARMSWAP_RUN");
    int refused = run && strstr(run, "\"copy\"") != NULL;
    uint64_t *memory = map_pages(PAGES);
    press(memory, 1);
    wait_until_paged(memory, PAGES);
    int direct = open("/proc/self/exe", O_RDONLY | O_DIRECT);
    CHECK(!refused || (direct < 0 && errno == EINVAL));
    int plain = open("/proc/self/exe", O_RDONLY);
    CHECK(plain >= 0);
    CHECK(!refused || (fcntl(plain, F_SETFL, O_DIRECT) < 0 && errno == EINVAL));
    CHECK(fcntl(plain, F_SETFL, 0) == 0);
    uint64_t version = registered_buffers(memory, refused);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, version));
    return 0;
}
