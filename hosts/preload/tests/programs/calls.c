/* System calls that are given memory which is not in place: read, write, sendmsg, recvmsg, futex. */
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { PAGES = 12000, PART = 16 };

static uint64_t *memory;

static void *hand_over(void *argument) {
    /* A mutex and a condition in memory that leaves all the time. */
    struct {
        pthread_mutex_t mutex;
        pthread_cond_t turned;
        int turn;
    } *both = argument;
    for (int i = 0; i < 200; i++) {
        CHECK(pthread_mutex_lock(&both->mutex) == 0);
        while (both->turn % 2 == 0) CHECK(pthread_cond_wait(&both->turned, &both->mutex) == 0);
        both->turn++;
        CHECK(pthread_cond_signal(&both->turned) == 0);
        CHECK(pthread_mutex_unlock(&both->mutex) == 0);
    }
    return NULL;
}

static void locks(void) {
    struct {
        pthread_mutex_t mutex;
        pthread_cond_t turned;
        int turn;
    } *both = (void *)map_pages(100);
    CHECK(pthread_mutex_init(&both->mutex, NULL) == 0 && pthread_cond_init(&both->turned, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hand_over, both) == 0);
    uint64_t state = 11;
    for (int i = 0; i < 200; i++) {
        CHECK(pthread_mutex_lock(&both->mutex) == 0);
        while (both->turn % 2 == 1) CHECK(pthread_cond_wait(&both->turned, &both->mutex) == 0);
        both->turn++;
        CHECK(pthread_cond_signal(&both->turned) == 0);
        CHECK(pthread_mutex_unlock(&both->mutex) == 0);
        for (int page = 0; page < 50; page++) CHECK(holds(memory, next_random(&state) % PAGES, 0));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(both->turn == 400);
}

int main(void) {
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 0);
    FILE *stream = tmpfile();
    CHECK(stream != NULL);
    int file = fileno(stream);
    CHECK(write(file, memory, PAGES * PAGE) == (ssize_t)(PAGES * PAGE));
    uint64_t *back = map_pages(PAGES);
    CHECK(pread(file, back, PAGES * PAGE, 0) == (ssize_t)(PAGES * PAGE));
    wait_until_paged(memory, PAGES);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 0) && holds(back, page, 0));

    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    for (uint64_t page = 0; page + PART <= PAGES; page += 10 * PART) {
        /* Header and vector lie in paged memory themselves. */
        struct msghdr *header = (void *)(back + (page + 5 * PART) % PAGES * WORDS);
        struct iovec *vector = (void *)(header + 1);
        memset(header, 0, sizeof *header);
        *vector = (struct iovec){memory + page * WORDS, PART * PAGE};
        header->msg_iov = vector;
        header->msg_iovlen = 1;
        CHECK(sendmsg(ends[0], header, 0) == (ssize_t)(PART * PAGE));
        vector->iov_base = back + page * WORDS;
        memset(vector->iov_base, 0, PART * PAGE);
        CHECK(recvmsg(ends[1], header, MSG_WAITALL) == (ssize_t)(PART * PAGE));
        for (int i = 0; i < PART; i++) CHECK(holds(back, page + i, 0));
    }
    locks();
    CHECK(fclose(stream) == 0);
    return 0;
}
