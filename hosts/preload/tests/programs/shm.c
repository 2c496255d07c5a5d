/* System V shared memory that is attached over memory of the program, and where there was some. */
#include "memory.h"
#include <sys/ipc.h>
#include <sys/shm.h>

enum { PAGES = 12000, SHARED = 64 };

int main(void) {
    end_if_it_hangs();
    uint64_t *over = map_pages(SHARED), *memory = map_pages(PAGES);
    int id = shmget(IPC_PRIVATE, SHARED * PAGE, IPC_CREAT | 0600);
    CHECK(id >= 0);
    uint64_t *elsewhere = shmat(id, NULL, 0);
    CHECK(elsewhere != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    for (int round = 0; round < 3; round++) {
        for (uint64_t page = 0; page < SHARED; page++) fill(over, page, 1);
        CHECK(shmat(id, over, 0) == (void *)-1 && errno == EINVAL && holds(over, 0, 1));
        CHECK(shmat(id, over, SHM_REMAP) == over);
        for (uint64_t page = 0; page < SHARED; page++) fill(elsewhere, page, round);
        for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, round);
        for (uint64_t page = 0; page < SHARED; page++) CHECK(holds(over, page, round));
        wait_until_paged(memory, PAGES);
        fill(over, 0, 9);
        CHECK(holds(elsewhere, 0, 9));
        CHECK(shmdt(over) == 0);
        /* What was there before is not. */
        CHECK(mmap(over, SHARED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == over);
        CHECK(is_zero(over, 1));
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, round));
    }
    /* Advice goes on behind what is not there. */
    CHECK(shmat(id, memory, SHM_REMAP) == memory && shmdt(memory) == 0);
    CHECK(madvise(memory, PAGES * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
    for (uint64_t page = SHARED; page < PAGES; page++) CHECK(is_zero(memory, page));
    return 0;
}
